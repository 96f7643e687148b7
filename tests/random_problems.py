"""Tiny random placement problems, the same for the same seed, small enough to be solved by trying everything."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import msgspec
from reference import TiedRoutes, route_table

from fabric_plan.planner.catalog import build
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.formats import graph_json
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import Demand, PlacementProblem

NAMED = [
    "mesh:2x2",
    "mesh:2x3",
    "mesh:3x2",
    "mesh:1x4",
    "mesh:1x5",
    "mesh:1x6",
    "mesh:1x2x3",
    "mesh:5x1",
    "ring:2",
    "ring:3",
    "ring:4",
    "ring:5",
    "ring:6",
    "torus:2x2",
    "torus:2x3",
    "torus:3x2",
    "torus:1x5",
    "torus:5x1",
    "full:3",
    "full:4",
    "full:5",
    "hub:4",
    "hub:5",
    "hub:6",
]

SHAPES = ((2, 2), (2, 3), (3, 2), (1, 5), (4, 1), (1, 6), (1, 1, 4), (7,), (5,))

MOST_WORK = 3_000_000
"""Assignments times ring orders times links of a problem: more is left to other tests."""

GB = 10**9


def fabric(source: random.Random) -> Fabric:
    kind = source.choice(["named", "named", "grid", "graph", "tree", "planes", "broken"])
    return {"named": _named, "grid": _grid, "graph": _graph, "tree": _tree, "planes": _planes, "broken": _broken}[kind](
        source
    )


def _named(source: random.Random) -> Fabric:
    return build(source.choice(NAMED))


def _bandwidth(source: random.Random) -> int:
    return source.choice([25, 50, 50, 100, 300]) * GB


def _links(source: random.Random, ends: list[tuple[int, int]], *, alike: bool) -> list[Link]:
    """Return links of random width, latency and multiplicity; with ``alike`` all are the same."""
    same = (_bandwidth(source), Fraction(source.choice([0, 20, 500]), 10**9), source.choice([1, 1, 2]))
    return [
        Link(
            *pair,
            *(
                same
                if alike
                else (_bandwidth(source), Fraction(source.choice([0, 20, 500]), 10**9), source.choice([1, 1, 2, 3]))
            ),
        )
        for pair in ends
    ]


def grid(
    source: random.Random, shape: tuple[int, ...], rule: str, *, alike: bool = False, name: str = "grid"
) -> Fabric:
    """Return a mesh or torus with random links, by way of a graph file's fields."""
    ends = set()
    for place in itertools.product(*map(range, shape)):
        for axis, side in enumerate(shape):
            for step in (-1, 1):
                moved = place[axis] + step
                if rule == "dimension-order":
                    moved %= side
                if 0 <= moved < side and moved != place[axis]:
                    other = (*place[:axis], moved, *place[axis + 1 :])
                    ends.add(tuple(_seat(one, shape) for one in (place, other)))
    links = _links(source, sorted(ends), alike=alike)
    return Fabric(name, [Node("npu", f"n{k}") for k in range(math.prod(shape))], links, rule, shape=shape)


def _seat(place: tuple[int, ...], shape: tuple[int, ...]) -> int:
    seat = 0
    for p, side in zip(place, shape, strict=True):
        seat = seat * side + p
    return seat


def _grid(source: random.Random) -> Fabric:
    made = grid(source, source.choice(SHAPES), source.choice(["xy", "dimension-order"]), alike=source.random() < 0.3)
    return graph_json.parse_graph(graph_json.write_graph(made), "a random grid")


def _unique(source: random.Random, make) -> Fabric:
    """Return the first fabric whose rule leaves a single route for every pair."""
    while True:
        made = make(source)
        try:
            route_table(made)
        except TiedRoutes:
            continue
        return made


def _graph(source: random.Random) -> Fabric:
    return _unique(source, _any_graph)


