"""Fitting a fabric's latency, bandwidth and fixed cost to a measured curve.

The time of a collective of n bytes is taken as ``fixed + L alpha + W n / B``: alpha the latency of a hop from rank to
rank, B the bandwidth between neighbours, and (L, W) what the algorithm's critical path has of each. One curve cannot tell
the fixed cost from the latency of L hops: alpha is given, or stays as the fabric has it, as far as the curve allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import msgspec
import numpy as np

from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.fabric import Fabric

Points = Sequence[tuple[int, Fraction]]

FEWEST = 3
"""Points that a range of sizes needs, so that a fit of two figures can be wrong."""

AUTO_ERROR = 0.03
"""A fit with a typical error below this is not cut into more ranges."""

_REGIMES = {1: ("all",), 2: ("small", "large"), 3: ("small", "medium", "large")}

_KNOWN: dict[tuple[str, str], Callable[[int], tuple[int, Fraction]]] = {
    ("all-reduce", "ring"): lambda p: (2 * (p - 1), Fraction(2 * (p - 1), p)),
    ("all-gather", "ring"): lambda p: (p - 1, Fraction(p - 1, p)),
    ("reduce-scatter", "ring"): lambda p: (p - 1, Fraction(p - 1, p)),
    ("all-reduce", "in-network"): lambda p: (1, Fraction(1)),
    ("all-to-all", "direct"): lambda p: (1, Fraction(p - 1, p)),
}


@dataclass(frozen=True)
class Range:
    """A fit over sizes up to ``max_size`` (None: the last): seconds, and bytes/s between neighbours."""

    name: str
    max_size: int | None
    alpha: Fraction
    fixed: Fraction
    bandwidth: int
    points: int


@dataclass(frozen=True)
class Point:
    """A measurement beside a prediction; ``error`` is relative. ``outside``: no smaller, or no larger, size was used."""

    size: int
    measured: Fraction
    predicted: Fraction
    error: float
    outside: bool = False


@dataclass(frozen=True)
class Calibration:
    """What :func:`calibrate` found.

    Parameters
    ----------
    fabric
        The fabric that predicts.
    points
        All measurements, by the fit to all that were used.
    held_out
        Measurements predicted by a fit that has not seen them: each in turn, or every k-th.
    """

    fabric: Fabric
    collective: str
    algorithm: str
    ranks: int
    link_class: str
    ranges: tuple[Range, ...]
    points: tuple[Point, ...]
    held_out: tuple[Point, ...]
    notes: tuple[str, ...]

    @property
    def worst(self) -> float:
        """Largest relative error at the points of the fit."""
        return max(abs(point.error) for point in self.points)

    @property
    def worst_held_out(self) -> float | None:
        """Largest relative error at held-out points between others; None where there is none."""
        return max((abs(point.error) for point in self.held_out if not point.outside), default=None)


def calibrate(
    fabric: Fabric,
    points: Points,
    *,
    collective: str,
    algorithm: str,
    ranks: int | None = None,
    alpha: Fraction | None = None,
    link_class: str | None = None,
    protocols: int | None = None,
    protocol: str | None = None,
    hold_out: int | None = None,
) -> Calibration:
    """Fit a fabric to measurements.

    Parameters
    ----------
    points
        (bytes, seconds) by ascending size.
    ranks
        How many took part; all NPUs by default.
    alpha
        Seconds of a hop from rank to rank; the fabric's by default.
    link_class
        Which of the fabric's link classes the curve measures; needed where neighbours are joined by several.
    protocols
        Into how many ranges of sizes to cut the curve; None: as many as it asks for.
    protocol
        The name of the one protocol that was measured; needs ``protocols`` of 1 or None.
    hold_out
        Leave every so-many-th point out of the fit, to predict it; None: each in turn.

    Raises
    ------
    InvalidInput
        When the measurements, ranks or names do not fit.
    """
    ranks = len(fabric.seats) if ranks is None else ranks
    if not 2 <= ranks <= len(fabric.seats):
        raise InvalidInput(f"ranks {ranks}: {fabric.name} has {len(fabric.seats)} NPUs, and a collective needs 2")
    if (collective, algorithm) not in _KNOWN:
        known = ", ".join(f"{a} by {b}" for a, b in _KNOWN)
        raise InvalidInput(f"calibration of {collective} by {algorithm} is not known: expected one of {known}")
    if any(a[0] >= b[0] for a, b in itertools.pairwise(points)) or any(time <= 0 for _, time in points):
        raise InvalidInput("measurements must come by ascending size, with times greater than zero")
    if protocol is not None and protocols not in (None, 1):
        raise InvalidInput("a named protocol is one range of sizes: leave --protocols out")
    if hold_out is not None and hold_out < 2:
        raise InvalidInput(f"hold out {hold_out}: every second point at most can be left out")
    hops, volume = _KNOWN[collective, algorithm](ranks)
    if algorithm == "in-network":
        if fabric.costs.in_network is None:
            raise InvalidInput(f"{fabric.name}: nothing says that its switches reduce")
        volume /= fabric.costs.in_network
    names, present_alpha, present_width = _neighbours(fabric, ranks)
    chosen = _chosen(fabric, names, link_class)
    used = [one for k, one in enumerate(points) if hold_out is None or k % hold_out != hold_out - 1]
    count = 1 if protocol is not None else protocols
    cuts = _cuts(used, count)
    fits = [_fit(used[a:b]) for a, b in cuts]
    notes: list[str] = []
    ranges = []
    labels = (protocol,) if protocol is not None else _REGIMES[len(cuts)]
    for label, (a, b), (intercept, slope) in zip(labels, cuts, fits, strict=True):
        hop = present_alpha if alpha is None else alpha
        fixed = Fraction(intercept).limit_denominator(10**12) - hops * hop
        if fixed < 0:
            hop = max(Fraction(intercept).limit_denominator(10**12), Fraction(0)) / hops
            fixed = Fraction(0)
            notes.append(
                f"{label}: the curve leaves no more than {float(hop) * 1e6:.3g} us a hop, so alpha is lowered to that"
            )
        bandwidth = max(1, round(volume / Fraction(slope)))
        top = None if b == len(used) else _boundary(used[b - 1][0], used[b][0])
        ranges.append(Range(str(label), top, hop, fixed, bandwidth, b - a))
    calibrated = _changed(fabric, ranges, chosen, names, present_alpha, present_width)
    predicted = [_point(one, ranges, hops, volume) for one in points]
    if hold_out is None:
        held = [
            _point(points[k], _again(points, k, cuts, hops, volume), hops, volume, outside=k in (0, len(points) - 1))
            for k in range(len(points))
            if len(points) > FEWEST
        ]
    else:
        held = [replace(one, outside=k == len(points) - 1) for k, one in enumerate(predicted) if points[k] not in used]
    return Calibration(
        fabric=calibrated,
        collective=collective,
        algorithm=algorithm,
        ranks=ranks,
        link_class=chosen,
        ranges=tuple(ranges),
        points=tuple(one for one, point in zip(predicted, points, strict=True) if point in used),
        held_out=tuple(held),
        notes=tuple(notes),
    )


def _neighbours(fabric: Fabric, ranks: int) -> tuple[set[str], Fraction, Fraction]:
    """Return the classes of the links between neighbouring ranks, a hop's latency, and its bandwidth in bytes/s."""
    of_link = {link: name for name, members in fabric.link_classes.items() for link in members}
    names: set[str] = set()
    waits, widths = [], []
    for rank in range(ranks):
        paths = fabric.route(rank, (rank + 1) % ranks)
        names |= {of_link[link] for path in paths for link in path}
        waits.append(max(sum((fabric.links[link].latency for link in path), Fraction(0)) for path in paths))
        widths.append(len(paths) * min(fabric.links[link].bandwidth for path in paths for link in path))
    return names, max(waits), Fraction(min(widths))


