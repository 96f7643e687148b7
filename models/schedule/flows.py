"""All-to-all along the ways of a multicommodity flow: each block parted over ways whose loads together are least.

One linear program a fabric: a flow from every rank, of a block to each other, over hops between ranks; the busiest link's seconds are least. A
flow falls apart into ways, ways get whole numbers of chunks, and hops follow one another. With a group of permutations that keeps the links and
moves every rank, one root of an orbit is solved and its images follow.

Source: Basu et al., Efficient all-to-all collective communication schedules for direct-connect topologies, for the flow and its parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.listed import relisted
from fabric_plan.models.schedule.logical import Pair, direct_links
from fabric_plan.models.schedule.symmetry import Permutation, free_group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, check_memory, padded

MOST_VARIABLES = 60_000
MOST_TRANSFERS = 400_000

PARTS = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 18, 24, 32)
"""Numbers of chunks that are tried for a block."""

MOST_PIECES = 64
"""Chunks of a block where more are not needed to share it out."""

NEAR = 0.005
"""What rounding to chunks may add to the busiest link before more chunks are tried."""

BUSY = (8, 2)
"""How steeply a link counts by what it carries: one with half of what the busiest carries counts a quarter where it is 2. Both are tried."""

Way = tuple[int, ...]
"""Ranks from a source to a target."""


@dataclass(frozen=True)
class Ways:
    """By (source, target): ways and the part of the block that takes each; and the seconds a byte of block by the flow."""

    parts: dict[Pair, list[tuple[Way, float]]]
    seconds: float


@dataclass(frozen=True)
class Hops:
    """Pairs of ranks that send to each other without passing a third, and the links that they use with their shares."""

    ranks: int
    links: dict[Pair, list[tuple[int, Fraction]]]
    bandwidth: tuple[int, ...]

    @property
    def plain(self) -> bool:
        """Whether every hop is one link that no other hop uses."""
        used = [link for links in self.links.values() for link, _ in links]
        return all(len(links) == 1 for links in self.links.values()) and len(set(used)) == len(used)


def hops_of(group: Group) -> Hops:
    """Return the hops of a group."""
    found = {}
    for a in range(group.size):
        for b in range(group.size):
            links = direct_links(group, a, b) if a != b else None
            if links:
                found[a, b] = links
    return Hops(group.size, found, tuple(link.bandwidth for link in group.fabric.links))


def ways_of(hops: Hops) -> Ways:
    """Return the ways of a least flow.

    Raises
    ------
    InvalidProblem
        When the program would be too large, or some rank cannot be reached.
    """
    group: list[Permutation] = [np.arange(hops.ranks)]
    if hops.plain:
        weights = np.zeros((hops.ranks, hops.ranks))
        for (a, b), links in hops.links.items():
            weights[a, b] = hops.bandwidth[links[0][0]]
        group = free_group(weights)
    roots = sorted(set(np.min(np.stack(group), axis=0).tolist()))
    if len(roots) * len(hops.links) > MOST_VARIABLES:
        raise InvalidProblem(
            f"flows: {len(roots) * len(hops.links):,} variables are more than the {MOST_VARIABLES:,} that are solved in time"
        )
    flow, seconds = _least_flow(hops, roots, group)
    parts: dict[Pair, list[tuple[Way, float]]] = {}
    for root in roots:
        for target, ways in _parted(hops.ranks, root, flow[root]).items():
            for image in group:
                parts[int(image[root]), int(image[target])] = [
                    (tuple(int(image[at]) for at in way), part) for way, part in ways
                ]
    return Ways(parts, seconds)


def _least_flow(hops: Hops, roots: list[int], group: list[Permutation]) -> tuple[dict[int, dict[Pair, float]], float]:
    """Solve the program; return by root what each hop carries, in blocks, and the seconds that a byte of block takes."""
    from ortools.linear_solver import pywraplp

    solver = pywraplp.Solver.CreateSolver("GLOP")
    assert solver is not None
    unit = float(max(hops.bandwidth))
    time = solver.NumVar(0, solver.infinity(), "")
    flow = {
        root: {pair: solver.NumVar(0, solver.infinity(), "") for pair in hops.links if pair[1] != root}
        for root in roots
    }
    goal = solver.Objective()
    goal.SetCoefficient(time, 1)
    for root in roots:
        rows = [solver.Constraint(1, 1) if at != root else None for at in range(hops.ranks)]
        for (a, b), one in flow[root].items():
            # Of equally quick flows the shortest: it has no circles, and little to forward.
            goal.SetCoefficient(one, 1e-6)
            entering, leaving = rows[b], rows[a]
            assert entering is not None
            entering.SetCoefficient(one, 1)
            if leaving is not None:
                leaving.SetCoefficient(one, -1)
    rooms: dict[int, dict[int, tuple[object, float]]] = {}
    orbit = {
        pair: min((int(p[pair[0]]), int(p[pair[1]])) for p in group) if len(group) > 1 else pair for pair in hops.links
    }
    for root in roots:
        for pair, one in flow[root].items():
            for link, share in hops.links[orbit[pair]]:
                terms = rooms.setdefault(link, {})
                terms[id(one)] = (one, float(share))
    for link, terms in rooms.items():
        row = solver.Constraint(-solver.infinity(), 0)
        row.SetCoefficient(time, -hops.bandwidth[link] / unit)
        for one, part in terms.values():
            row.SetCoefficient(one, part)
    goal.SetMinimization()
    solver.SetTimeLimit(100_000)
    if solver.Solve() != pywraplp.Solver.OPTIMAL:
        raise InvalidProblem(
            "flows: the linear program was not solved: some rank cannot be reached, or it took too long"
        )
    found = {
        root: {pair: one.solution_value() for pair, one in mine.items() if one.solution_value() > 1e-9}
        for root, mine in flow.items()
    }
    return found, time.solution_value() / unit


def _parted(ranks: int, root: int, flow: dict[Pair, float]) -> dict[int, list[tuple[Way, float]]]:
    """Return the ways from a root to every other rank that a flow falls apart into, with their parts of a block."""
    into: list[dict[int, float]] = [{} for _ in range(ranks)]
    for (a, b), much in flow.items():
        into[b][a] = much
    # Ranks that forward nothing first: what enters the others is theirs and what they forward.
    order = sorted(range(ranks), key=lambda at: -_depth(into, root, at))
    found: dict[int, list[tuple[Way, float]]] = {}
    for target in order:
        if target == root:
            continue
        left = 1.0
        ways: dict[Way, float] = {}
        while left > 1e-7:
            way = [target]
            most = left
            while way[-1] != root:
                here = into[way[-1]]
                before = max((one for one in here if one not in way), key=lambda one: here[one], default=-1)
                if before < 0 or here[before] <= 1e-9:
                    most = 0.0
                    break
                most = min(most, here[before])
                way.append(before)
            if most <= 0.0:
                break
            for b, a in itertools.pairwise(way):
                into[b][a] -= most
            key = tuple(reversed(way))
            ways[key] = ways.get(key, 0.0) + most
            left -= most
        if not ways:
            raise InvalidProblem("flows: the flow does not fall apart into ways")
        total = sum(ways.values())
        found[target] = [(way, part / total) for way, part in ways.items()]
    return found


def _depth(into: list[dict[int, float]], root: int, at: int) -> int:
    """Return the hops of the longest of the widest ways back to the root."""
    depth, seen = 0, {at}
    while at != root:
        choices = {one: much for one, much in into[at].items() if one not in seen}
        if not choices:
            break
        at = max(choices, key=lambda one: choices[one])
        seen.add(at)
        depth += 1
    return depth


def rounded(ways: Ways, each: int) -> dict[Pair, list[tuple[Way, int]]]:
    """Return by pair how many of a block's ``each`` chunks take each way: the nearest whole numbers that add up."""
    found = {}
    for pair, parts in ways.parts.items():
        shares = [part * each for _, part in parts]
        whole = [int(share + 1e-9) for share in shares]
        order = sorted(range(len(parts)), key=lambda k: (whole[k] - shares[k], len(parts[k][0])))
        for k in order[: each - sum(whole)]:
            whole[k] += 1
        found[pair] = [(way, many) for (way, _), many in zip(parts, whole, strict=True) if many]
    return found


