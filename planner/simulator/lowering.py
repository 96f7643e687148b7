"""From a placement to the transfers that its collectives make, and the flows that they are.

This reads the problem by itself: which worker sends what to whom follows from the algorithms' definitions, not from
anything that a model computed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.collective import ring_steps
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.problem import Demand, PlacementProblem
from fabric_plan.planner.simulator.program import Builder, Program

NOMINAL_SIZE = 64 * 2**20
"""Bytes per collective when a problem counts flows only."""

MAX_HOPS = 60_000
"""Beyond so many hops the collectives of an iteration are merged into fewer, larger ones, down to one."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One logical flow: from a seat to one seat, or to several by a multicast tree."""

    source: int
    targets: tuple[int, ...]


Follows = Sequence[tuple[int, ...]]

Hops = tuple[list[tuple[int, int]], int]
"""The hops of a flow as pairs (link, parent hop or -1), and into how many equal paths its bytes are striped."""


@dataclass(frozen=True, slots=True)
class Stage:
    """The flows of one group, the hops of each, how often each sends, and how the sends depend on one another.

    ``share`` is the part of the collective's size that a flow sends in a step. ``follows[i]`` are the flows whose send in
    the step before must have arrived before flow i sends again.
    """

    flows: tuple[Flow, ...]
    hops: tuple[Hops, ...]
    steps: int
    share: Fraction
    follows: tuple[tuple[int, ...], ...]


def stages(
    problem: PlacementProblem, demand: Demand, seats: Sequence[int], rings: Mapping[str, Sequence[Sequence[int]]]
) -> list[Stage]:
    """Return the stages of a demand: one for each group, or one for all multicasts."""
    strategy = problem.strategy

    def stage(pairs: Sequence[tuple[int, Sequence[int]]], steps: int, share: Fraction, follows: Follows) -> Stage:
        flows = tuple(Flow(source, tuple(targets)) for source, targets in pairs)
        return Stage(flows, tuple(hops_of(problem.fabric, flow) for flow in flows), steps, share, tuple(follows))

    if demand.algorithm == "multicast":
        trees = _multicasts(problem, demand, seats)
        return [stage(trees, 1, Fraction(1), [(i,) for i in range(len(trees))])]
    groups: Sequence[Sequence[int]] = strategy.groups(demand.dimension)
    if demand.order == "free":
        groups = rings[demand.dimension]
    found = []
    for group in groups:
        size = len(group)
        placed = [seats[worker] for worker in group]
        pairs: list[tuple[int, Sequence[int]]]
        if demand.algorithm == "ring":
            pairs = [(placed[i], [placed[(i + 1) % size]]) for i in range(size)]
            behind = [((i - 1) % size,) for i in range(size)]
            found.append(stage(pairs, ring_steps(demand.pattern, size), Fraction(1, size), behind))
        elif demand.algorithm == "direct":
            pairs = [(placed[i], [placed[(i + k) % size]]) for k in range(1, size) for i in range(size)]
            arriving = [tuple(f for f, pair in enumerate(pairs) if pair[1][0] == source) for source, _ in pairs]
            found.append(stage(pairs, 1, Fraction(1, size), arriving))
        else:
            forward = list(itertools.pairwise(placed))
            back = [(b, a) for a, b in forward] if demand.direction == "both" else []
            pairs = [(a, [b]) for a, b in forward + back]
            found.append(stage(pairs, 1, Fraction(1), [(i,) for i in range(len(pairs))]))
    return found


def _multicasts(problem: PlacementProblem, demand: Demand, seats: Sequence[int]) -> list[tuple[int, Sequence[int]]]:
    """Return (source, targets) of the multicasts between neighbouring stages: from MP digit 0 to every MP digit."""
    strategy = problem.strategy
    last = strategy.size("pp") - 1
    found: list[tuple[int, Sequence[int]]] = []
    for worker in range(strategy.workers):
        if strategy.digit(worker, "mp"):
            continue
        step, place = strategy.stride("pp"), strategy.digit(worker, "pp")
        turns = ([step] if place < last else []) + ([-step] if place > 0 and demand.direction == "both" else [])
        for turn in turns:
            receivers = [worker + turn + k * strategy.stride("mp") for k in range(strategy.size("mp"))]
            found.append((seats[worker], [seats[receiver] for receiver in receivers]))
    return found


def hops_of(fabric: Fabric, flow: Flow) -> Hops:
    """Return the hops of a flow as pairs (link, parent hop), and into how many equal paths its bytes are striped.

    A multicast crosses each link of its routes once, wherever several of them share it.
    """
    hops: list[tuple[int, int]] = []
    known: dict[tuple[int, int], int] = {}
    paths = 1
    for target in flow.targets:
        route = fabric.route(flow.source, target)
        paths = len(route)
        for stripe, path in enumerate(route):
            parent = -1
            for link in path:
                if (stripe, link) not in known:
                    known[stripe, link] = len(hops)
                    hops.append((link, parent))
                parent = known[stripe, link]
    return hops, paths


def hop_count(staged: Sequence[Sequence[Stage]]) -> int:
    """Return how many hops the program of some demands has at least, all collectives merged into one."""
    return sum(_hops_in(stage) for group in staged for stage in group)


def _hops_in(stage: Stage) -> int:
    return stage.steps * sum(len(hops) for hops, _ in stage.hops)


def program_for(demands: Sequence[Demand], staged: Sequence[Sequence[Stage]]) -> Program:
    """Return the program of some demands at once."""
    merged = [_merge(demand, group) for demand, group in zip(demands, staged, strict=True)]
    sizes = []
    for demand, merge in zip(demands, merged, strict=True):
        size = demand.size if demand.size is not None else Fraction(NOMINAL_SIZE * demand.count)
        sizes.append(size * merge / demand.count)
    scale = 1
    for size, group in zip(sizes, staged, strict=True):
        for stage in group:
            for paths in {paths for _, paths in stage.hops}:
                scale = math.lcm(scale, (size * stage.share / paths).denominator)
    builder = Builder(scale)
    for demand, size, merge, group in zip(demands, sizes, merged, staged, strict=True):
        for stage in group:
            bytes_of = {paths: int(size * stage.share / paths * scale) for _, paths in stage.hops}
            before: list[int] = []
            for _ in range(demand.count // merge * stage.steps):
                sent = []
                for index, (hops, paths) in enumerate(stage.hops):
                    needs = [before[k] for k in stage.follows[index]] if before else []
                    sent.append(builder.add(hops, bytes_of[paths], needs))
                before = sent
    return builder.program()


def _merge(demand: Demand, group: Sequence[Stage]) -> int:
    """Return how many collectives to merge into one: a divisor of the count, so that sizes stay exact."""
    hops = sum(map(_hops_in, group))
    for merge in range(1, demand.count + 1):
        if demand.count % merge == 0 and hops * (demand.count // merge) <= MAX_HOPS:
            return merge
    return demand.count
