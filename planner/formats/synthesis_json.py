"""Algorithms of SCCL and msccl-tools (``msccl_type``) and of TACCL (``sccl_type``): JSON with the collective's own pre- and postconditions.

Source: serialization.py and algorithm.py of msccl-tools and TACCL. Links are ``links[destination][source]``, in chunks a round.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.checked import listed, mapping, member, whole

MAX_RANKS = 65_536
MAX_SENDS = 5_000_000


@dataclass(frozen=True)
class Chunk:
    """A contribution: ranks that have it before, ranks that need it, and its address; several at one address are added up."""

    pre: frozenset[int]
    post: frozenset[int]
    address: int


@dataclass(frozen=True)
class Step:
    """A step: its rounds, and its sends as (address, source, target), each with its line."""

    rounds: float
    sends: tuple[tuple[int, int, int], ...]
    lines: tuple[int, ...]
    times: tuple[float, ...] = ()


@dataclass(frozen=True)
class Synthesised:
    """An algorithm.

    Parameters
    ----------
    links
        Chunks that link (source, target) takes in a round, of pairs that have one; None where the file does not say.
    switches
        (name, sources, targets, chunks a round in all).
    pipeline
        Steps after which the algorithm begins anew, None: it runs once.
    """

    kind: str
    name: str
    collective: str
    runtime_name: str | None
    ranks: int
    chunks: tuple[Chunk, ...]
    steps: tuple[Step, ...]
    links: dict[tuple[int, int], float] | None
    switches: tuple[tuple[str, frozenset[int], frozenset[int], float], ...]
    pipeline: int | None


def read_synthesised(document: dict[str, Any], text: str) -> Synthesised:
    """Read an algorithm.

    Raises
    ------
    InvalidInput
        When it is none; one line with the place.
    """
    key = "msccl_type" if "msccl_type" in document else "sccl_type"
    if document.get(key) != "algorithm":
        raise InvalidInput(f"{key}={document.get(key)!r}: expected an algorithm")
    taccl = key == "sccl_type"
    collective = mapping(member(document, "collective", "the algorithm"), "collective")
    ranks = whole(member(collective, "nodes", "collective"), "collective.nodes", 1, MAX_RANKS)
    chunks = tuple(
        _chunk(one, f"collective.chunks[{k}]", ranks)
        for k, one in enumerate(listed(member(collective, "chunks", "collective"), "collective.chunks"))
    )
    known = {chunk.address for chunk in chunks}
    starts = _send_lines(text)
    steps, total = [], 0
    for number, step in enumerate(listed(member(document, "steps", "the algorithm"), "steps")):
        where = f"steps[{number}]"
        body = mapping(step, where)
        rounds = body.get("rounds", 1)
        if isinstance(rounds, bool) or not isinstance(rounds, int | float) or not 0 <= rounds < 1e12:
            raise InvalidInput(f"{where}.rounds: expected a number, found {str(rounds)[:40]}")
        rows = listed(member(body, "sends", where), f"{where}.sends")
        total += len(rows)
        if total > MAX_SENDS:
            raise InvalidInput(f"{where}: more than {MAX_SENDS:,} sends")
        sends, times = [], []
        for k, row in enumerate(rows):
            place = f"{where}.sends[{k}]"
            cells = listed(row, place)
            if not (4 <= len(cells) <= 6 if taccl else len(cells) == 3):
                raise InvalidInput(f"{place}: expected [address, source, target{', time, ...' if taccl else ''}]")
            address = whole(cells[0], f"{place}[0]", 0)
            source, target = (whole(cells[j], f"{place}[{j}]", 0, ranks - 1) for j in (1, 2))
            if address not in known:
                raise InvalidInput(f"{place}: no chunk has the address {address}")
            if taccl:
                if isinstance(cells[3], bool) or not isinstance(cells[3], int | float) or cells[3] != cells[3]:
                    raise InvalidInput(f"{place}[3]: expected a time, found {str(cells[3])[:40]}")
                times.append(float(cells[3]))
            sends.append((address, source, target))
        found = starts[number] if number < len(starts) else ()
        lines = tuple(found[: len(rows)]) if len(found) >= len(rows) else (1,) * len(rows)
        steps.append(Step(float(rounds), tuple(sends), lines, tuple(times)))
    links, switches = (None, ()) if taccl else _topology(document, ranks)
    instance = document.get("instance")
    pipeline = instance.get("pipeline") if isinstance(instance, dict) else None
    runtime = collective.get("runtime_name")
    return Synthesised(
        "taccl" if taccl else "sccl",
        str(document.get("name", "")),
        str(collective.get("name", "")),
        runtime if isinstance(runtime, str) else None,
        ranks,
        chunks,
        tuple(steps),
        links,
        switches,
        None if pipeline is None else whole(pipeline, "instance.pipeline", 1),
    )


def _chunk(value: Any, where: str, ranks: int) -> Chunk:
    body = mapping(value, where)
    pre, post = (
        frozenset(
            whole(one, f"{where}.{key}[{k}]", 0, ranks - 1)
            for k, one in enumerate(listed(member(body, key, where), f"{where}.{key}"))
        )
        for key in ("pre", "post")
    )
    return Chunk(pre, post, whole(member(body, "addr", where), f"{where}.addr", 0))


def _topology(
    document: dict[str, Any], ranks: int
) -> tuple[dict[tuple[int, int], float] | None, tuple[tuple[str, frozenset[int], frozenset[int], float], ...]]:
    if document.get("topology") is None:
        return None, ()
    topology = mapping(document["topology"], "topology")
    rows = listed(member(topology, "links", "topology"), "topology.links")
    if len(rows) != ranks:
        raise InvalidInput(f"topology.links: {len(rows)} rows, but the collective has {ranks} nodes")
    links: dict[tuple[int, int], float] = {}
    for target, row in enumerate(rows):
        cells = listed(row, f"topology.links[{target}]")
        if len(cells) != ranks:
            raise InvalidInput(f"topology.links[{target}]: {len(cells)} entries, expected {ranks}")
        for source, width in enumerate(cells):
            if isinstance(width, bool) or not isinstance(width, int | float) or not 0 <= width < 1e12:
                raise InvalidInput(f"topology.links[{target}][{source}]: expected a number, found {str(width)[:40]}")
            if width:
                links[source, target] = width
    switches = []
    for k, one in enumerate(listed(topology.get("switches") or [], "topology.switches")):
        where = f"topology.switches[{k}]"
        cells = listed(one, where)
        if len(cells) != 4 or isinstance(cells[2], bool) or not isinstance(cells[2], int | float):
            raise InvalidInput(f"{where}: expected [sources, targets, chunks a round, name]")
        ends = [frozenset(whole(r, f"{where}[{j}]", 0, ranks - 1) for r in listed(cells[j], where)) for j in (0, 1)]
        switches.append((str(cells[3]), ends[0], ends[1], float(cells[2])))
    return links, tuple(switches)


def _send_lines(text: str) -> list[list[int]]:
    """Return the lines of each step's sends, as far as the text shows them."""
    found = []
    for match in re.finditer(r'"sends"\s*:\s*\[', text):
        position, line, lines = match.end(), text.count("\n", 0, match.end()) + 1, []
        while True:
            hit = re.compile(r"[\[\]]").search(text, position)
            if hit is None or hit[0] == "]":
                break
            line += text.count("\n", position, hit.start())
            lines.append(line)
            end = text.find("]", hit.end())
            if end < 0:
                break
            line += text.count("\n", hit.start(), end)
            position = end + 1
        found.append(lines)
    return found
