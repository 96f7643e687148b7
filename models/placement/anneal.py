"""Simulated annealing on seats and ring orders: the incumbent and the hint of the exact model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement.instance import Instance, Ints, Solution
from fabric_plan.planner.fabric import coordinates, seat_at

if TYPE_CHECKING:
    from fabric_plan.models.placement.kernel import At

MOVES = 200_000
"""Moves in a slice; between slices the clock and the stop event are looked at."""

MOVES_PER_SECOND = 400_000
"""What a second of a deterministic budget buys: less than a current core does on 20 to 100 NPUs."""


class Annealer:
    """Annealing of one instance. ``tables`` are views into the one array that the kernel works on (see ``kernel.At``)."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance = instance
        self.array, self.at, self.tables = _layout(instance)
        self._random = np.array([(seed * 0x9E3779B97F4A7C15 + 0x1234567) % 2**64 or 1], dtype=np.uint64)
        heaviest = max((instance.weights[net.demand] for net in instance.nets), default=1)
        self._scale = float(heaviest * max(instance.link_costs, default=1) * max(instance.phase_weights))

    def load(self, solution: Solution) -> None:
        """Start from a solution."""
        t, instance = self.tables, self.instance
        t["seat"][:] = solution.seats
        t["holder"][:] = -1
        t["holder"][t["seat"]] = np.arange(instance.workers)
        t["standing"][:] = instance.slot_workers(solution)
        t["places"][:] = -1
        filled = [0] * instance.workers
        for slot, worker in enumerate(t["standing"]):
            t["places"][worker * self.at.places_each + filled[worker]] = slot
            filled[worker] += 1

    def shuffle(self, generator: np.random.Generator) -> None:
        """Start from random seats."""
        seats = generator.permutation(self.instance.seats)[: self.instance.workers]
        self.load(self.instance.start([int(x) for x in seats]))

    def run(
        self,
        goals: Sequence[int],
        *,
        moves: int = MOVES,
        heat: float = 0.6,
        hop_price: float = 0.0,
        allowance: Allowance | None = None,
    ) -> Solution:
        """Anneal once towards the loads ``goals`` of the phases; return the solution of least excess over them.

        ``heat`` is the starting temperature as a part of the heaviest flow's load on a link; it falls to a twentieth.
        Zero heat is a descent. The run is made in slices, between which the allowance is looked at.
        """
        from fabric_plan.models.placement import kernel

        self.tables["goal"][:] = goals
        excess, hops = kernel.fill(self.array, self.at)
        price = hop_price * self._scale
        slices = max(1, moves // MOVES)
        best: tuple[float, Solution] | None = None
        for part in range(slices):
            hot, cold = (heat * self._scale * 20 ** (-k / slices) for k in (part, part + 1))
            excess, hops, least, fewest = kernel.anneal(
                self.array, self.at, self._random, moves // slices, hot, cold, price, excess, hops
            )
            energy = least + price * fewest
            if best is None or energy < best[0]:
                best = energy, self._best()
            if allowance is not None:
                allowance.charge(moves / slices / MOVES_PER_SECOND)
            if (allowance is not None and allowance.left <= 0) or (least == 0 and hop_price == 0):
                break
        assert best is not None
        return best[1]

    def _best(self) -> Solution:
        standing = self.tables["best_standing"].tolist()
        orders = tuple(tuple(standing[ring.first : ring.first + len(ring.members)]) for ring in self.instance.rings)
        return Solution(tuple(self.tables["best_seat"].tolist()), orders)


def _layout(instance: Instance) -> tuple[Ints, At, dict[str, Ints]]:
    """Return the kernel's array, where each table starts in it, and views of the tables by name."""
    from fabric_plan.models.placement.kernel import At

    grid = instance.is_grid
    shape = instance.fabric.shape if grid else ()
    links = len(instance.fabric.links)
    near = _near(instance)
    sizes = {
        "workers": instance.workers,
        "seats": instance.seats,
        "slots": instance.slots,
        "nets": len(instance.nets),
        "phases": instance.phases,
        "links": links,
        "axes": len(shape),
        "wraps": int(instance.fabric.routing == "dimension-order"),
        "rings": len(instance.rings),
        "places_each": 1 + len({ring.demand for ring in instance.rings}),
        "near_each": near.shape[1],
    }
    touching: list[list[int]] = [[] for _ in range(instance.slots)]
    for index, net in enumerate(instance.nets):
        for slot in dict.fromkeys((net.root, *net.targets)):
            touching[slot].append(index)
    touch_start, touch = _rows(touching)
    target_start, target = _rows([net.targets for net in instance.nets])
    empty = np.zeros(0, dtype=np.int64)
    route_start, route_link, route_cost = (empty, empty, empty) if grid else instance.table
    step_link, step_seat = _steps(instance) if grid else (empty, empty)
    contents: dict[str, Sequence[int] | Ints] = {
        "seat": [0] * instance.workers,
        "holder": [-1] * instance.seats,
        "standing": [0] * instance.slots,
        "places": [-1] * (instance.workers * sizes["places_each"]),
        "touch_start": touch_start,
        "touch": touch,
        "root": [net.root for net in instance.nets],
        "target_start": target_start,
        "target": target,
        "weight": [instance.weights[net.demand] for net in instance.nets],
        "phase": [instance.phase(net.demand) for net in instance.nets],
        "price": instance.phase_weights,
        "load": [0] * (instance.phases * links),
        "goal": [0] * instance.phases,
        "ring_first": [ring.first for ring in instance.rings],
        "ring_size": [len(ring.members) for ring in instance.rings],
        "route_start": route_start,
        "route_link": route_link,
        "route_cost": route_cost,
        "shape": shape,
        "place": [x for seat in range(instance.seats) for x in coordinates(seat, shape)] if grid else [],
        "step_link": step_link,
        "step_seat": step_seat,
        "link_cost": instance.link_costs,
        "stamp": [0] * links,
        "seen": [0] * len(instance.nets),
        "touched": [0] * len(instance.nets),
        "journal": np.zeros(2 * _journal_length(instance), dtype=np.int64),
        "near": near.ravel(),
        "counter": [0] * 3,
        "best_seat": [0] * instance.workers,
        "best_standing": [0] * instance.slots,
    }
    starts: dict[str, int] = {}
    length = 0
    for name, values in contents.items():
        starts[name] = length
        length += len(values)
    array = np.zeros(length, dtype=np.int64)
    views = {name: array[starts[name] : starts[name] + len(values)] for name, values in contents.items()}
    for name, values in contents.items():
        views[name][:] = values
    return array, At(**sizes, **starts), views


def _rows(lists: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return lists in compressed rows: where each starts, and all their items."""
    return [0, *itertools.accumulate(map(len, lists))], [item for one in lists for item in one]


def _steps(instance: Instance) -> tuple[Ints, Ints]:
    """Return the link from each seat along each axis, down and up, and the seat it leads to; -1 where there is none."""
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
    longest = sum(instance.fabric.shape) if instance.is_grid else int(np.diff(instance.table[0]).max(initial=1))
    degree: dict[int, int] = {}
    standing = instance.slot_workers(instance.start([0] * instance.workers))
    most = 1
    for net in instance.nets:
        most = max(most, len(net.targets))
        for slot in (net.root, *net.targets):
            degree[standing[slot]] = degree.get(standing[slot], 0) + 1
    return 4 * max(degree.values(), default=1) * most * longest + 16


def _near(instance: Instance, most: int = 24) -> Ints:
    """Return for each seat those closest to it: within two steps on a grid, else the fewest links away."""
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
            ranked = [other for other in dict.fromkeys(seat_at(one, shape) for one in inside) if other != seat] or [
                seat
            ]
        else:
            start = instance.table[0]
            length = np.diff(start[seat * instance.seats : (seat + 1) * instance.seats + 1])
            ranked = [int(s) for s in np.argsort(length, kind="stable") if s != seat][:count] or [seat]
        found[seat] = [ranked[k % len(ranked)] for k in range(count)]
    return found
