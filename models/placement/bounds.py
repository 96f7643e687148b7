"""Lower bounds on the loads of every placement: by counting at seats, and by cuts of the fabric.

Counting
    A worker's flows leave its seat over that seat's links, so the busiest of them carries at least the smallest largest
    share that its flows can be divided into. Workers sit on different seats; the bound is the bottleneck assignment of
    workers to seats under these costs. (The truth behind "each corner has three flows and two links".)
Cuts
    A set of k seats holds some set A of at most k workers. The flows that leave A share the links that leave the set.
    The least crossing over all sets A is a small model of its own, whose proven bound is used, solved or not.

Both hold for the problem as stated: routes may only use the links there are, and no ring order is assumed where it is
free. Values are in the instance's units; where those are rounded down, the bounds are too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement.instance import Instance
from fabric_plan.planner.interface import Budget

Weights = tuple[int, ...]

IMPOSSIBLE = 1 << 62
"""The load of a flow at a seat that has no link for it."""


@dataclass(frozen=True)
class Bound:
    """A proven lower bound on the largest load of a phase, in units, and why."""

    value: int
    reason: str


def counting(instance: Instance, phase: int) -> Bound:
    """Return the bottleneck-assignment bound of a phase."""
    workers = _classes(_flows(instance, phase))
    seats = _classes([_link_costs(instance, seat) for seat in range(instance.seats)])
    cost = {(w, s): max(_spread(w[0], s[0]), _spread(w[1], s[1])) for w in workers for s in seats}
    values = sorted(set(cost.values()))
    low, high = 0, len(values) - 1
    while low < high:
        middle = (low + high) // 2
        if _seats_all(workers, seats, cost, values[middle]):
            high = middle
        else:
            low = middle + 1
    best = values[low] if values else 0
    return Bound(
        best,
        f"counting: with any smaller largest load the {instance.workers} workers' flows do not fit the links of their {instance.seats} seats",
    )


def _classes(keys: Sequence[tuple[Weights, Weights]]) -> dict[tuple[Weights, Weights], int]:
    found: dict[tuple[Weights, Weights], int] = {}
    for key in keys:
        found[key] = found.get(key, 0) + 1
    return found


def _flows(instance: Instance, phase: int) -> list[tuple[Weights, Weights]]:
    """Return for every worker the weights of the flows that leave it and that enter it, heaviest first."""
    out: list[list[int]] = [[] for _ in range(instance.workers)]
    into: list[list[int]] = [[] for _ in range(instance.workers)]
    for net in instance.nets:
        if instance.phase(net.demand) == phase and net.root < instance.workers:
            out[net.root].append(instance.weights[net.demand])
            for slot in net.targets:
                into[slot].append(instance.weights[net.demand])
    for ring in instance.rings:
        if instance.phase(ring.demand) == phase:
            # In whatever order, each member sends one flow and receives one.
            for worker in ring.members:
                out[worker].append(instance.weights[ring.demand])
                into[worker].append(instance.weights[ring.demand])
    return [(tuple(sorted(a, reverse=True)), tuple(sorted(b, reverse=True))) for a, b in zip(out, into, strict=True)]


def _link_costs(instance: Instance, seat: int) -> tuple[Weights, Weights]:
    """Return what a unit of weight costs on each link that leaves a seat and that enters it.

    On striped planes every flow puts its share on every link, which is one link of that cost.
    """
    node = instance.fabric.seats[seat]
    sides = []
    for links in (instance.fabric.outgoing[node], instance.fabric.incoming[node]):
        if instance.fabric.routing == "planes" and links:
            share = instance.stripes // len(links)
            costs = [min(instance.link_costs[link] for link in links) * share]
        else:
            costs = [instance.link_costs[link] for link in links]
        sides.append(tuple(sorted(costs)))
    return sides[0], sides[1]


def _spread(flows: Weights, costs: Weights) -> int:
    """Return the smallest largest load when each flow takes one of the links; a lower bound of it for many flows."""
    if not flows:
        return 0
    if not costs:
        return IMPOSSIBLE
    if len(flows) <= 8:
        return _spread_exactly(flows, costs)
    if costs[0] == 0:
        return 0  # a cost that was rounded down to nothing
    # Fractionally: T with sum over links of T / cost = the total weight.
    rate = sum(Fraction(1, cost) for cost in costs)
    fluid = -(-Fraction(sum(flows)) // rate)
    return max(flows[0] * costs[0], int(fluid))


def _spread_exactly(flows: Weights, costs: Weights) -> int:
    loads = [0] * len(costs)
    best = sum(flows) * costs[0]

    def place(index: int, worst: int) -> None:
        nonlocal best
        if worst >= best:
            return
        if index == len(flows):
            best = worst
            return
        tried = set()
        for link, cost in enumerate(costs):
            if (loads[link], cost) in tried:
                continue
            tried.add((loads[link], cost))
            loads[link] += flows[index] * cost
            place(index + 1, max(worst, loads[link]))
            loads[link] -= flows[index] * cost

    place(0, 0)
    return best


def _seats_all(
    workers: dict[tuple[Weights, Weights], int],
    seats: dict[tuple[Weights, Weights], int],
    cost: dict[tuple[tuple[Weights, Weights], tuple[Weights, Weights]], int],
    limit: int,
) -> bool:
    """Return whether all workers find seats of their own whose cost is at most ``limit``."""
    from ortools.graph.python import max_flow

    flow = max_flow.SimpleMaxFlow()
    w_nodes = {key: 2 + k for k, key in enumerate(workers)}
    s_nodes = {key: 2 + len(workers) + k for k, key in enumerate(seats)}
    for key, count in workers.items():
        flow.add_arc_with_capacity(0, w_nodes[key], count)
    for key, count in seats.items():
        flow.add_arc_with_capacity(s_nodes[key], 1, count)
    for (w, s), value in cost.items():
        if value <= limit:
            flow.add_arc_with_capacity(w_nodes[w], s_nodes[s], workers[w])
    flow.solve(0, 1)
    return bool(flow.optimal_flow() == sum(workers.values()))


# Cuts


def seat_sets(instance: Instance) -> Iterator[tuple[frozenset[int], str]]:
    """Yield sets of seats worth cutting off: slabs of a grid, and the NPUs below each switch."""
    fabric = instance.fabric
    if instance.is_grid:
        from fabric_plan.planner.fabric import coordinates

        axis_name = (
            ["row", "column"] if len(fabric.shape) == 2 else [f"axis-{k} slice" for k in range(len(fabric.shape))]
        )
        wraps = fabric.routing == "dimension-order"
        for axis, side in enumerate(fabric.shape):
            for width in range(side // 2, 0, -1):
                if wraps and width * 2 > side:
                    continue
                inside = frozenset(s for s in range(instance.seats) if coordinates(s, fabric.shape)[axis] < width)
                yield inside, f"the first {width} {axis_name[axis]}{'s' if width > 1 else ''}"
        return
    seat_of = fabric.seat_of
    seen: set[frozenset[int]] = set()
    for switch, node in enumerate(fabric.nodes):
        if node.kind != "switch":
            continue
        below = frozenset(
            seat_of[fabric.links[link].source]
            for link in fabric.incoming[switch]
            if fabric.links[link].source in seat_of
        )
        if 0 < len(below) < instance.seats and below not in seen:
            seen.add(below)
            yield below, f"the NPUs at {node.name}"


def _leaving(instance: Instance, inside: frozenset[int]) -> tuple[list[int], list[int]]:
    """Return the links over which traffic can leave a set of seats, and those over which it can enter it.

    The set's side of the cut holds every switch whose NPU neighbours all lie in the set.
    """
    fabric = instance.fabric
    nodes = {fabric.seats[seat] for seat in inside}
    for node, one in enumerate(fabric.nodes):
        if one.kind == "switch":
            near = {fabric.links[link].source for link in fabric.incoming[node]} & set(fabric.seats)
            if near and near <= nodes:
                nodes.add(node)
    out = [k for k, link in enumerate(fabric.links) if link.source in nodes and link.target not in nodes]
    into = [k for k, link in enumerate(fabric.links) if link.source not in nodes and link.target in nodes]
    return out, into


def cut(
    instance: Instance, phase: int, inside: frozenset[int], name: str, budget: Budget, allowance: Allowance
) -> Bound:
    """Return the bound of one cut, proved by a small model within an allowance."""
    from ortools.sat.python import cp_model

    from fabric_plan.models import solve

    out, into = _leaving(instance, inside)
    rates = []
    for links in (out, into):
        if any(instance.link_costs[link] == 0 for link in links):
            return Bound(0, "")
        # A path pays its share (1 on single paths) on each link; whole units per link and unit of load.
        rates.append(sum(Fraction(1, instance.link_costs[link]) for link in links))
    model = cp_model.CpModel()
    member = [model.new_bool_var("") for _ in range(instance.workers)]
    least = max(0, instance.workers - (instance.seats - len(inside)))
    model.add_linear_constraint(cp_model.LinearExpr.sum(member), least, min(len(inside), instance.workers))
    crossing: tuple[list[tuple[cp_model.IntVar, int]], list[tuple[cp_model.IntVar, int]]] = ([], [])
    for side, (sources, targets, weight) in itertools.product((0, 1), _flow_ends(instance, phase)):
        over = model.new_bool_var("")
        for a, b in itertools.product(sources, targets):
            if a != b:
                low, high = (a, b) if side == 0 else (b, a)
                model.add_bool_or([~member[low], member[high], over])
        crossing[side].append((over, weight))
    share = instance.stripes if instance.fabric.routing == "planes" else 1
    weight_sum = sum(w for _, w in crossing[0]) * share
    top = weight_sum * max(instance.link_costs) + 1
    # Whole coefficients within 64 bits; where the exact scale is too large, rates are rounded up: a weaker bound.
    widest = max(1, max(rates))
    scale = min(math.lcm(*(rate.denominator for rate in rates)), int((1 << 61) / (widest * top)))
    if scale < 1:
        return Bound(0, "")
    largest = model.new_int_var(0, top, "")
    for terms, rate in zip(crossing, rates, strict=True):
        if terms:
            total = cp_model.LinearExpr.weighted_sum([v for v, _ in terms], [w * scale * share for _, w in terms])
            model.add(total <= math.ceil(rate * scale) * largest)
    model.minimize(largest)
    outcome = solve.run(model, budget, seconds=allowance.left)
    allowance.charge(outcome.work)
    if outcome.answer is solve.Answer.INFEASIBLE:
        # The flows cannot cross at all although some must: no placement works, which the exact model says properly.
        return Bound(0, "")
    return Bound(
        max(0, outcome.bound or 0),
        f"cut: {name} leave over {len(out)} link{'s' if len(out) != 1 else ''}, whichever workers sit there",
    )


def _flow_ends(instance: Instance, phase: int) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """Return (workers that may send, workers that may receive, weight) of each flow that must cross a cut between them.

    A free ring crosses at least once in each direction when its members lie on both sides.
    """
    found: list[tuple[tuple[int, ...], tuple[int, ...], int]] = []
    for net in instance.nets:
        if instance.phase(net.demand) == phase and net.root < instance.workers:
            found.append(((net.root,), net.targets, instance.weights[net.demand]))
    for ring in instance.rings:
        if instance.phase(ring.demand) == phase:
            found.append((ring.members, ring.members, instance.weights[ring.demand]))
    return found


def least_wait(instance: Instance, demand: int) -> int:
    """Return the units that a demand waits at least in all its steps: as if every route were the quickest there is."""
    if instance.problem.objective != "time":
        return 0
    links = instance.fabric.links
    seats = set(instance.fabric.seats)
    first = min((link.latency for link in links if link.source in seats), default=Fraction(0))
    last = min((link.latency for link in links if link.target in seats), default=Fraction(0))
    direct = [link.latency for link in links if link.source in seats and link.target in seats]
    quickest = min([first + last, *direct])
    return instance.wait_units(demand, quickest)
