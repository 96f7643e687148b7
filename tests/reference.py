"""A slow reference for placements, written from the definitions and sharing no code with what it checks.

It reads a problem's plain fields (nodes, links, shape, rule; sizes; demands) and does the rest by itself: digits and
groups, routes, flows, loads, and the least objective over every assignment and, where rings are free, every ring order.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

ORDER = ("mp", "cp", "ep", "dp", "pp")


class TiedRoutes(ValueError):
    """Several paths are equally good by the rule's own words, so the words do not say which is the route."""


# Workers


def sizes_of(strategy) -> list[tuple[str, int]]:
    return sorted(strategy.sizes, key=lambda pair: ORDER.index(pair[0]))


def worker_digits(strategy) -> list[dict[str, int]]:
    """Return the digits of each worker; indices count with mp fastest and pp slowest."""
    names = [name for name, _ in sizes_of(strategy)]
    ranges = [range(size) for _, size in sizes_of(strategy)]
    slowest_first = itertools.product(*reversed(ranges))
    return [dict(zip(names, reversed(digits), strict=True)) for digits in slowest_first]


def worker_groups(strategy, dimension: str) -> list[list[int]]:
    """Return the groups along a dimension, members by their digit, groups by their smallest member."""
    found: dict[tuple, list[tuple[int, int]]] = {}
    for worker, digits in enumerate(worker_digits(strategy)):
        rest = tuple(sorted((name, digit) for name, digit in digits.items() if name != dimension))
        found.setdefault(rest, []).append((digits.get(dimension, 0), worker))
    return sorted([worker for _, worker in sorted(group)] for group in found.values())


# Routes


def position(seat: int, shape) -> list[int]:
    found = []
    for axis in range(len(shape)):
        below = math.prod(shape[axis + 1 :])
        found.append(seat // below % shape[axis])
    return found


def number(place, shape) -> int:
    return sum(p * math.prod(shape[axis + 1 :]) for axis, p in enumerate(place))


def _link_ids(fabric) -> dict[tuple[int, int], int]:
    return {(link.source, link.target): index for index, link in enumerate(fabric.links)}


def _walk(fabric, source: int, target: int) -> list[list[int]]:
    """Grids: the last axis first. Mesh: straight. Torus: the shorter way, increasing on a tie."""
    shape = fabric.shape
    nodes = [index for index, node in enumerate(fabric.nodes) if node.kind == "npu"]
    place, goal = position(source, shape), position(target, shape)
    links = _link_ids(fabric)
    path = []
    for axis in range(len(shape) - 1, -1, -1):
        side = shape[axis]
        if fabric.routing == "xy":
            direction = 1 if goal[axis] > place[axis] else -1
        else:
            forward = len([k for k in range(side) if k < (goal[axis] - place[axis]) % side])
            direction = 1 if forward <= side - forward else -1
        while place[axis] != goal[axis]:
            before = nodes[number(place, shape)]
            place[axis] = (place[axis] + direction) % side
            link = links.get((before, nodes[number(place, shape)]))
            if link is None:
                return []
            path.append(link)
    return [path]


def best_paths(fabric, source: int, target: int) -> list[list[int]]:
    """Return every best path: fewest relaying NPUs, then fewest links, then widest; no I/O node relays.

    ``up-down`` paths relay over switches only and never climb again after a step that does not.
    """
    nodes = [index for index, node in enumerate(fabric.nodes) if node.kind == "npu"]
    start, goal = nodes[source], nodes[target]
    height = _heights(fabric) if fabric.routing == "up-down" else None
    found: list[tuple[tuple[int, int, int], list[int]]] = []
    least = (len(fabric.nodes), len(fabric.nodes))

    def extend(path: list[int], seen: list[int], fell: bool) -> None:
        nonlocal least
        here = seen[-1]
        cost = (sum(fabric.nodes[node].kind == "npu" for node in seen[1:-1]), len(path))
        if cost > least:
            return
        if here == goal:
            least = cost
            width = min(fabric.links[link].bandwidth for link in path)
            found.append(((*cost, -width), list(path)))
            return
        kind = fabric.nodes[here].kind
        if here != start and (kind == "io" or (height is not None and kind == "npu")):
            return
        for index, link in enumerate(fabric.links):
            if link.source != here or link.target in seen:
                continue
            falls = height is not None and height[link.target] <= height[here]
            if fell and not falls:
                continue
            extend([*path, index], [*seen, link.target], fell or falls)

    extend([], [start], False)
    if not found:
        return []
    best = min(cost for cost, _ in found)
    return [path for cost, path in found if cost == best]


def _heights(fabric) -> list[int]:
    """Return the number of links up from the nearest NPU over switches (-1: not reached)."""
    height = [0 if node.kind == "npu" else -1 for node in fabric.nodes]
    for depth in range(1, len(fabric.nodes)):
        for link in fabric.links:
            below, above = link.source, link.target
            if height[below] == depth - 1 and height[above] < 0 and fabric.nodes[above].kind == "switch":
                height[above] = depth
    return height


def _planes(fabric, source: int, target: int) -> list[list[int]]:
    nodes = [index for index, node in enumerate(fabric.nodes) if node.kind == "npu"]
    links = _link_ids(fabric)
    found = []
    for plane in range(len(fabric.nodes)):
        up, down = links.get((nodes[source], plane)), links.get((plane, nodes[target]))
        if up is not None and down is not None:
            found.append([up, down])
    return found


def paths_of(fabric, source: int, target: int) -> list[list[int]]:
    """Return the paths that share a pair's traffic equally (no path: an empty list).

    Raises
    ------
    TiedRoutes
        When the rule's words leave several single paths.
    """
    if fabric.routing in ("xy", "dimension-order"):
        return _walk(fabric, source, target)
    if fabric.routing == "planes":
        return _planes(fabric, source, target)
    best = best_paths(fabric, source, target)
    if len(best) > 1:
        raise TiedRoutes(f"{fabric.name}: {len(best)} equally good paths from seat {source} to {target}")
    return best


def route_table(fabric) -> dict[tuple[int, int], list[list[int]]]:
    """Return the paths of every pair of different seats."""
    count = sum(node.kind == "npu" for node in fabric.nodes)
    return {(s, t): paths_of(fabric, s, t) for s in range(count) for t in range(count) if s != t}


# Flows


@dataclass(frozen=True)
class Send:
    """What one worker sends in an iteration, to one worker or to several by a multicast; ``amount`` in flows or bytes."""

    source: int
    targets: tuple[int, ...]
    amount: Fraction


def rings_fixed(problem) -> dict[str, list[list[int]]]:
    """Return every ring in the order of the digit, for the demands whose order is free."""
    free = [demand.dimension for demand in problem.demands if demand.order == "free"]
    return {name: worker_groups(problem.strategy, name) for name in free}


def amount_of(problem, demand) -> Fraction:
    """Return what each flow carries: one flow, or its bytes over the whole collective."""
    if demand.size is None:
        return Fraction(1)
    p = dict(problem.strategy.sizes)[demand.dimension]
    if demand.algorithm == "ring":
        passes = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1}[demand.pattern]
        return passes * Fraction(p - 1, p) * demand.size
    return demand.size / p if demand.algorithm == "direct" else demand.size


