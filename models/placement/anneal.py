"""Simulated annealing on seats and ring orders: the incumbent and the hint of the exact model."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fabric_plan.models.placement.instance import Instance, Solution
from fabric_plan.planner.fabric import coordinates, seat_at
from fabric_plan.planner.interface import Budget

if TYPE_CHECKING:
    from fabric_plan.models.placement.kernel import Ints, State

MOVES = 200_000
"""Moves in a slice; between slices the clock and the stop event are looked at."""


class Annealer:
    """Annealing of one instance. A search keeps its state between calls; every call returns the best it saw."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance = instance
        self.state = _state(instance, seed)
        self._weight = max((instance.weights[net.demand] for net in instance.nets), default=1) * max(
            instance.link_costs, default=1
        )

    def load(self, solution: Solution) -> None:
        """Start from a solution."""
        s, instance = self.state, self.instance
        s.seat[:] = solution.seats
        s.holder[:] = -1
        s.holder[s.seat] = np.arange(instance.workers)
        s.standing[:] = instance.slot_workers(solution)
        s.places[:] = -1
        filled = [0] * instance.workers
        for slot, worker in enumerate(s.standing):
            s.places[worker, filled[worker]] = slot
            filled[worker] += 1

    def run(
        self,
        goals: Sequence[int],
        *,
        moves: int = MOVES,
        heat: float = 0.6,
        hop_price: float = 0.0,
        budget: Budget | None = None,
        seconds: float = math.inf,
    ) -> tuple[Solution, int]:
        """Anneal once towards the loads ``goals`` of the phases; return the best solution and its excess over them.

        ``heat`` is the starting temperature as a part of the heaviest flow's load on a link; it falls to a twentieth.
        Zero heat is a descent. The run is made in slices, between which the budget is looked at.
        """
        from fabric_plan.models.placement import kernel

        s = self.state
        s.goal[:] = goals
        excess, hops = kernel.fill(s)
        scale = float(self._weight * max(self.instance.phase_weights))
        slices = max(1, moves // MOVES)
        seat, standing = np.empty_like(s.seat), np.empty_like(s.standing)
        best: tuple[float, Solution, int] | None = None
        started = time.monotonic()
        for part in range(slices):
            hot, cold = (heat * scale * 20 ** (-k / slices) for k in (part, part + 1))
            excess, hops, least, fewest, _ = kernel.anneal(
                s, moves // slices, hot, cold, hop_price * scale, excess, hops, seat, standing
            )
            energy = least + hop_price * scale * fewest
            if best is None or energy < best[0]:
                best = energy, self._solution(seat, standing), int(least)
            late = time.monotonic() - started > seconds or (budget is not None and budget.left <= 0)
            if late or (least == 0 and hop_price == 0):
                break
        assert best is not None
        return best[1], best[2]

    def _solution(self, seat: Ints, standing: Ints) -> Solution:
        orders = tuple(
            tuple(int(w) for w in standing[ring.first : ring.first + len(ring.members)]) for ring in self.instance.rings
        )
        return Solution(tuple(int(x) for x in seat), orders)

    def shuffle(self, generator: np.random.Generator) -> None:
        """Start from random seats."""
        instance = self.instance
        seats = generator.permutation(instance.seats)[: instance.workers]
        self.load(instance.start([int(x) for x in seats]))


def _state(instance: Instance, seed: int) -> State:
    from fabric_plan.models.placement.kernel import State

    def ints(values: Sequence[int]) -> Ints:
        return np.array(values, dtype=np.int64)

    def rows(lists: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
        start = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in lists], out=start[1:])
        return start, ints([item for one in lists for item in one])

    touching: list[list[int]] = [[] for _ in range(instance.slots)]
    for index, net in enumerate(instance.nets):
        for slot in dict.fromkeys((net.root, *net.targets)):
            touching[slot].append(index)
    touch_start, touch = rows(touching)
    target_start, target = rows([net.targets for net in instance.nets])
    free_dimensions = len({ring.demand for ring in instance.rings})
    grid = instance.is_grid
    empty = ints([])
    route_start, route_link, route_cost = (empty, empty, empty) if grid else instance.table
    shape = instance.fabric.shape if grid else ()
    steps = _steps(instance) if grid else (empty, empty)
    links = len(instance.fabric.links)
    return State(
        seat=np.zeros(instance.workers, dtype=np.int64),
        holder=np.full(instance.seats, -1, dtype=np.int64),
        standing=np.zeros(instance.slots, dtype=np.int64),
        places=np.full((instance.workers, 1 + free_dimensions), -1, dtype=np.int64),
        touch_start=touch_start,
        touch=touch,
        root=ints([net.root for net in instance.nets]),
        target_start=target_start,
        target=target,
        weight=ints([instance.weights[net.demand] for net in instance.nets]),
        phase=ints([instance.phase(net.demand) for net in instance.nets]),
        price=ints(instance.phase_weights),
        load=np.zeros(instance.phases * links, dtype=np.int64),
        goal=np.zeros(instance.phases, dtype=np.int64),
        ring_first=ints([ring.first for ring in instance.rings]),
        ring_size=ints([len(ring.members) for ring in instance.rings]),
        route_start=route_start,
        route_link=route_link,
        route_cost=route_cost,
        shape=ints(shape),
        wraps=ints([instance.fabric.routing == "dimension-order"]),
        place=ints([x for seat in range(instance.seats) for x in coordinates(seat, shape)]) if grid else empty,
        step_link=steps[0],
        step_seat=steps[1],
        link_cost=ints(instance.link_costs),
        stamp=np.zeros(links, dtype=np.int64),
        seen=np.zeros(len(instance.nets), dtype=np.int64),
        journal=np.zeros((2, _journal_length(instance)), dtype=np.int64),
        near=_near(instance),
        counter=np.zeros(3, dtype=np.int64),
        random=np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64 or 1], dtype=np.uint64),
    )