def _any_graph(source: random.Random) -> Fabric:
    npus, switches = source.randint(3, 6), source.randint(0, 2)
    nodes = [Node("npu", f"g{k}") for k in range(npus)] + [Node("switch", f"s{k}") for k in range(switches)]
    if source.random() < 0.3:
        nodes.append(Node("io", "host"))
    source.shuffle(nodes)
    count = len(nodes)
    order = source.sample(range(count), count)
    ends = {(a, b) for a, b in zip(order, [*order[1:], order[0]], strict=True)}
    for a, b in itertools.permutations(range(count), 2):
        if source.random() < 0.25:
            ends.add((a, b))
            if source.random() < 0.8:
                ends.add((b, a))
    return Fabric("graph", nodes, _links(source, sorted(ends), alike=False))


def _tree(source: random.Random) -> Fabric:
    """NPUs under leaf switches under one spine."""
    leaves = source.randint(2, 3)
    under = [source.randint(1, 3) for _ in range(leaves)]
    while sum(under) > 7 or sum(under) < 3:
        under = [source.randint(1, 3) for _ in range(leaves)]
    nodes = [Node("npu", f"g{k}") for k in range(sum(under))] + [Node("switch", f"leaf{k}") for k in range(leaves)]
    nodes.append(Node("switch", "spine"))
    spine, ends = len(nodes) - 1, []
    npus = iter(range(sum(under)))
    for leaf, size in enumerate(under):
        switch = sum(under) + leaf
        ends += [(switch, spine), (spine, switch)]
        for _ in range(size):
            npu = next(npus)
            ends += [(npu, switch), (switch, npu)]
    rule = source.choice(["up-down", "shortest"])
    return Fabric("tree", nodes, _links(source, ends, alike=source.random() < 0.3), rule)


def _planes(source: random.Random) -> Fabric:
    """NPUs on two or three planes; some of them miss a plane, but never the first."""
    npus, planes = source.randint(3, 6), source.randint(2, 3)
    nodes = [Node("npu", f"g{k}") for k in range(npus)] + [Node("switch", f"p{k}") for k in range(planes)]
    missing = source.choice([0, 0.3])
    pairs = [
        (npu, plane)
        for npu, plane in itertools.product(range(npus), range(npus, npus + planes))
        if plane == npus or source.random() >= missing
    ]
    ends = [end for a, b in pairs for end in ((a, b), (b, a))]
    return Fabric("planes", nodes, _links(source, ends, alike=source.random() < 0.3), "planes")


def _broken(source: random.Random) -> Fabric:
    """A fabric in which some pairs have no path: two islands, or one-way streets."""

    def make(source: random.Random) -> Fabric:
        npus = source.randint(3, 6)
        nodes = [Node("npu", f"g{k}") for k in range(npus)]
        cut = source.randint(1, npus - 1)
        ends = set()
        for a, b in itertools.permutations(range(npus), 2):
            joined = (a < cut) == (b < cut)
            if source.random() < (0.6 if joined else 0.05):
                ends.add((a, b))
        return Fabric("broken", nodes, _links(source, sorted(ends), alike=False))

    if source.random() < 0.3:
        whole = grid(source, source.choice(SHAPES), "xy")
        kept = [link for link in whole.links if source.random() < 0.85]
        return Fabric("broken grid", whole.nodes, kept, "xy", shape=whole.shape)
    return _unique(source, make)


def strategy(source: random.Random, seats: int) -> Strategy:
    """Return a strategy of two to ``seats`` workers, over one to three dimensions, rather many than few."""
    found = []
    while len(found) < 3:
        names = source.sample(["mp", "cp", "ep", "dp", "pp"], source.choice([1, 2, 2, 3]))
        sizes = [(name, source.randint(1, 5)) for name in names]
        if 2 <= math.prod(size for _, size in sizes) <= seats:
            found.append(Strategy(sizes))
    return max(found, key=lambda one: (sum(size > 1 for _, size in one.sizes), source.random()))


