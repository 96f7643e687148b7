"""The best selections of a copy, zone by zone: solved, bounded by cuts, and written as profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric_plan.models.balance import flow
from fabric_plan.planner.balance import BalanceProblem, Cut, Profile, Triples, destinations
from fabric_plan.planner.dsf import Live, keep_links
from fabric_plan.planner.simulator.reach import spine_output

Grid = NDArray[np.int16]

COMPILE_FROM = 300_000
"""Cases times links of a zone from which loading the compiler pays."""


@cache
def _kernel() -> Callable[..., None]:
    """Return the solver of a zone, compiled; the functions that it calls are compiled with it."""
    from fabric_plan.models.balance import flow_compiled

    kernel: Callable[..., None] = flow_compiled.solve_all
    return kernel


@dataclass
class ZoneSelections:
    """What one zone and the spines above it choose, case by case; a case is a destination, or several that look alike.

    Parameters
    ----------
    targets
        (zone, number) of the destinations of each case.
    outs
        Spines' output, shape (cases, spines).
    lower, upper
        Links that stay advertised, shapes (cases, interfaces, fabric nodes) and (cases, fabric nodes, spines).
    totals, worsts
        The sides of the cuts that bound the total and the smallest capacity, shape (cases, nodes).
    """

    zone: int
    targets: list[list[tuple[int, int]]]
    outs: Grid
    lower: Grid
    upper: Grid
    totals: NDArray[np.uint8]
    worsts: NDArray[np.uint8]

    def only(self, kept: Sequence[int]) -> ZoneSelections:
        """Return some of the cases."""
        index = list(kept)
        return ZoneSelections(
            self.zone,
            [self.targets[k] for k in index],
            self.outs[index],
            self.lower[index],
            self.upper[index],
            self.totals[index],
            self.worsts[index],
        )

    @property
    def capacities(self) -> Grid:
        """Links of each interface node, shape (cases, interfaces)."""
        found: Grid = self.lower.sum(axis=2, dtype=np.int16)
        return found

    def profiles(self, live: Live, *, bounded: bool = True) -> list[Profile]:
        """Return them as withdrawals, with the cuts."""
        senders, fabrics = live.lower[self.zone].shape
        found = []
        for k, targets in enumerate(self.targets):
            upper, lower = withdrawn(live, self.zone, self.outs[k], self.lower[k], self.upper[k], targets[0][1])
            cuts = [
                Cut.of(side[:senders], side[senders : senders + fabrics], side[senders + fabrics :])
                for side in (self.totals[k], self.worsts[k])
            ]
            found.append(
                Profile(
                    zone=self.zone,
                    destinations=tuple(targets),
                    upper=triples(upper),
                    lower=triples(lower),
                    total_cut=cuts[0] if bounded else None,
                    worst_cut=cuts[1] if bounded else None,
                )
            )
        return found


def withdrawn(live: Live, zone: int, out: Grid, lower: Grid, upper: Grid, turn: int) -> tuple[Any, Any]:
    """Return masks (upper, lower) of the links that withdraw so that ``lower`` and ``upper`` stay; ``turn`` picks among parallel ones."""
    widest = live.dsf.widest
    keep = keep_links(live.upper_links[zone], upper, widest, turn)
    gone_upper = np.where(out > 0, live.upper_links[zone] & ~keep, 0)
    keep = keep_links(live.lower_links[zone], lower, widest, turn)
    gone_lower = np.where((upper.sum(axis=1) > 0)[None, :], live.lower_links[zone] & ~keep, 0)
    return gone_upper, gone_lower


def triples(grid: NDArray[Any]) -> Triples:
    """Return the nonzero entries of a matrix as rows (a, b, links)."""
    a, b = np.nonzero(grid)
    return Triples(np.stack([a, b, grid[a, b]], axis=1) if len(a) else [])


def cases(
    problem: BalanceProblem,
    live: Live,
    zone: int,
    wanted: Sequence[tuple[int, int]] | None = None,
    *,
    share: bool = True,
) -> tuple[list[list[tuple[int, int]]], Grid]:
    """Return the destinations of each case and the outputs of the spines, shape (cases, spines).

    Destinations towards which every spine has the same output share a case.
    """
    targets: list[list[tuple[int, int]]] = []
    rows: list[Grid] = []
    known: dict[bytes, int] = {}
    for home, number in destinations(problem.fabric, zone) if wanted is None else wanted:
        out = spine_output(live, home, number, intra=problem.intra)
        key = out.tobytes()
        if key in known:
            targets[known[key]].append((home, number))
            continue
        known[key] = len(rows)
        rows.append(out)
        targets.append([(home, number)])
    outs = np.array(rows, dtype=np.int16).reshape(len(rows), problem.fabric.spines)
    return targets, outs


def solve_zone(
    live: Live,
    zone: int,
    targets: list[list[tuple[int, int]]],
    outs: Grid,
    *,
    warm: tuple[Grid, Grid] | None = None,
) -> ZoneSelections:
    """Solve all cases of a zone.

    Parameters
    ----------
    warm
        Selections (lower, upper) of before, in the shapes of :class:`ZoneSelections`: mended rather than made anew.
    """
    low, up = live.lower[zone], live.upper[zone]
    (senders, fabrics), spines = low.shape, up.shape[1]
    count = len(outs)
    nodes = senders + fabrics + spines
    totals, worsts = (np.zeros((count, nodes), dtype=np.uint8) for _ in range(2))
    if warm is None:
        lower = np.zeros((count, senders, fabrics), dtype=np.int16)
        upper = np.zeros((count, fabrics, spines), dtype=np.int16)
    else:
        lower, upper = (one.copy() for one in warm)
    caps = np.zeros((count, senders), dtype=np.int16)
    # Who begins differs by destination, so that who loses does too.
    turns = np.array([7 * home + number for (home, number), *_ in targets], dtype=np.int64)
    work = count * (senders * fabrics + fabrics * spines)
    kernel = _kernel() if work >= COMPILE_FROM else flow.solve_all
    kernel(low, up, outs, turns, lower, upper, caps, totals, worsts, 0 if warm is None else 1)
    return ZoneSelections(zone, targets, outs, lower, upper, totals, worsts)


def solve_copy(problem: BalanceProblem, copy: int) -> list[ZoneSelections]:
    """Return the best selections of every zone of a copy.

    Destinations that look alike share a case where nobody loses anything; where somebody does, each is solved with another sender
    first, so that it is not the same one who loses towards all of them.
    """
    live = problem.live(copy)
    found = []
    for zone in range(len(problem.fabric.zones)):
        targets, outs = cases(problem, live, zone)
        if not targets:
            continue
        shared = solve_zone(live, zone, targets, outs)
        lossless = shared.capacities.sum(axis=1) == int(live.lower[zone].sum())
        split = [[place] for k, places in enumerate(targets) for place in places if not lossless[k] and len(places) > 1]
        keep = [k for k, places in enumerate(targets) if lossless[k] or len(places) == 1]
        if split:
            case = {place: k for k, places in enumerate(targets) for place in places}
            index = [case[place] for (place,) in split]
            found.append(solve_zone(live, zone, split, outs[index]))
        found.append(shared.only(keep))
    return found