def _chosen(fabric: Fabric, names: set[str], wanted: str | None) -> str:
    if wanted is None:
        if len(names) > 1:
            raise InvalidInput(
                f"{fabric.name}: neighbours are joined by several classes of links: choose one with --class: "
                f"{', '.join(repr(name) for name in sorted(names))}"
            )
        return next(iter(names))
    if wanted not in fabric.link_classes:
        raise InvalidInput(f"unknown class of links {wanted!r}{suggest(wanted, list(fabric.link_classes))}")
    return wanted


def _fit(points: Points) -> tuple[float, float]:
    """Return (intercept, slope) in seconds and seconds/byte: least squares of relative errors, then towards minimax."""
    size = np.array([float(n) for n, _ in points])
    time = np.array([float(t) for _, t in points])
    weight = np.ones(len(points))
    best: tuple[float, float, float] | None = None
    scale = float(size.max())
    for _ in range(60):
        rows = np.stack([np.ones_like(size), size / scale], axis=1) * (weight / time)[:, None]
        (intercept, slope), *_ = np.linalg.lstsq(rows, weight, rcond=None)
        error = np.abs((intercept + slope * size / scale) / time - 1)
        if slope > 0 and intercept >= 0 and (best is None or error.max() < best[0]):
            best = (float(error.max()), float(intercept), float(slope) / scale)
        if error.max() == 0:
            break
        weight = weight * np.sqrt(error + 1e-3 * error.max())
        weight /= weight.max()
    if best is None:
        # Through the origin: the latency of the smallest message does not show.
        slope = float((size / time).sum() / ((size / time) ** 2).sum())
        if not (slope > 0 and time[-1] > time[0]):
            raise InvalidInput("times do not grow with size: there is no bandwidth to fit; give larger sizes")
        return 0.0, slope
    return best[1], best[2]