def sends_of(problem, demand, rings) -> list[Send]:
    amount = amount_of(problem, demand)
    groups = worker_groups(problem.strategy, demand.dimension)
    if demand.algorithm == "ring":
        orders = rings[demand.dimension] if demand.order == "free" else groups
        return [Send(a, (b,), amount) for ring in orders for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)]
    if demand.algorithm == "direct":
        return [Send(a, (b,), amount) for group in groups for a, b in itertools.permutations(group, 2)]
    digits = worker_digits(problem.strategy)
    found = []
    for a, b in itertools.permutations(range(len(digits)), 2):
        step = digits[b]["pp"] - digits[a]["pp"]
        if step != 1 and not (step == -1 and demand.direction == "both"):
            continue
        same = [name for name in digits[a] if name != "pp" and digits[a][name] == digits[b][name]]
        others = [name for name in digits[a] if name not in ("pp", "mp")]
        if demand.algorithm == "unicast" and len(same) == len(digits[a]) - 1:
            found.append(Send(a, (b,), amount))
        # A multicast is listed once, at the receiver with MP digit 0.
        if demand.algorithm == "multicast" and not digits[a].get("mp", 0) and not digits[b].get("mp", 0):
            if any(name not in same for name in others):
                continue
            family = [
                w
                for w in range(len(digits))
                if all(digits[w][name] == digits[b][name] for name in digits[b] if name != "mp")
            ]
            found.append(Send(a, tuple(family), amount))
    return found


# Values of one placement


@dataclass(frozen=True)
class Found:
    """Loads of each demand alone and of all together, in flows per parallel link or seconds; waits; hops; objective."""

    each: dict[str, dict[int, Fraction]]
    together: dict[int, Fraction]
    waits: dict[str, Fraction]
    hops: int
    objective: Fraction