def demands(source: random.Random, chosen: Strategy, *, sized: bool) -> tuple[Demand, ...]:
    found = []
    for name, size in chosen.sizes:
        if size == 1 or (source.random() < 0.05 and found):
            continue
        options: dict = {"dimension": name, "weight": source.choice([1, 1, 1, 2, 3])}
        if sized:
            options["size"] = Fraction(source.choice([1, 3, 8, 64, 1000]) * 10**6, source.choice([1, 1, 3, 7]))
            options["count"] = source.choice([1, 1, 4])
        if name == "pp":
            options |= {"pattern": "point-to-point", "algorithm": source.choice(["unicast", "multicast"])}
            options["direction"] = source.choice(["forward", "both"])
        elif name == "ep":
            options |= {"pattern": "all-to-all", "algorithm": "direct"}
        else:
            options |= {"pattern": source.choice(["all-reduce", "reduce-scatter", "all-gather"]), "algorithm": "ring"}
            options["order"] = source.choice(["fixed", "free"])
        found.append(Demand(**options))
    source.shuffle(found)
    return tuple(found)


def problem(seed: int) -> PlacementProblem:
    """Return the problem of a seed."""
    source = random.Random(seed)
    while True:
        made = build("mesh:2x4") if source.random() < 0.02 else fabric(source)
        seats = len(made.seats)
        if seats < 2:
            continue
        chosen = strategy(source, seats)
        sized = source.random() < 0.5
        wanted = demands(source, chosen, sized=sized)
        if made.name == "planes" and any(demand.algorithm == "multicast" for demand in wanted):
            planes = {frozenset(made.links[link].target for link in made.outgoing[node]) for node in made.seats}
            if len(planes) > 1:
                continue  # refused: a multicast needs the same planes everywhere
        one = PlacementProblem(
            fabric=made,
            strategy=chosen,
            demands=wanted,
            objective="time" if sized and source.random() < 0.3 else "congestion",
            concurrent=source.random() < 0.5,
        )
        if one.demands and work(one) <= MOST_WORK:
            return one


def work(one: PlacementProblem) -> int:
    """Return how many link loads a brute force of a problem adds up."""
    orders = math.prod(
        math.factorial(one.strategy.size(d.dimension) - 1) ** (one.strategy.workers // one.strategy.size(d.dimension))
        for d in one.demands
        if d.order == "free"
    )
    seats = len(one.fabric.seats)
    return math.perm(seats, one.strategy.workers) * orders * max(1, len(one.fabric.links))


def placement(source: random.Random, one: PlacementProblem) -> tuple[tuple[int, ...], dict]:
    """Return random seats and ring orders for a problem."""
    from reference import worker_groups

    seats = tuple(source.sample(range(len(one.fabric.seats)), one.strategy.workers))
    rings = {
        demand.dimension: tuple(
            tuple(source.sample(group, len(group))) for group in worker_groups(one.strategy, demand.dimension)
        )
        for demand in one.demands
        if demand.order == "free"
    }
    return seats, rings


def measured(seed: int) -> PlacementProblem | None:
    """Return a problem whose bandwidths differ from link to link, as if measured to tenths of a GB/s or to bytes.

    None when the new widths leave a pair with no route, or with several by the rule's words.
    """
    source = random.Random(seed)
    one = problem(seed + 20_000)
    step = source.choice([1, GB // 10])
    links = [
        Link(k.source, k.target, k.bandwidth + source.randrange(10 * GB) // step * step, k.latency, k.multiplicity)
        for k in one.fabric.links
    ]
    made = Fabric("measured", one.fabric.nodes, links, one.fabric.routing, shape=one.fabric.shape)
    try:
        if not all(route_table(made).values()):
            return None
    except TiedRoutes:
        return None
    return msgspec.structs.replace(one, fabric=made)
