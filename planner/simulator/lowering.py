"""From a placement to the transfers that its collectives make, and the flows that they are.

This reads the problem by itself: which worker sends what to whom follows from the algorithms' definitions, not from
anything that a model computed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.collective import ring_steps
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.problem import Demand, PlacementProblem
from fabric_plan.planner.simulator.engine import Program

NOMINAL_SIZE = 64 * 2**20
"""Bytes per collective when a problem counts flows only."""

MAX_HOPS = 60_000
"""Beyond so many hops the collectives of an iteration are merged into fewer, larger ones, down to one."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One logical flow: from a seat to one seat, or to several by a multicast tree."""

    source: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stage:
    """The flows of one group, how often each sends, and how the sends depend on one another.

    ``follows[i]`` are the flows whose send in the step before must have arrived before flow i sends again.
    """

    flows: tuple[Flow, ...]
    steps: int
    share: Fraction
    follows: tuple[tuple[int, ...], ...]


def stages(
    problem: PlacementProblem, demand: Demand, seats: Sequence[int], rings: Mapping[str, Sequence[Sequence[int]]]
) -> list[Stage]:
    """Return the stages of a demand, one for each group; ``share`` is the part of the size that a flow sends a step."""
    strategy = problem.strategy
    found = []
    if demand.algorithm == "multicast":
        return [_multicast(problem, demand, seats)]
    if demand.order == "free":
        groups: Sequence[Sequence[int]] = rings[demand.dimension]
    else:
        groups = strategy.groups(demand.dimension)
    for group in groups:
        size = len(group)
        placed = [seats[worker] for worker in group]
        if demand.algorithm == "ring":
            flows = tuple(Flow(placed[i], (placed[(i + 1) % size],)) for i in range(size))
            behind = tuple(((i - 1) % size,) for i in range(size))
            found.append(Stage(flows, ring_steps(demand.pattern, size), Fraction(1, size), behind))
        elif demand.algorithm == "direct":
            flows = tuple(Flow(placed[i], (placed[(i + k) % size],)) for k in range(1, size) for i in range(size))
            arriving = tuple(
                tuple(f for f, flow in enumerate(flows) if flow.targets[0] == sender.source) for sender in flows
            )
            found.append(Stage(flows, 1, Fraction(1, size), arriving))
        else:
            pairs = [(placed[i], placed[i + 1]) for i in range(size - 1)]
            if demand.direction == "both":
                pairs += [(b, a) for a, b in pairs]
            flows = tuple(Flow(a, (b,)) for a, b in pairs)
            found.append(Stage(flows, 1, Fraction(1), tuple((i,) for i in range(len(flows)))))
    return found


def _multicast(problem: PlacementProblem, demand: Demand, seats: Sequence[int]) -> Stage:
    """Return the multicasts between neighbouring stages: from the worker with MP digit 0 to every MP digit."""
    strategy = problem.strategy
    last = strategy.size("pp") - 1
    flows = []
    for worker in range(strategy.workers):
        if strategy.digit(worker, "mp"):
            continue
        step, stage = strategy.stride("pp"), strategy.digit(worker, "pp")
        turns = ([step] if stage < last else []) + ([-step] if stage > 0 and demand.direction == "both" else [])
        for turn in turns:
            receivers = [worker + turn + k * strategy.stride("mp") for k in range(strategy.size("mp"))]
            flows.append(Flow(seats[worker], tuple(seats[receiver] for receiver in receivers)))
    return Stage(tuple(flows), 1, Fraction(1), tuple((i,) for i in range(len(flows))))


def hops_of(fabric: Fabric, flow: Flow) -> tuple[list[tuple[int, int]], int]:
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


def hop_count(problem: PlacementProblem, demands: Sequence[Demand], staged: Sequence[Sequence[Stage]]) -> int:
    """Return how many hops the program of some demands has at least, all collectives merged into one."""
    total = 0
    for _, group in zip(demands, staged, strict=True):
        for stage in group:
            total += stage.steps * sum(len(hops_of(problem.fabric, flow)[0]) for flow in stage.flows)
    return total


def program_for(problem: PlacementProblem, demands: Sequence[Demand], staged: Sequence[Sequence[Stage]]) -> Program:
    """Return the program of some demands at once."""
    lowered = [
        [(stage, [hops_of(problem.fabric, flow) for flow in stage.flows]) for stage in group] for group in staged
    ]
    merged = [_merge(demand, group) for demand, group in zip(demands, lowered, strict=True)]
    sizes = []
    for demand, merge in zip(demands, merged, strict=True):
        size = demand.size if demand.size is not None else Fraction(NOMINAL_SIZE * demand.count)
        sizes.append(size * merge / demand.count)
    scale = 1
    for size, group in zip(sizes, lowered, strict=True):
        for stage, flows in group:
            for _, paths in flows:
                scale = math.lcm(scale, (size * stage.share / paths).denominator)
    program = Program(scale)
    for demand, size, merge, group in zip(demands, sizes, merged, lowered, strict=True):
        for stage, flows in group:
            before: list[int] = []
            for _ in range(demand.count // merge * stage.steps):
                sent = []
                for index, (hops, paths) in enumerate(flows):
                    needs = [before[k] for k in stage.follows[index]] if before else []
                    sent.append(program.add(hops, int(size * stage.share / paths * scale), needs))
                before = sent
    return program


def _merge(demand: Demand, group: Sequence[tuple[Stage, Sequence[tuple[list[tuple[int, int]], int]]]]) -> int:
    """Return how many collectives to merge into one: a divisor of the count, so that sizes stay exact."""
    hops = sum(stage.steps * sum(len(flow) for flow, _ in flows) for stage, flows in group)
    for merge in range(1, demand.count + 1):
        if demand.count % merge == 0 and hops * (demand.count // merge) <= MAX_HOPS:
            return merge
    return demand.count