def seconds_of(hops: Hops, chosen: dict[Pair, list[tuple[Way, int]]], each: int) -> float:
    """Return the seconds that a byte of every block takes on the busiest link."""
    load = np.zeros(len(hops.bandwidth))
    for ways in chosen.values():
        for way, many in ways:
            for a, b in itertools.pairwise(way):
                for link, share in hops.links[a, b]:
                    load[link] += many * float(share)
    return float((load / np.array(hops.bandwidth)).max()) / each


def flows(group: Group, chunks: int) -> Iterator[tuple[Columns, list[int]]]:
    """Yield all-to-alls along the ways of a least flow, in each order that list schedules find; ``chunks`` to a block, or as many as come near the flow where it is 0."""
    hops = hops_of(group)
    ways = ways_of(hops)
    chosen: dict[Pair, list[tuple[Way, int]]] = {}
    best = each = 0
    value = float("inf")
    for each in (chunks,) if chunks else PARTS:
        one = rounded(ways, each)
        seconds = seconds_of(hops, one, each)
        count = sum(len(way) - 1 for parts in one.values() for way, _ in parts)
        if count * each > MOST_TRANSFERS and chosen:
            break
        if seconds < value:
            chosen, value, best = one, seconds, each
        if value <= ways.seconds * (1 + NEAR):
            break
    finer = 1 if chunks else _finer(group, chosen, best)
    chosen = {pair: [(way, many * finer) for way, many in parts] for pair, parts in chosen.items()}
    yield from _written(group, hops, chosen, best * finer)


