"""Chromatic numbers against brute force, known graphs, and the shared DIMACS files."""

from __future__ import annotations

import csv
import itertools
import random
from pathlib import Path

import pytest

from fabric_plan.models.routing.chromatic import chromatic, reduced
from fabric_plan.planner.formats.dimacs import Adjacency, parse_col
from fabric_plan.planner.interface import Budget

OPEN = {"myciel6", "DSJC125.5", "DSJC125.9", "1-Insertions_4"}
QUICK = {"myciel3", "myciel4", "queen5_5", "queen6_6", "david", "huck", "1-FullIns_3", "2-Insertions_3", "le450_25a"}


def random_graph(source: random.Random, size: int, density: float) -> Adjacency:
    graph: Adjacency = [set() for _ in range(size)]
    for a, b in itertools.combinations(range(size), 2):
        if source.random() < density:
            graph[a].add(b)
            graph[b].add(a)
    return graph


def brute_force(graph: Adjacency) -> int:
    for colours in range(len(graph) + 1):
        if _colourable(graph, colours, [], 0):
            return colours
    raise AssertionError


def _colourable(graph: Adjacency, colours: int, mine: list[int], used: int) -> bool:
    vertex = len(mine)
    if vertex == len(graph):
        return True
    for colour in range(min(used + 1, colours)):
        fits = all(other >= vertex or mine[other] != colour for other in graph[vertex])
        if fits and _colourable(graph, colours, [*mine, colour], max(used, colour + 1)):
            return True
    return False


@pytest.mark.parametrize("seed", range(60))
def test_brute_force(seed: int) -> None:
    source = random.Random(seed)
    graph = random_graph(source, source.randint(1, 11), source.choice([0.2, 0.5, 0.8]))
    found = chromatic(graph, Budget(seconds=20, workers=1))
    assert found.used == found.bound == brute_force(graph)
    assert all(found.colours[a] != found.colours[b] for a in range(len(graph)) for b in graph[a])


def test_what_is_left_out_changes_nothing() -> None:
    for seed in range(40):
        source = random.Random(seed)
        graph = random_graph(source, 10, 0.4)
        kept, gone = reduced(graph, 2)
        order = sorted(kept)
        inner = [{order.index(other) for other in graph[vertex] & kept} for vertex in order]
        assert len(kept) + len(gone) == 10
        assert max(brute_force(inner), 2) == max(brute_force(graph), 2)


def test_groetzsch() -> None:
    """Mycielski's graph of a 5-cycle: no triangle, four colours."""
    graph: Adjacency = [set() for _ in range(11)]
    for k in range(5):
        for a, b in ((k, (k + 1) % 5), (k, 5 + (k + 1) % 5), (k, 5 + (k - 1) % 5), (5 + k, 10)):
            graph[a].add(b)
            graph[b].add(a)
    found = chromatic(graph, Budget(seconds=20, workers=1))
    assert (found.used, found.bound, found.proof) == (4, 4, "3 colours were refuted")


def test_no_time_still_gives_a_colouring() -> None:
    budget = Budget(seconds=20, workers=1)
    budget.stop.set()
    graph = random_graph(random.Random(1), 40, 0.5)
    found = chromatic(graph, budget)
    assert found.bound <= found.used
    assert all(found.colours[a] != found.colours[b] for a in range(len(graph)) for b in graph[a])


def known(shared: Path) -> dict[str, int]:
    with (shared / "data" / "dimacs" / "MANIFEST.tsv").open() as stream:
        return {row["name"]: int(row["chromatic_number"]) for row in csv.DictReader(stream, delimiter="\t")}


@pytest.mark.parametrize("name", sorted(QUICK))
def test_small_shared_files(shared: Path, name: str) -> None:
    _proves(shared, name)


@pytest.mark.slow
def test_all_shared_files(shared: Path) -> None:
    for name in sorted(known(shared).keys() - OPEN):
        _proves(shared, name)


def _proves(shared: Path, name: str) -> None:
    graph = parse_col((shared / "data" / "dimacs" / f"{name}.col").read_text(), name)
    found = chromatic(graph, Budget(seconds=60, workers=2))
    assert found.used == found.bound == known(shared)[name]
