"""All-gathers on tori with equal sides in the fewest steps, without a search.

By translations one root's tree does for all, if in each step it uses every direction at most once: then every link carries one chunk a step. A
linear map that takes each of the 2 d directions to the next one, (x, y) -> (-y, x) or (x, y, z) -> (-y, -z, -x), moves vertices in orbits of 2 d:
an orbit whose parents are an earlier orbit is reached in one step, over every direction once. Orbits go by distance; the few vertices
on shorter orbits are matched with directions in the last steps. That takes ceil((N - 1) / 2 d) steps, which is the worst cut's bound.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.schedule import Columns, IntColumn, check_memory

Shards = list[int]
Place = tuple[int, ...]


@dataclass(frozen=True)
class Hop:
    """A vertex of the root's tree: the step in which it is reached, and from where; places are relative to the root."""

    step: int
    parent: Place
    place: Place


def tree_of(side: int, axes: int) -> list[Hop]:
    """Return the tree of the root at zero, in the order of its steps; each step uses every direction at most once.

    Raises
    ------
    InvalidProblem
        When the torus is none of those that this covers.
    """
    if axes not in (2, 3) or side < 3:
        raise InvalidProblem(
            f"rotations: made for tori of two or three equal sides from 3 on, not {'x'.join([str(side)] * axes)}"
        )

    def turned(place: Place) -> Place:
        return tuple(-one % side for one in (*place[1:], place[0])) if axes == 3 else (-place[1] % side, place[0])

    def distance(place: Place) -> int:
        return sum(min(one, side - one) for one in place)

    directions: list[Place] = []
    first: Place = (1,) + (0,) * (axes - 1)
    for _ in range(2 * axes):
        directions.append(first)
        first = turned(first)
    assert len(set(directions)) == 2 * axes
    seen: set[Place] = {(0,) * axes}
    orbits: list[list[Place]] = []
    short: list[Place] = []
    places = sorted(np.ndindex(*(side,) * axes), key=lambda one: (distance(one), one))
    for place in places:
        if place in seen:
            continue
        orbit = [place]
        while (other := turned(orbit[-1])) != place:
            orbit.append(other)
        seen.update(orbit)
        if len(orbit) == 2 * axes:
            orbits.append(orbit)
        else:
            short += orbit
    reached: dict[Place, int] = {(0,) * axes: -1}
    hops: list[Hop] = []
    step = 0
    waiting = orbits
    while waiting:
        later = []
        for orbit in waiting:
            parent = next((one for one in _behind(orbit[0], directions, side) if one in reached), None)
            if parent is None:
                later.append(orbit)
                continue
            for place in orbit:
                hops.append(Hop(step, parent, place))
                parent = turned(parent)
            reached.update(dict.fromkeys(orbit, step))
            step += 1
        if len(later) == len(waiting):
            raise InvalidProblem(f"rotations: {len(later)} orbits of {side}^{axes} are behind vertices on short orbits")
        waiting = later
    while short:
        free = set(directions)
        left = []
        for place in short:
            for direction in sorted(free):
                parent = tuple((a - b) % side for a, b in zip(place, direction, strict=True))
                if reached.get(parent, step) < step:
                    free.discard(direction)
                    hops.append(Hop(step, parent, place))
                    break
            else:
                left.append(place)
        if len(left) == len(short):
            raise InvalidProblem("rotations: the last vertices find no way")
        reached.update({place: step for place in short if place not in left})
        short = left
        step += 1
    return hops


def _behind(place: Place, directions: list[Place], side: int) -> list[Place]:
    """Return the neighbours from which a place can be reached, nearest to the root first."""
    found = [tuple((a - b) % side for a, b in zip(place, direction, strict=True)) for direction in directions]
    return sorted(found, key=lambda one: (sum(min(x, side - x) for x in one), one))


def rotations(columns: Columns, group: Group, chunks: int) -> Shards:
    """All-gather, reduce-scatter or all-reduce on a torus of equal sides, one chunk a rank."""
    sides = [side for side in group.shape if side > 1]
    if not group.wraps or len(set(sides)) != 1:
        raise InvalidProblem(f"rotations: {group.fabric.name} is no whole torus of equal sides")
    pattern, side, axes = group.job.pattern, sides[0], len(sides)
    hops = tree_of(side, axes)
    size = group.size
    check_memory((2 if pattern == "all-reduce" else 1) * len(hops) * size, "rotations")
    grid = np.arange(size).reshape(sides)
    roots = np.arange(size)

    def at(place: Place) -> IntColumn:
        """The rank at a place relative to each root."""
        found: IntColumn = np.roll(grid, [-one for one in place], axis=tuple(range(axes))).ravel()
        return found

    # A link sends in the order of the steps: each transfer also waits for the one before it on its link, which some other root's tree has.
    ready: IntColumn | None = None
    if pattern != "all-gather":
        inside: dict[Place, list[IntColumn]] = {}
        before: dict[Place, tuple[Place, IntColumn]] = {}
        for hop in reversed(hops):
            needs = inside.pop(hop.place, [])
            direction = _minus(hop.parent, hop.place, side)
            if direction in before:
                place, numbers = before[direction]
                needs = [*needs, numbers[at(_minus(hop.place, place, side))]]
            source, target = group.nodes[at(hop.place)], group.nodes[at(hop.parent)]
            sent = columns.add(source, target, roots, reduce=True, needs=np.stack(needs, axis=1) if needs else None)
            before[direction] = hop.place, sent
            inside.setdefault(hop.parent, []).append(sent)
        ready = np.stack(inside[(0,) * axes], axis=1)
    if pattern != "reduce-scatter":
        arrived: dict[Place, IntColumn | None] = {(0,) * axes: ready}
        before = {}
        for hop in hops:
            known = arrived[hop.parent]
            direction = _minus(hop.place, hop.parent, side)
            if direction in before:
                place, numbers = before[direction]
                order = numbers[at(_minus(hop.parent, place, side))][:, None]
                known = order if known is None else np.concatenate([known, order], axis=1)
            source, target = group.nodes[at(hop.parent)], group.nodes[at(hop.place)]
            sent = columns.add(source, target, roots, needs=known)
            before[direction] = hop.parent, sent
            arrived[hop.place] = sent[:, None]
    return list(range(size))


def _minus(a: Place, b: Place, side: int) -> Place:
    return tuple((x - y) % side for x, y in zip(a, b, strict=True))