def _finer(group: Group, chosen: dict[Pair, list[tuple[Way, int]]], each: int) -> int:
    """Return into how many pieces to cut chunks: the last of them is delayed at every rank and switch, so small, but not below the latency."""
    count = sum((len(way) - 1) * many for parts in chosen.values() for way, many in parts)
    wait = float(group.latency) * float(group.bandwidth)
    piece = float(group.job.size) / group.size / each
    fine = piece / wait if wait else MOST_PIECES
    return int(max(1, min(MOST_PIECES // each, MOST_TRANSFERS // (2 * count), fine)))


def _written(
    group: Group, hops: Hops, chosen: dict[Pair, list[tuple[Way, int]]], each: int
) -> Iterator[tuple[Columns, list[int]]]:
    """Write the ways as transfers, a chunk each; each link first takes what has most of the way over busy links before it."""
    check_memory(sum((len(way) - 1) * many for ways in chosen.values() for way, many in ways), "flows")
    load = np.zeros(len(hops.bandwidth))
    rows: list[tuple[int, int, int]] = []
    needs: list[list[int]] = []
    for (a, b), ways in chosen.items():
        first = (a * group.size + b) * each
        for way, many in ways:
            for pair in itertools.pairwise(way):
                for link, share in hops.links[pair]:
                    load[link] += many * float(share) / hops.bandwidth[link]
            for _ in range(many):
                for hop, (source, target) in enumerate(itertools.pairwise(way)):
                    needs.append([len(rows) - 1] if hop else [])
                    rows.append((source, target, first))
                first += 1
    table = np.array(rows)
    columns = Columns()
    columns.add(group.nodes[table[:, 0]], group.nodes[table[:, 1]], table[:, 2], needs=padded(needs))
    transfers, chunk = columns.transfers(), group.job.size / group.size / each
    block = table[:, 2] // each
    turn = (table[:, 2] % each + (block % group.size - block // group.size) % group.size / group.size) * 1e-6
    for steep in BUSY:
        busy = (load / load.max()) ** steep
        weight = {pair: max(float(busy[link]) for link, _ in links) for pair, links in hops.links.items()}
        ahead = np.array([weight[pair] for pair in zip(table[:, 0].tolist(), table[:, 1].tolist(), strict=True)])
        for row in range(len(rows) - 1, 0, -1):
            if needs[row]:
                ahead[row - 1] += ahead[row]
        for one in relisted(group, transfers, chunk, turn - ahead):
            yield one, [owner for owner in range(group.size**2) for _ in range(each)]
