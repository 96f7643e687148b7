"""What fabrics do today: the randomised protocol, and two simple ones, as withdrawals for every destination.

In the published protocol each device with more input than output towards a destination withdraws exactly the difference, on links drawn
at random. Links that it has withdrawn already for a whole class count first: an own uplink that failed makes one choice
for all remote destinations, a zone that is reached worse one for all of that zone. The variant ``random`` draws afresh for each
destination instead.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.balance.selection import triples, withdrawn
from fabric_plan.planner.balance import BalanceProblem, Policy, Profile, destinations
from fabric_plan.planner.dsf import Live
from fabric_plan.planner.simulator.reach import spine_output

Grid = NDArray[np.int16]
Keep = Callable[[Grid, int, int, str], Grid]
"""Of a device's input links (one entry a neighbour) keep so many: (links, how many, device, kind) to the links that stay."""

MAX_OUTCOMES = 2_000_000
"""Beyond so many outcomes the distribution is sampled, not enumerated."""


def drawn(links: Grid, keep: int, source: random.Random) -> Grid:
    """Return what is left when links are withdrawn one after another, uniformly, until ``keep`` are left."""
    total = int(links.sum())
    if total <= keep:
        return links.copy()
    ends = np.repeat(np.arange(len(links)), links)
    gone = source.sample(range(total), total - keep)
    left: Grid = links - np.bincount(ends[gone], minlength=len(links)).astype(np.int16)
    return left


def aligned(links: Grid, keep: int, dead: Sequence[int]) -> Grid:
    """Return what is left when links are withdrawn towards neighbours of given numbers first, then from the last on."""
    left = links.copy()
    over = int(links.sum()) - keep
    for place in (*dead, *range(len(links) - 1, -1, -1)):
        if over <= 0:
            break
        if place < len(left):
            gone = min(int(left[place]), over)
            left[place] -= gone
            over -= gone
    return left


def _balanced(
    live: Live, zone: int, out: Grid, upper: Grid, lower: Grid, choose: Callable[[str, int, Grid, int], Grid]
) -> tuple[Grid, Grid]:
    """Return (lower, upper) after each spine, then each fabric node, has withdrawn what it has too much of input."""
    upper, lower = np.where(out > 0, upper, 0).astype(np.int16), lower.copy()
    for s in np.flatnonzero(upper.sum(axis=0) > out):
        upper[:, s] = choose("spine", int(s), upper[:, s], int(out[s]))
    through = upper.sum(axis=1)
    lower[:, through == 0] = 0
    for g in np.flatnonzero(lower.sum(axis=0) > through):
        lower[:, g] = choose("fabric", int(g), lower[:, g], int(through[g]))
    return lower, upper


def _profile(live: Live, zone: int, target: tuple[int, int], out: Grid, lower: Grid, upper: Grid, turn: int) -> Profile:
    gone_upper, gone_lower = withdrawn(live, zone, out, lower, upper, turn)
    return Profile(zone=zone, destinations=(target,), upper=triples(gone_upper), lower=triples(gone_lower))


def per_destination(problem: BalanceProblem, copy: int, seed: int) -> list[Profile]:
    """Return the protocol's withdrawals of a copy, drawn afresh for each destination."""
    live, source = problem.live(copy), random.Random(seed * 1009 + copy)
    turn = source.randrange(problem.fabric.widest)
    found = []
    for zone in range(len(problem.fabric.zones)):
        for home, number in destinations(problem.fabric, zone):
            out = spine_output(live, home, number, intra=problem.intra)
            lower, upper = _balanced(
                live,
                zone,
                out,
                live.upper[zone],
                live.lower[zone],
                lambda kind, at, links, keep: drawn(links, keep, source),
            )
            found.append(_profile(live, zone, (home, number), out, lower, upper, turn))
    return found


def class_wide(problem: BalanceProblem, copy: int, seed: int) -> list[Profile]:
    """Return the protocol's withdrawals of a copy: one choice for a class of destinations, and more only where one needs it."""
    live, source = problem.live(copy), random.Random(seed * 1009 + copy)

    turn = source.randrange(problem.fabric.widest)

    def choose(kind: str, at: int, links: Grid, keep: int) -> Grid:
        return drawn(links, keep, source)

    found = []
    for zone in range(len(problem.fabric.zones)):
        # Own uplinks that failed: one choice for all that is remote.
        everything = np.full(problem.fabric.spines, 32_000, dtype=np.int16)
        remote, _ = _balanced(live, zone, everything, live.upper[zone], live.lower[zone], choose)
        for home in range(len(problem.fabric.zones)):
            if home == zone:
                continue
            reach = live.upper[home].sum(axis=0, dtype=np.int16)
            class_lower, class_upper = _balanced(live, zone, reach, live.upper[zone], remote, choose)
            for number in range(problem.fabric.zones[home].interfaces):
                out = spine_output(live, home, number, intra=problem.intra)
                lower, upper = _balanced(live, zone, out, class_upper, class_lower, choose)
                found.append(_profile(live, zone, (home, number), out, lower, upper, turn))
    return found