def _steps(instance: Instance) -> tuple[Ints, Ints]:
    """Return the link from every seat along every axis, down and up, and the seat it leads to; -1 where there is none."""
    shape = instance.fabric.shape
    axes = len(shape)
    between = {(link.source, link.target): index for index, link in enumerate(instance.fabric.links)}
    nodes = instance.fabric.seats
    link_of = np.full(instance.seats * 2 * axes, -1, dtype=np.int64)
    seat_of = np.full(instance.seats * 2 * axes, -1, dtype=np.int64)
    for seat in range(instance.seats):
        place = coordinates(seat, shape)
        for axis, side in enumerate(shape):
            for way, move in ((2 * axis, -1), (2 * axis + 1, 1)):
                after = seat_at((*place[:axis], (place[axis] + move) % side, *place[axis + 1 :]), shape)
                link = between.get((nodes[seat], nodes[after])) if after != seat else None
                if link is not None:
                    link_of[seat * 2 * axes + way] = link
                    seat_of[seat * 2 * axes + way] = after
    return link_of, seat_of


def _journal_length(instance: Instance) -> int:
    """Return a bound on the load changes of one move: every net of two workers, off and on, along the longest route."""
    if instance.is_grid:
        longest = sum(instance.fabric.shape)
    else:
        start = instance.table[0]
        longest = int(np.diff(start).max(initial=1))
    degree: dict[int, int] = {}
    standing = instance.slot_workers(instance.start([0] * instance.workers))
    most = 1
    for net in instance.nets:
        most = max(most, len(net.targets))
        for slot in (net.root, *net.targets):
            degree[standing[slot]] = degree.get(standing[slot], 0) + 1
    return 4 * max(degree.values(), default=1) * most * longest + 16


def _near(instance: Instance, most: int = 24) -> Ints:
    """Return for every seat those closest to it: within two steps on a grid, else the fewest hops away."""
    count = min(most, instance.seats - 1) or 1
    found = np.zeros((instance.seats, count), dtype=np.int64)
    shape = instance.fabric.shape if instance.is_grid else ()
    wraps = instance.fabric.routing == "dimension-order"
    steps = [step for step in itertools.product((-2, -1, 0, 1, 2), repeat=len(shape)) if 0 < sum(map(abs, step)) <= 2]
    steps.sort(key=lambda step: sum(map(abs, step)))
    for seat in range(instance.seats):
        if shape:
            place = coordinates(seat, shape)
            moved = [[p + d for p, d in zip(place, step, strict=True)] for step in steps]
            if wraps:
                moved = [[p % side for p, side in zip(one, shape, strict=True)] for one in moved]
            inside = [one for one in moved if all(0 <= p < side for p, side in zip(one, shape, strict=True))]
            ranked = list(dict.fromkeys(seat_at(one, shape) for one in inside if seat_at(one, shape) != seat)) or [seat]
        else:
            start = instance.table[0]
            length = np.diff(start[seat * instance.seats : (seat + 1) * instance.seats + 1])
            ranked = [int(s) for s in np.argsort(length, kind="stable") if s != seat][:count] or [seat]
        found[seat] = [ranked[k % len(ranked)] for k in range(count)] if len(ranked) <= count else ranked[:count]
    return found
