"""Routing rules: which links carry the traffic between two seats.

``xy``
    Meshes: along the last axis first (on a mesh of R x C: along the row, X), then the one before (Y).
``dimension-order``
    Tori and rings: the same order of axes, each the shorter way round, the increasing way on a tie.
``shortest``
    Any graph: fewest relaying NPUs, then fewest links, then the widest; equal ones spread by (source + target).
``up-down``
    Trees and Clos networks: as ``shortest``, among paths that never climb again after a step down.
``planes``
    Two-hop switch planes: the hardware stripes every pair over all planes that both seats reach.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import lru_cache

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Route, coordinates, seat_at

RULES = ("xy", "dimension-order", "shortest", "up-down", "planes")

_CACHE = 200_000


def router(fabric: Fabric) -> Callable[[int, int], Route]:
    """Return the function from a pair of seats to its route, with a bounded cache."""
    makers = {
        "xy": _grid_router,
        "dimension-order": _grid_router,
        "shortest": _graph_router,
        "up-down": _graph_router,
        "planes": _plane_router,
    }
    if fabric.routing not in makers:
        raise InvalidInput(
            f"fabric {fabric.name}: unknown routing rule {fabric.routing!r}: expected one of {', '.join(RULES)}"
        )
    return makers[fabric.routing](fabric)


def _unreachable(fabric: Fabric, source: int, target: int) -> InvalidInput:
    names = fabric.seat_name(source), fabric.seat_name(target)
    return InvalidInput(
        f"fabric {fabric.name}: no path from seat {names[0]} to seat {names[1]} under the rule {fabric.routing!r}"
    )


def _grid_router(fabric: Fabric) -> Callable[[int, int], Route]:
    shape = fabric.shape
    wraps = fabric.routing == "dimension-order"
    seat_of = fabric.seat_of
    link_between = {
        (seat_of[link.source], seat_of[link.target]): index
        for index, link in enumerate(fabric.links)
        if link.source in seat_of and link.target in seat_of
    }

    @lru_cache(maxsize=_CACHE)
    def route(source: int, target: int) -> Route:
        here, goal = list(coordinates(source, shape)), coordinates(target, shape)
        path: list[int] = []
        at = source
        for axis in reversed(range(len(shape))):
            size, ahead = shape[axis], (goal[axis] - here[axis]) % shape[axis]
            up = 2 * ahead <= size if wraps else goal[axis] > here[axis]
            step = 1 if up else -1
            while here[axis] != goal[axis]:
                here[axis] = (here[axis] + step) % size
                after = seat_at(here, shape)
                link = link_between.get((at, after))
                if link is None:
                    raise _unreachable(fabric, source, target)
                path.append(link)
                at = after
        return (tuple(path),)

    return route


def _plane_router(fabric: Fabric) -> Callable[[int, int], Route]:
    seats = fabric.seats
    up = [{fabric.links[link].target: link for link in fabric.outgoing[node]} for node in seats]
    down = [{fabric.links[link].source: link for link in fabric.incoming[node]} for node in seats]

    @lru_cache(maxsize=_CACHE)
    def route(source: int, target: int) -> Route:
        shared = sorted(up[source].keys() & down[target].keys())
        if not shared:
            raise _unreachable(fabric, source, target)
        return tuple((up[source][plane], down[target][plane]) for plane in shared)

    return route


def _levels(fabric: Fabric) -> list[int]:
    """Return each node's distance from the nearest NPU: its level in a tree."""
    level = [-1] * len(fabric.nodes)
    frontier = list(fabric.seats)
    for node in frontier:
        level[node] = 0
    depth = 0
    while frontier:
        depth += 1
        following = []
        for node in frontier:
            for link in fabric.outgoing[node]:
                target = fabric.links[link].target
                if level[target] < 0 and fabric.nodes[target].kind == "switch":
                    level[target] = depth
                    following.append(target)
        frontier = following
    return level


State = tuple[int, bool]
"""A node, and whether the path already steps down (always False under ``shortest``)."""

Cost = tuple[int, int]
"""Links, plus a large number per relaying NPU; then the bottleneck bandwidth, negated: less is better in both."""


def _graph_router(fabric: Fabric) -> Callable[[int, int], Route]:
    levels = _levels(fabric) if fabric.routing == "up-down" else None
    seats = fabric.seats

    @lru_cache(maxsize=4096)
    def tree(source: int) -> tuple[dict[State, Cost], dict[State, list[tuple[int, State]]]]:
        return _best_paths(fabric, seats[source], levels)

    @lru_cache(maxsize=_CACHE)
    def route(source: int, target: int) -> Route:
        best, last = tree(source)
        states = [state for state in ((seats[target], False), (seats[target], True)) if state in best]
        if not states:
            raise _unreachable(fabric, source, target)
        state = min(states, key=lambda one: best[one])
        path: list[int] = []
        while last[state]:
            choices = last[state]
            link, state = choices[(source + target) % len(choices)]
            path.append(link)
        return (tuple(reversed(path)),)

    return route


def _best_paths(
    fabric: Fabric, source: int, levels: list[int] | None
) -> tuple[dict[State, Cost], dict[State, list[tuple[int, State]]]]:
    """Return the least cost of each state from a source node, and every equally good (last link, state before)."""
    relay = len(fabric.nodes) + 1
    start = (source, False)
    best: dict[State, Cost] = {start: (0, -(1 << 62))}
    last: dict[State, list[tuple[int, State]]] = {start: []}
    queue: list[tuple[Cost, State]] = [(best[start], start)]
    done: set[State] = set()
    while queue:
        (cost, narrowest), state = heapq.heappop(queue)
        if state in done:
            continue
        done.add(state)
        node, falling = state
        kind = fabric.nodes[node].kind
        relays = node != source and kind != "switch"
        if relays and (kind == "io" or levels is not None):
            continue
        for link in fabric.outgoing[node]:
            end = fabric.links[link]
            down = levels is not None and levels[end.target] <= levels[node]
            if falling and not down:
                continue
            after = (end.target, falling or down)
            offer = (cost + 1 + relay * relays, max(narrowest, -end.bandwidth))
            if after not in best or offer < best[after]:
                best[after], last[after] = offer, [(link, state)]
                heapq.heappush(queue, (offer, after))
            elif offer == best[after]:
                last[after].append((link, state))
    return best, last