def steps_of(problem, demand) -> int:
    p = dict(problem.strategy.sizes)[demand.dimension]
    if demand.algorithm != "ring":
        return demand.count
    return demand.count * {"all-reduce": 2 * (p - 1), "reduce-scatter": p - 1, "all-gather": p - 1}[demand.pattern]


def evaluate(problem, seats, rings=None, table=None) -> Found | None:
    """Return what a placement is worth, or None when one of its flows has no path."""
    fabric = problem.fabric
    table = table if table is not None else route_table(fabric)
    rings = rings if rings is not None else rings_fixed(problem)
    each: dict[str, dict[int, Fraction]] = {}
    waits: dict[str, Fraction] = {}
    hops = 0
    for demand in problem.demands:
        loads: dict[int, Fraction] = {}
        slowest = Fraction(0)
        for send in sends_of(problem, demand, rings):
            crossed: dict[int, Fraction] = {}
            for target in send.targets:
                paths = table[seats[send.source], seats[target]]
                if not paths:
                    return None
                for path in paths:
                    slowest = max(slowest, sum((fabric.links[link].latency for link in path), Fraction(0)))
                    for link in path:
                        crossed[link] = Fraction(1, len(paths))
            hops += len(crossed)
            for link, share in crossed.items():
                divisor = fabric.links[link].multiplicity if demand.size is None else fabric.links[link].bandwidth
                loads[link] = loads.get(link, Fraction(0)) + send.amount * share / divisor
        each[demand.dimension] = loads
        waits[demand.dimension] = steps_of(problem, demand) * slowest if problem.objective == "time" else Fraction(0)
    together: dict[int, Fraction] = {}
    for loads in each.values():
        for link, load in loads.items():
            together[link] = together.get(link, Fraction(0)) + load
    if problem.concurrent:
        objective = max(together.values(), default=Fraction(0)) + max(waits.values(), default=Fraction(0))
    else:
        objective = sum(
            (d.weight * (max(each[d.dimension].values()) + waits[d.dimension]) for d in problem.demands), Fraction(0)
        )
    return Found(each, together, waits, hops, objective)


# Every placement


@dataclass(frozen=True)
class Optimum:
    """The least objective, and the least largest load of each phase taken alone; None when nothing has a path."""

    objective: Fraction | None
    phases: tuple[Fraction, ...]


def brute_force(problem, table=None) -> Optimum:
    """Return the optimum over every assignment of workers to seats and every order of every free ring."""
    fabric = problem.fabric
    table = table if table is not None else route_table(fabric)
    seats = sum(node.kind == "npu" for node in fabric.nodes)
    workers = math.prod(size for _, size in problem.strategy.sizes)
    scale = _common_scale(problem, table)
    where = np.array(list(itertools.permutations(range(seats), workers)), dtype=np.int64)
    lost = np.zeros(len(where), dtype=bool)
    phases = 1 if problem.concurrent else len(problem.demands)
    fixed = [np.zeros((len(where), len(fabric.links)), dtype=object if scale[1] else np.int64) for _ in range(phases)]
    slow = [np.zeros(len(where), dtype=object if scale[1] else np.int64) for _ in problem.demands]
    choices: list[list[tuple]] = []
    for index, demand in enumerate(problem.demands):
        phase = 0 if problem.concurrent else index
        if demand.algorithm == "ring" and demand.order == "free":
            for group in worker_groups(problem.strategy, demand.dimension):
                options = []
                for rest in itertools.permutations(group[1:]):
                    ring = [group[0], *rest]
                    sends = sends_of(problem, demand, {demand.dimension: [ring]})
                    options.append((phase, *_measure(problem, demand, table, scale, where, sends), index))
                choices.append(options)
        else:
            loads, wait, gone = _measure(problem, demand, table, scale, where, sends_of(problem, demand, {}))
            fixed[phase] += loads
            slow[index] = np.maximum(slow[index], wait)
            lost |= gone
    best, least = None, [None] * phases
    for combination in itertools.product(*choices):
        loads = [one.copy() for one in fixed]
        waits, dead = list(slow), lost.copy()
        for phase, extra, wait, gone, index in combination:
            loads[phase] += extra
            waits[index] = np.maximum(waits[index], wait)
            dead |= gone
        if dead.all():
            continue
        largest = [one.max(axis=1, initial=0) for one in loads]
        if problem.concurrent:
            value = largest[0] + (np.maximum.reduce(waits) if waits else 0)
        else:
            value = sum(
                (d.weight * (a + b) for d, a, b in zip(problem.demands, largest, waits, strict=True)),
                np.zeros(len(where), dtype=np.int64),
            )
        offer = min(value[~dead])
        best = offer if best is None else min(best, offer)
        for k in range(phases):
            low = min(largest[k][~dead])
            least[k] = low if least[k] is None else min(least[k], low)
    if best is None:
        return Optimum(None, ())
    return Optimum(Fraction(int(best), scale[0]), tuple(Fraction(int(low), scale[0]) for low in least))


