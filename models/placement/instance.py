"""A placement problem as integer arrays: what the models, the bounds and the local search all work on.

Logical flows become *nets*: a root and one or more targets. Their ends are *slots*, not workers: a worker sits in one
slot of its own, and in one position slot of each of its groups whose ring order is free, so that a ring's order is which
worker stands in which of its slots.

Loads are counted in whole units. The load that a net of demand d puts on a link is ``weight[d] * cost`` units, ``cost``
standing with the link in the route; ``unit`` is what one unit is worth (flows, or seconds). Where the solver's sums would
pass 61 bits they are rounded down, ``exact`` is False, and values in units are lower bounds of the true ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.collective import direct_edge_bytes, ring_edge_bytes, ring_steps
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, coordinates, seat_at
from fabric_plan.planner.problem import Demand, PlacementProblem

Ints = NDArray[np.int64]

Rings = dict[str, tuple[tuple[int, ...], ...]]

MAX_TABLE_SEATS = 600
"""Up to so many seats all routes are kept in a table; grids beyond it walk their routes."""

_SUM_BITS = 61
"""The solver adds up, in 64 bits, every variable that could load a link: a net's weight once for each pair of seats."""


@dataclass(frozen=True, slots=True)
class Net:
    """A logical flow between slots, of the demand with that index."""

    demand: int
    root: int
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FreeRing:
    """A group whose ring order is free: its dimension, its workers, and its first position slot."""

    demand: int
    dimension: str
    members: tuple[int, ...]
    first: int


@dataclass(frozen=True)
class Solution:
    """Seats by worker index, and for each free ring (in the instance's order) its members in ring order."""

    seats: tuple[int, ...]
    orders: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Value:
    """Loads of a solution in units: the largest of each phase, its wait, the weighted objective, and the hops."""

    loads: tuple[int, ...]
    waits: tuple[int, ...]
    objective: int
    hops: int


