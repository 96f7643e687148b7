"""Ranks and the bandwidth between them: switches taken away, as what their links give every pair that may use them.

An edge of the logical graph is a pair of ranks whose route passes no other rank. Its width is a share of the links on that route: max-min
fair among all pairs that use them, which fills every link. If the worst cut of the logical graph is that of the fabric, nothing was lost,
and trees over the edges reach the fabric's bound; otherwise pairs inside a box that share links with pairs between boxes are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm

from fabric_plan.models.schedule.cuts import gather_cut
from fabric_plan.models.schedule.group import Group
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.fabric import Fabric, Link, Node

Pair = tuple[int, int]


@dataclass(frozen=True)
class Logical:
    """Widths of the edges between ranks in bytes/s, and the seconds of a byte of shard that their worst cut asks for."""

    ranks: int
    width: dict[Pair, Fraction]
    seconds: Fraction


def logical(group: Group, bound: Fraction, *, reverse: bool = False) -> Logical:
    """Return the logical graph of a group; ``reverse``: for a reduce-scatter, whose trees lead to their roots.

    Parameters
    ----------
    bound
        Seconds of a byte of shard by the fabric's worst cut; the first graph that reaches it is taken, else the best.

    Raises
    ------
    InvalidProblem
        When no graph joins all ranks.
    """
    fabric = group.fabric
    paths: dict[Pair, list[tuple[int, Fraction]]] = {}
    for a in range(group.size):
        for b in range(group.size):
            found = direct_links(group, a, b) if a != b else None
            if found:
                # Edges point the way that an all-gather's data go: those of a reduce-scatter are turned round.
                paths[(b, a) if reverse else (a, b)] = found
    best: Logical | None = None
    for chosen in _choices(group, paths):
        width = max_min({pair: paths[pair] for pair in chosen}, fabric)
        try:
            seconds = _seconds(group.size, width)
        except InvalidProblem:
            continue
        if best is None or seconds < best.seconds:
            best = Logical(group.size, width, seconds)
        if best.seconds <= bound:
            break
    if best is None:
        raise InvalidProblem(f"trees: the links of {fabric.name} do not join the ranks without going through others")
    return best


def direct_links(group: Group, a: int, b: int) -> list[tuple[int, Fraction]] | None:
    """Return the links of the route from rank a to rank b with their shares, None where it passes another rank or there is none."""
    try:
        routes = group.fabric.route(group.job.group[a], group.job.group[b])
    except (InvalidProblem, ValueError):
        return None
    found: dict[int, Fraction] = {}
    for path in routes:
        for link in path[:-1]:
            if group.fabric.links[link].target in group.rank_of:
                return None
        for link in path:
            found[link] = found.get(link, Fraction(0)) + Fraction(1, len(routes))
    return list(found.items())


def _choices(group: Group, paths: dict[Pair, list[tuple[int, Fraction]]]) -> Iterable[list[Pair]]:
    """Yield sets of pairs to use: all; without those inside a box over slower links; without those whose width would be the least."""
    yield list(paths)
    joined = _joined(group.size, [pair for pair, path in paths.items() if len(path) == 1])
    if len(set(joined)) > 1:
        yield [(a, b) for (a, b), path in paths.items() if len(path) == 1 or joined[a] != joined[b]]
    try:
        boxes = group.boxes()
    except InvalidProblem:
        return
    box_of = {rank: k for k, box in enumerate(boxes) for rank in box}
    links = group.fabric.links
    inside = min(
        (min(links[link].bandwidth for link, _ in path) for (a, b), path in paths.items() if box_of[a] == box_of[b]),
        default=0,
    )
    outside = max(
        (min(links[link].bandwidth for link, _ in path) for (a, b), path in paths.items() if box_of[a] != box_of[b]),
        default=0,
    )
    for limit in sorted({inside, outside}):
        yield [
            (a, b)
            for (a, b), path in paths.items()
            if box_of[a] != box_of[b] or min(links[link].bandwidth for link, _ in path) > limit
        ]


def _joined(ranks: int, pairs: list[Pair]) -> list[int]:
    """Return for each rank the least one that links between ranks join it with."""
    home = list(range(ranks))

    def find(one: int) -> int:
        while home[one] != one:
            home[one] = home[home[one]]
            one = home[one]
        return one

    for a, b in pairs:
        a, b = find(a), find(b)
        home[max(a, b)] = min(a, b)
    return [find(one) for one in range(ranks)]


def max_min(paths: dict[Pair, list[tuple[int, Fraction]]], fabric: Fabric) -> dict[Pair, Fraction]:
    """Return max-min fair widths of pairs over their links, exactly: all rise together until a link is full, the others go on."""
    left = {link: Fraction(fabric.links[link].bandwidth) for path in paths.values() for link, _ in path}
    users: dict[int, dict[Pair, Fraction]] = {link: {} for link in left}
    for pair, path in paths.items():
        for link, share in path:
            users[link][pair] = share
    load = {link: sum(one.values(), Fraction(0)) for link, one in users.items()}
    width = dict.fromkeys(paths, Fraction(0))
    active = set(paths)
    level = Fraction(0)
    while active:
        rise, full = min((left[link] / load[link], link) for link in left if load[link] > 0)
        level += rise
        for link in left:
            left[link] -= rise * load[link]
        tight = [link for link in left if load[link] > 0 and left[link] <= 0]
        assert full in tight
        for link in tight:
            for pair in list(users[link]):
                if pair in active:
                    active.discard(pair)
                    width[pair] = level
                    for other, share in paths[pair]:
                        load[other] -= share
                        users[other].pop(pair, None)
    return width


def _seconds(ranks: int, width: dict[Pair, Fraction]) -> Fraction:
    """Return what the worst cut of a logical graph asks of a byte of shard."""
    scale = lcm(*(one.denominator for one in width.values()))
    links = [Link(a, b, int(one * scale), Fraction(0)) for (a, b), one in width.items() if one]
    fabric = Fabric("logical", [Node("npu", f"rank{k}") for k in range(ranks)], links)
    return gather_cut(fabric, range(ranks)).seconds * scale