def _common_scale(problem, table) -> tuple[int, bool]:
    """Return a number that makes all loads and waits whole, and whether 64 bits are too few for them."""
    links = problem.fabric.links
    shares = {len(paths) for paths in table.values() if paths}
    terms = []
    for demand in problem.demands:
        for link, share in itertools.product(links, shares or {1}):
            divisor = link.multiplicity if demand.size is None else link.bandwidth
            terms.append(amount_of(problem, demand) / share / divisor)
        if problem.objective == "time":
            terms += [steps_of(problem, demand) * link.latency for link in links]
    scale = math.lcm(*(term.denominator for term in terms)) if terms else 1
    weight = max((demand.weight for demand in problem.demands), default=1)
    return scale, sum(terms, Fraction(0)) * scale * 100 * weight > 2**62


def _measure(problem, demand, table, scale, where, sends):
    """Return, for every assignment: the loads of some sends on every link, their longest wait, whether one has no path."""
    fabric = problem.fabric
    kind = object if scale[1] else np.int64
    seats = sum(node.kind == "npu" for node in fabric.nodes)
    unit = np.zeros((seats, seats, len(fabric.links)), dtype=kind)
    late = np.zeros((seats, seats), dtype=kind)
    missing = np.zeros((seats, seats), dtype=bool)
    amount = amount_of(problem, demand)
    for (s, t), paths in table.items():
        missing[s, t] = not paths
        for path in paths:
            wait = sum((fabric.links[link].latency for link in path), Fraction(0)) * steps_of(problem, demand)
            if problem.objective == "time":
                late[s, t] = max(late[s, t], int(wait * scale[0]))
            for link in path:
                divisor = fabric.links[link].multiplicity if demand.size is None else fabric.links[link].bandwidth
                unit[s, t, link] = int(amount / len(paths) / divisor * scale[0])
    loads = np.zeros((len(where), len(fabric.links)), dtype=kind)
    waits = np.zeros(len(where), dtype=kind)
    lost = np.zeros(len(where), dtype=bool)
    for send in sends:
        source = where[:, send.source]
        once = np.zeros_like(loads)
        for target in send.targets:
            end = where[:, target]
            once = np.maximum(once, unit[source, end])
            waits = np.maximum(waits, late[source, end])
            lost |= missing[source, end]
        loads += once
    return loads, waits, lost


# Time


def timeline(program, links) -> list[Fraction | None]:
    """Return when each transfer finishes, by the definition: a link serves first who is ready first.

    Who is ready at one moment is served by transfer number, then by hop; a link works for size/bandwidth and the hop
    arrives a latency later. A transfer ends when its last hop has arrived, and is ready when all it needs have ended. None:
    it never starts.
    """
    count = len(program.hop_start) - 1
    hops = [range(program.hop_start[t], program.hop_start[t + 1]) for t in range(count)]
    needs = [program.need[program.need_start[t] : program.need_start[t + 1]] for t in range(count)]
    arrival: dict[int, Fraction] = {}
    free: dict[int, Fraction] = {}

    def end(transfer: int) -> Fraction | None:
        if any(hop not in arrival for hop in hops[transfer]):
            return None
        return max((arrival[hop] for hop in hops[transfer]), default=start(transfer))

    def start(transfer: int) -> Fraction | None:
        ends = [end(need) for need in needs[transfer]]
        return None if None in ends else max(ends, default=Fraction(0))

    while True:
        waiting = []
        for transfer in range(count):
            begun = start(transfer)
            for hop in hops[transfer]:
                parent = program.hop_parent[hop]
                ready = arrival.get(parent) if parent >= 0 else begun
                if hop not in arrival and ready is not None:
                    waiting.append((ready, transfer, hop))
        if not waiting:
            return [end(transfer) for transfer in range(count)]
        ready, _, hop = min(waiting)
        link = program.hop_link[hop]
        done = (
            max(ready, free.get(link, Fraction(0)))
            + Fraction(program.hop_size[hop], program.scale) / links[link].bandwidth
        )
        free[link] = done
        arrival[hop] = done + links[link].latency
