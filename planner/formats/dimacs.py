"""Graphs in DIMACS colouring format: ``c`` comments, ``p edge N M``, ``e u v`` (vertices from 1; edges may be listed twice)."""

from __future__ import annotations

from fabric_plan.planner.errors import InvalidInput

MAX_VERTICES = 100_000

Adjacency = list[set[int]]
"""The neighbours of each vertex, from 0."""


def parse_col(text: str, where: str) -> Adjacency:
    """Read a graph.

    Raises
    ------
    InvalidInput
        Naming the file and line that is wrong.
    """
    graph: Adjacency | None = None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0] == "c":
            continue
        at = f"{where}: line {number}"
        if words[0] == "p":
            if graph is not None:
                raise InvalidInput(f"{at}: a second problem line")
            if len(words) != 4 or words[1] not in ("edge", "edges", "col") or not all(map(_whole, words[2:])):
                raise InvalidInput(f"{at}: expected 'p edge VERTICES EDGES'")
            if int(words[2]) > MAX_VERTICES:
                raise InvalidInput(f"{at}: {words[2]} vertices are more than can be coloured here ({MAX_VERTICES:,})")
            graph = [set() for _ in range(int(words[2]))]
        elif words[0] == "e":
            if graph is None:
                raise InvalidInput(f"{at}: an edge before the problem line")
            if len(words) != 3 or not all(map(_whole, words[1:])):
                raise InvalidInput(f"{at}: expected 'e U V'")
            a, b = int(words[1]), int(words[2])
            if not (1 <= a <= len(graph) and 1 <= b <= len(graph)):
                raise InvalidInput(f"{at}: vertices go from 1 to {len(graph)}")
            if a == b:
                raise InvalidInput(f"{at}: vertex {a} is joined to itself, so it has no colour")
            graph[a - 1].add(b - 1)
            graph[b - 1].add(a - 1)
        elif words[0] not in ("n", "d", "v", "x"):
            raise InvalidInput(f"{at}: unknown line {words[0]!r}: expected c, p or e")
    if graph is None:
        raise InvalidInput(f"{where}: no problem line: expected 'p edge VERTICES EDGES'")
    return graph


def _whole(word: str) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 10