@dataclass
class Instance:
    """See the module's text. ``phases`` is one when all groups are concurrent, else one for each demand.

    With ``unbounded`` units are exact however long their numbers grow: for evaluation only.
    """

    problem: PlacementProblem
    unbounded: bool = False
    nets: list[Net] = field(default_factory=list)
    rings: list[FreeRing] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.fabric: Fabric = self.problem.fabric
        self.demands: tuple[Demand, ...] = self.problem.demands
        self.seats = len(self.fabric.seats)
        self.workers = self.problem.strategy.workers
        self.concurrent = self.problem.concurrent
        self.slots = self.workers
        for index, demand in enumerate(self.demands):
            self._add_nets(index, demand)
        self._scale()

    # Structure

    def _add_nets(self, index: int, demand: Demand) -> None:
        strategy = self.problem.strategy
        groups = strategy.groups(demand.dimension)
        if demand.algorithm == "ring" and demand.order == "free":
            for group in groups:
                ring = FreeRing(index, demand.dimension, group, self.slots)
                self.rings.append(ring)
                self.slots += len(group)
                self._add_ring(index, range(ring.first, self.slots))
        elif demand.algorithm == "ring":
            for group in groups:
                self._add_ring(index, group)
        elif demand.algorithm == "direct":
            self.nets += [Net(index, a, (b,)) for group in groups for a in group for b in group if a != b]
        elif demand.algorithm == "unicast":
            for group in groups:
                pairs = list(itertools.pairwise(group))
                back = [(b, a) for a, b in pairs] if demand.direction == "both" else []
                self.nets += [Net(index, a, (b,)) for a, b in pairs + back]
        else:
            for group in groups:
                if strategy.digit(group[0], "mp"):
                    continue
                pairs = list(itertools.pairwise(group))
                back = [(b, a) for a, b in pairs] if demand.direction == "both" else []
                peers = [k * strategy.stride("mp") for k in range(strategy.size("mp"))]
                self.nets += [Net(index, a, tuple(b + peer for peer in peers)) for a, b in pairs + back]

    def _add_ring(self, index: int, slots: Sequence[int]) -> None:
        self.nets += [Net(index, slots[i], (slots[(i + 1) % len(slots)],)) for i in range(len(slots))]

    @property
    def phases(self) -> int:
        """How many sets of groups load the links apart from one another."""
        return 1 if self.concurrent else len(self.demands)

    def phase(self, demand: int) -> int:
        """Return the phase that a demand belongs to."""
        return 0 if self.concurrent else demand

    @property
    def phase_weights(self) -> tuple[int, ...]:
        """The weight of each phase in the objective."""
        return (1,) if self.concurrent else tuple(demand.weight for demand in self.demands)

    @cached_property
    def worker_orbit(self) -> tuple[int, ...]:
        """Workers that a relabelling of digits can turn into worker 0 without changing the problem.

        Digits of a dimension with rings or all-to-all can be rotated; those of a pipeline cannot, nor can the MP digits
        when MP digit 0 has the part of the multicaster.
        """
        strategy = self.problem.strategy
        held = {"pp"}
        if any(demand.algorithm == "multicast" for demand in self.demands):
            held.add("mp")
        return tuple(w for w in range(self.workers) if all(strategy.digit(w, d) == 0 for d in held))

    # Units

    def _scale(self) -> None:
        sized = bool(self.demands) and all(demand.size is not None for demand in self.demands)
        self.seconds = sized
        links = self.fabric.links
        self.stripes = _stripes(self.fabric)
        costs = [1 / Fraction(self.stripes * (link.bandwidth if sized else link.multiplicity)) for link in links]
        amounts = [self._amount(demand) if sized else Fraction(1) for demand in self.demands]
        waits = self._wait_weights() if self.problem.objective == "time" else []
        cost_unit = _common_unit(costs)
        amount_unit = _common_unit(amounts)
        unit = cost_unit * amount_unit
        if waits:
            finer = _common_unit([unit, *waits])
            amount_unit *= finer / unit
            unit = finer
        largest = sum((amounts[net.demand] for net in self.nets), Fraction(0)) * max(costs, default=Fraction(1))
        total = largest * self.stripes + sum(waits, Fraction(0))
        self.exact = self.unbounded or total / unit * self.seats**2 < 1 << _SUM_BITS
        if not self.exact:
            cost_unit = max(costs) / (1 << 20)
            amount_unit = max(amounts) / (1 << 20)
            unit = cost_unit * amount_unit
        self.unit: Fraction = unit
        self.link_costs: list[int] = [int(cost / cost_unit) for cost in costs]
        self.weights: list[int] = [int(amount / amount_unit) for amount in amounts]

    def _amount(self, demand: Demand) -> Fraction:
        """Return the bytes that one net of a demand carries in an iteration."""
        assert demand.size is not None
        size = self.problem.strategy.size(demand.dimension)
        if demand.algorithm == "ring":
            return ring_edge_bytes(demand.pattern, size, demand.size)
        if demand.algorithm == "direct":
            return direct_edge_bytes(demand.pattern, size, demand.size)
        return demand.size

    def steps(self, demand: Demand) -> int:
        """Return how many steps, each as slow as its slowest route, all collectives of a demand take."""
        size = self.problem.strategy.size(demand.dimension)
        return demand.count * (ring_steps(demand.pattern, size) if demand.algorithm == "ring" else 1)

    def _wait_weights(self) -> list[Fraction]:
        return [
            self.steps(demand) * link.latency
            for demand in self.demands
            for link in set(self.fabric.links)
            if link.latency
        ]

    @cached_property
    def step(self) -> int:
        """A number of units that divides every load."""
        return max(1, math.gcd(*self.weights) * math.gcd(*self.link_costs))

    def wait_units(self, demand: int, latency: Fraction) -> int:
        """Return the units that a demand waits in all its steps when its slowest route takes ``latency`` seconds."""
        return int(self.steps(self.demands[demand]) * latency / self.unit)

    # Routes

    def route(self, source: int, target: int) -> list[tuple[int, int]] | None:
        """Return (link, cost) of every link between two seats, or None where the fabric has no path."""
        try:
            paths = self.fabric.route(source, target)
        except InvalidInput:
            return None
        share = self.stripes // len(paths)
        return [(link, self.link_costs[link] * share) for path in paths for link in path]

    def latency(self, source: int, target: int) -> Fraction:
        """Return the latency in seconds of the slowest path between two seats."""
        links = self.fabric.links
        return max(
            sum((links[link].latency for link in path), Fraction(0)) for path in self.fabric.route(source, target)
        )

    @cached_property
    def table(self) -> tuple[Ints, Ints, Ints]:
        """All routes in compressed rows: start of each pair (source * seats + target), links, costs."""
        start = np.zeros(self.seats * self.seats + 1, dtype=np.int64)
        links: list[int] = []
        costs: list[int] = []
        for source in range(self.seats):
            for target in range(self.seats):
                if source != target:
                    for link, cost in self.route(source, target) or ():
                        links.append(link)
                        costs.append(cost)
                start[source * self.seats + target + 1] = len(links)
        return start, np.array(links, dtype=np.int64), np.array(costs, dtype=np.int64)

    @cached_property
    def is_grid(self) -> bool:
        """True when routes can be walked axis by axis, without a table: on whole grids, with no link missing."""
        if self.fabric.routing not in ("xy", "dimension-order"):
            return False
        shape, wraps = self.fabric.shape, self.fabric.routing == "dimension-order"
        seat_of = self.fabric.seat_of
        joined = {(seat_of.get(link.source), seat_of.get(link.target)) for link in self.fabric.links}
        for seat in range(self.seats):
            place = coordinates(seat, shape)
            for axis, side in enumerate(shape):
                if side > 1 and (wraps or place[axis] + 1 < side):
                    after = seat_at((*place[:axis], (place[axis] + 1) % side, *place[axis + 1 :]), shape)
                    if (seat, after) not in joined or (after, seat) not in joined:
                        return False
        return True

    # Values

    def slot_workers(self, solution: Solution) -> list[int]:
        """Return which worker stands in each slot."""
        found = list(range(self.workers))
        for order in solution.orders:
            found += order
        return found

    def evaluate(self, solution: Solution) -> Value | None:
        """Return the value of a solution, or None when one of its flows has no path."""
        standing = self.slot_workers(solution)
        width = len(self.fabric.links)
        load = [0] * (self.phases * width)
        slowest = [Fraction(0)] * len(self.demands)
        timed = self.problem.objective == "time"
        hops = 0
        for net in self.nets:
            source = solution.seats[standing[net.root]]
            offset = self.phase(net.demand) * width
            weight = self.weights[net.demand]
            crossed: dict[int, int] = {}
            for slot in net.targets:
                target = solution.seats[standing[slot]]
                route = self.route(source, target)
                if route is None:
                    return None
                crossed.update(route)
                if timed:
                    slowest[net.demand] = max(slowest[net.demand], self.latency(source, target))
            for link, cost in crossed.items():
                load[offset + link] += weight * cost
            hops += len(crossed)
        loads = tuple(max(load[k * width : (k + 1) * width], default=0) for k in range(self.phases))
        each = [self.wait_units(d, slowest[d]) for d in range(len(self.demands))] if timed else [0] * len(self.demands)
        waits = (max(each, default=0),) if self.concurrent else tuple(each)
        objective = sum(w * (a + b) for w, a, b in zip(self.phase_weights, loads, waits, strict=True))
        return Value(loads, waits, objective, hops)

    def exact_values(self, solution: Solution) -> tuple[list[Fraction], list[Fraction], int]:
        """Return (largest load and wait of each phase, hops) of a solution without rounding, in flows or seconds."""
        if self.exact:
            value = self.evaluate(solution)
            assert value is not None
            return [load * self.unit for load in value.loads], [wait * self.unit for wait in value.waits], value.hops
        return Instance(self.problem, unbounded=True).exact_values(solution)

    def start(self, seats: Sequence[int]) -> Solution:
        """Return the solution with these seats and every free ring in the order of its digit."""
        return Solution(tuple(seats), tuple(ring.members for ring in self.rings))

    def rings_of(self, solution: Solution) -> Rings:
        """Return the orders of free rings as a plan has them."""
        found: dict[str, list[tuple[int, ...]]] = {}
        for ring, order in zip(self.rings, solution.orders, strict=True):
            found.setdefault(ring.dimension, []).append(order)
        return {name: tuple(orders) for name, orders in found.items()}


def _common_unit(values: Sequence[Fraction]) -> Fraction:
    """Return the largest fraction of which all values are whole multiples."""
    if not values:
        return Fraction(1)
    denominator = math.lcm(*(value.denominator for value in values))
    numerator = math.gcd(*(int(value * denominator) for value in values))
    return Fraction(numerator or 1, denominator)


def _stripes(fabric: Fabric) -> int:
    """Return a number of equal parts into which the traffic of every pair divides evenly over its planes."""
    if fabric.routing != "planes":
        return 1
    planes = fabric.plane_sets
    most = max(map(len, planes))
    return most if len(planes) == 1 else math.lcm(*range(1, most + 1))