def _errors(points: Points, fit: tuple[float, float]) -> list[float]:
    return [(fit[0] + fit[1] * float(n)) / float(t) - 1 for n, t in points]


def _cuts(points: Points, count: int | None) -> list[tuple[int, int]]:
    """Return the ranges of points that are fitted apart, as (begin, end)."""
    if len(points) < FEWEST * (count or 1):
        raise InvalidInput(f"{len(points)} measurements are too few: {count or 1} ranges need {FEWEST} each")
    options: dict[int, tuple[float, list[tuple[int, int]]]] = {}
    for parts in (1, 2, 3) if count is None else (count,):
        for inner in itertools.combinations(range(1, len(points)), parts - 1):
            edges = [0, *inner, len(points)]
            cuts = list(itertools.pairwise(edges))
            if min(b - a for a, b in cuts) < FEWEST:
                continue
            try:
                wrong = [error for a, b in cuts for error in _errors(points[a:b], _fit(points[a:b]))]
            except InvalidInput:
                if parts == 1:
                    raise
                continue
            rms = float(np.sqrt(np.mean(np.square(wrong))))
            if parts not in options or rms < options[parts][0]:
                options[parts] = (rms, cuts)
    if count is not None:
        if count not in options:
            raise InvalidInput(f"the curve cannot be cut into {count} ranges in which times grow with size")
        return options[count][1]
    chosen = options[1]
    for parts in (2, 3):
        if parts in options and chosen[0] > AUTO_ERROR and options[parts][0] < chosen[0] / 2:
            chosen = options[parts]
    return chosen[1]


def _boundary(low: int, high: int) -> int:
    """Return the size up to which the lower range holds: half-way between two measured ones, as sizes double."""
    return int(np.sqrt(float(low) * float(high)))


def _range_of(size: int, ranges: Sequence[Range]) -> Range:
    return next((one for one in ranges if one.max_size is None or size <= one.max_size), ranges[-1])


def _point(
    point: tuple[int, Fraction], ranges: Sequence[Range], hops: int, volume: Fraction, *, outside: bool = False
) -> Point:
    size, measured = point
    one = _range_of(size, ranges)
    predicted = one.fixed + hops * one.alpha + volume * size / one.bandwidth
    return Point(size, measured, predicted, float(predicted / measured - 1), outside)


def _again(points: Points, left_out: int, cuts: list[tuple[int, int]], hops: int, volume: Fraction) -> list[Range]:
    """Return the fits without one point; its range must still have points enough, or borrows them from a neighbour."""
    found = []
    for a, b in cuts:
        kept = [points[k] for k in range(a, b) if k != left_out]
        if len(kept) < 2:
            kept = [points[k] for k in range(max(0, a - 1), min(len(points), b + 1)) if k != left_out]
        intercept, slope = _fit(kept)
        top = None if b == len(points) else _boundary(points[b - 1][0], points[b][0])
        found.append(
            Range("", top, Fraction(0), Fraction(intercept), max(1, round(volume / Fraction(slope))), len(kept))
        )
    return found


def _changed(
    fabric: Fabric, ranges: Sequence[Range], chosen: str, names: set[str], alpha: Fraction, width: Fraction
) -> Fabric:
    """Return the fabric with what was fitted: its links themselves, or protocols where there are several ranges."""
    members = fabric.link_classes[chosen]
    sample = fabric.links[members[0]]
    # Other classes on the way keep their latency; what is left is spread as it is now.
    share = sample.latency / alpha if alpha else Fraction(1, max(1, len(names)))

    def fitted(one: Range) -> tuple[int, Fraction]:
        return max(1, round(sample.bandwidth * Fraction(one.bandwidth) / width)), one.alpha * share

    costs = msgspec.structs.replace(fabric.costs, switching="cut-through", protocols=())
    if len(ranges) == 1:
        bandwidth, latency = fitted(ranges[0])
        links = list(fabric.links)
        for link in members:
            links[link] = replace(links[link], bandwidth=bandwidth, latency=latency)
        return fabric.changed(links=links, costs=msgspec.structs.replace(costs, fixed=ranges[0].fixed))
    protocols = []
    for one in ranges:
        bandwidth, latency = fitted(one)
        protocols.append(
            Protocol(
                name=one.name,
                max_size=None if one.max_size is None else Fraction(one.max_size),
                fixed=one.fixed,
                bandwidth={chosen: bandwidth},
                latency={chosen: latency},
            )
        )
    return fabric.changed(costs=Costs(**{**msgspec.structs.asdict(costs), "protocols": tuple(protocols)}))