def aligned_choice(problem: BalanceProblem, copy: int) -> list[Profile]:
    """Return withdrawals towards the fabric nodes of the same number as those that lost the destination."""
    live, turn = problem.live(copy), 0
    found = []
    for zone in range(len(problem.fabric.zones)):
        for home, number in destinations(problem.fabric, zone):
            out = spine_output(live, home, number, intra=problem.intra)
            direct = live.lower[home][number]
            built = problem.fabric.built[0][home][number]
            dead = [int(f) for f in np.flatnonzero(direct < built)]

            def choose(
                kind: str, at: int, links: Grid, keep: int, dead: Sequence[int] = dead, number: int = number
            ) -> Grid:
                return aligned(links, keep, dead if kind == "spine" else (number,))

            lower, upper = _balanced(live, zone, out, live.upper[zone], live.lower[zone], choose)
            found.append(_profile(live, zone, (home, number), out, lower, upper, turn))
    return found


def nothing(problem: BalanceProblem, copy: int) -> list[Profile]:
    """Return no withdrawals: devices may have more input than output."""
    empty = triples(np.zeros((1, 1)))
    zones = range(len(problem.fabric.zones))
    return [
        Profile(zone=zone, destinations=tuple(destinations(problem.fabric, zone)), upper=empty, lower=empty)
        for zone in zones
        if len(problem.fabric.zones) > 1
    ]


# The exact distribution of the randomised protocol


def distribution(
    problem: BalanceProblem, copy: int, zone: int, target: tuple[int, int]
) -> dict[tuple[int, ...], Fraction] | None:
    """Return the probability of every vector of capacities (links of each interface node) towards a destination; None: too many outcomes.

    It is the same in both variants: a uniform choice among the links of which a uniform choice was made before is uniform.
    """
    live = problem.live(copy)
    out = spine_output(live, *target, intra=problem.intra)
    upper = np.where(out > 0, live.upper[zone], 0)
    columns = []
    for s in range(problem.fabric.spines):
        links = tuple(int(one) for one in upper[:, s])
        columns.append(list(_kept(links, min(sum(links), int(out[s])))))
        if math.prod(map(len, columns)) > MAX_OUTCOMES:
            return None
    through: dict[tuple[int, ...], Fraction] = {}
    for outcome in itertools.product(*columns):
        chance = math.prod((one[1] for one in outcome), start=Fraction(1))
        sums = tuple(sum(one[0][g] for one in outcome) for g in range(upper.shape[0]))
        through[sums] = through.get(sums, Fraction(0)) + chance
    found: dict[tuple[int, ...], Fraction] = {}
    senders = live.lower[zone].shape[0]
    for sums, chance in through.items():
        rows = []
        for g, keep in enumerate(sums):
            links = tuple(int(one) for one in live.lower[zone][:, g]) if keep else (0,) * senders
            rows.append(list(_kept(links, min(sum(links), keep))))
        if math.prod(map(len, rows)) > MAX_OUTCOMES:
            return None
        for outcome in itertools.product(*rows):
            vector = tuple(sum(one[0][r] for one in outcome) for r in range(senders))
            part = math.prod((one[1] for one in outcome), start=Fraction(1)) * chance
            found[vector] = found.get(vector, Fraction(0)) + part
    return found


def _kept(links: Sequence[int], keep: int) -> Iterator[tuple[tuple[int, ...], Fraction]]:
    """Yield (links that stay with each neighbour, probability) when ``keep`` of all stay, uniformly."""
    whole = math.comb(sum(links), keep)
    for split in _splits(links, keep):
        ways = math.prod(math.comb(a, b) for a, b in zip(links, split, strict=True))
        yield split, Fraction(ways, whole)


def _splits(links: Sequence[int], keep: int) -> Iterable[tuple[int, ...]]:
    if len(links) == 1:
        return [(keep,)] if keep <= links[0] else []
    rest = sum(links[1:])
    return [
        (first, *others)
        for first in range(max(0, keep - rest), min(links[0], keep) + 1)
        for others in _splits(links[1:], keep - first)
    ]


def sorted_distribution(vectors: dict[tuple[int, ...], Fraction]) -> dict[tuple[int, ...], Fraction]:
    """Return the probabilities of the sorted vectors, the worst first."""
    found: dict[tuple[int, ...], Fraction] = {}
    for vector, chance in vectors.items():
        key = tuple(sorted(vector))
        found[key] = found.get(key, Fraction(0)) + chance
    return dict(sorted(found.items()))


Make = Callable[[BalanceProblem, int, int], Any]
POLICIES: dict[Policy, Make] = {
    "random": per_destination,
    "class-wide": class_wide,
    "aligned": lambda problem, copy, seed: aligned_choice(problem, copy),
    "none": lambda problem, copy, seed: nothing(problem, copy),
}
"""The baselines, by name: (problem, copy, seed) to the profiles of a copy."""
