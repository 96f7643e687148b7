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

from fabric_plan.planner.costs import Protocol
from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.fabric import Fabric, Link
from fabric_plan.planner.units import format_bandwidth, format_time

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
    ("broadcast", "ring"): lambda p: (p - 1, Fraction(1)),
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
        Measurements predicted by a fit that has not seen them: every k-th, which nothing has seen, or each in turn, of
        which only the ranges that the curve was cut into know.
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


@dataclass(frozen=True)
class _Hop:
    """What links of a class give between neighbouring ranks at present.

    ``width`` is the bytes/s that they leave a message while all send to their neighbours, the least of all; ``alpha`` the
    seconds of the slowest path that has such links, ``rest`` what links of other classes have of them, ``links`` how
    many are of the class.
    """

    width: Fraction
    alpha: Fraction
    rest: Fraction
    links: int


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
        Which of the fabric's link classes the curve measures; the one that bounds the routes between neighbours by default.
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
    if protocols not in (None, *_REGIMES):
        raise InvalidInput(f"protocols {protocols}: a curve is cut into 1, 2 or 3 ranges of sizes")
    steps, volume = _KNOWN[collective, algorithm](ranks)
    if algorithm == "in-network":
        if fabric.costs.in_network is None:
            raise InvalidInput(f"{fabric.name}: nothing says that its switches reduce")
        volume /= fabric.costs.in_network
    if algorithm == "direct":
        _check_one_door(fabric, ranks)
    notes: list[str] = []
    hops = _hops(fabric, ranks)
    chosen = _chosen(fabric, hops, link_class, notes)
    apart = {fabric.distance(rank, (rank + 1) % ranks) for rank in range(ranks)}
    if algorithm == "ring" and len(apart) > 1:
        notes.append(
            f"ranks in order are {min(apart)} to {max(apart)} links apart, and alpha is that of the most: a ring in a better "
            "order is quicker than the fit says"
        )
    waits = {_latency(fabric, rank, (rank + 1) % ranks) for rank in range(ranks)}
    if algorithm == "ring" and len(apart) == 1 and len(waits) > 1:
        notes.append(
            f"hops from rank to rank take {format_time(min(waits))} to {format_time(max(waits))}, and alpha is that of the "
            "slowest: simulations of short messages will be quicker than the fit says"
        )
    used = [one for k, one in enumerate(points) if hold_out is None or k % hold_out != hold_out - 1]
    cuts = _cuts(used, 1 if protocol is not None else protocols)
    labels = (protocol,) if protocol is not None else _REGIMES[len(cuts)]
    ranges = []
    for label, (a, b) in zip(labels, cuts, strict=True):
        intercept, slope = _fit(used[a:b])
        wait, fixed = _split(label, intercept, steps, alpha, hops[chosen], notes)
        bandwidth = max(1, round(volume / Fraction(slope)))
        for name, other in hops.items():
            if name != chosen and other.width < bandwidth:
                raise InvalidInput(
                    f"{label}: the curve reaches {format_bandwidth(bandwidth)} between neighbours, more than the "
                    f"{format_bandwidth(other.width)} of {name!r} on the way: choose that with --class, or widen it first"
                )
        top = None if b == len(used) else _boundary(used[b - 1][0], used[b][0])
        ranges.append(Range(label, top, wait, fixed, bandwidth, b - a))
    calibrated = _changed(fabric, ranges, chosen, hops[chosen])
    if calibrated.costs.switching != fabric.costs.switching:
        notes.append(
            f"the fit takes a hop's bytes as sent once: the calibrated fabric is {calibrated.costs.switching}, "
            f"no longer {fabric.costs.switching}"
        )
    for one in ranges:
        found = _hops(calibrated.for_size(one.max_size or points[-1][0]), ranks)
        if abs(min(hop.width for hop in found.values()) / one.bandwidth - 1) > Fraction(1, 10**6):
            notes.append(
                f"{one.name}: routes prefer wide links, and become others, so simulations will not be as the fit"
            )
    predicted = [_point(one, ranges, steps, volume) for one in points]
    if hold_out is not None:
        held = [replace(one, outside=k == len(points) - 1) for k, one in enumerate(predicted) if points[k] not in used]
    elif len(points) > FEWEST:
        held = _each_in_turn(points, cuts, volume, notes)
    else:
        held = []
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


def _latency(fabric: Fabric, source: int, target: int) -> Fraction:
    return max(sum((fabric.links[link].latency for link in path), Fraction(0)) for path in fabric.route(source, target))


def _hops(fabric: Fabric, ranks: int) -> dict[str, _Hop]:
    """Return what each class of links on the routes between neighbouring ranks gives there."""
    of_link = {link: name for name, members in fabric.link_classes.items() for link in members}
    routes = [fabric.route(rank, (rank + 1) % ranks) for rank in range(ranks)]
    shares: dict[int, Fraction] = {}  # how many neighbours' messages each link carries
    found: dict[str, _Hop] = {}
    for route in routes:
        for path in route:
            total = sum((fabric.links[link].latency for link in path), Fraction(0))
            for link in path:
                shares[link] = shares.get(link, Fraction(0)) + Fraction(1, len(route))
            for name in {of_link[link] for link in path}:
                mine = [fabric.links[link].latency for link in path if of_link[link] == name]
                here = _Hop(Fraction(0), total, total - sum(mine, Fraction(0)), len(mine))
                found[name] = max(found.get(name, here), here, key=lambda one: one.alpha)
    for name, hop in found.items():
        width = min(fabric.links[link].bandwidth / share for link, share in shares.items() if of_link[link] == name)
        found[name] = replace(hop, width=width)
    return found


def _chosen(fabric: Fabric, hops: dict[str, _Hop], wanted: str | None, notes: list[str]) -> str:
    """Return the class of links that is fitted: the one asked for, else the only one that bounds the routes."""
    several = ", ".join(map(repr, sorted(hops)))
    if wanted is not None:
        if wanted not in fabric.link_classes:
            raise InvalidInput(f"unknown class of links {wanted!r}{suggest(wanted, list(fabric.link_classes))}")
        if wanted not in hops:
            raise InvalidInput(
                f"no neighbouring ranks are joined by {wanted!r}, so nothing measures it: choose {several}"
            )
        return wanted
    least = min(one.width for one in hops.values())
    bounding = sorted(name for name, one in hops.items() if one.width == least)
    if len(bounding) > 1:
        raise InvalidInput(
            f"{fabric.name}: neighbours are joined by several classes of links, equally wide: choose one with --class: "
            f"{several}"
        )
    if len(hops) > 1:
        notes.append(
            f"neighbours are joined by {several}; {bounding[0]!r} bounds them, so the curve is taken to measure it"
        )
    return bounding[0]


def _check_one_door(fabric: Fabric, ranks: int) -> None:
    """Refuse where a rank's messages to different ranks leave over different links, and so do not share them."""
    doors = [{path[0] for path in fabric.route(0, rank)} for rank in range(1, ranks)]
    if any(one != doors[0] for one in doors):
        raise InvalidInput(
            f"{fabric.name}: direct is fitted where all of a rank's messages leave over the same links, as to a switch: "
            "calibrate this fabric with a ring collective"
        )


def _split(
    label: str, intercept: float, steps: int, given: Fraction | None, hop: _Hop, notes: list[str]
) -> tuple[Fraction, Fraction]:
    """Return (alpha, fixed) of an intercept: alpha as given or as it is now, or what the curve leaves room for."""
    exact = Fraction(intercept).limit_denominator(10**12)
    alpha = hop.alpha if given is None else given
    if steps * alpha > exact:
        alpha = exact / steps
        notes.append(f"{label}: the curve leaves no more than {format_time(alpha)} a hop, so alpha is lowered to that")
    if alpha < hop.rest:
        raise InvalidInput(
            f"{label}: alpha {format_time(alpha)} is less than the {format_time(hop.rest)} of the other links of a hop: "
            "lower their latency in a graph file of the fabric"
        )
    return alpha, exact - steps * alpha


def _fit(points: Points) -> tuple[float, float]:
    """Return (intercept, slope) in seconds and seconds/byte: least squares of relative errors, then towards minimax."""
    size = np.array([float(n) for n, _ in points])
    time = np.array([float(t) for _, t in points])
    weight = np.ones(len(points))
    best: tuple[float, float, float] | None = None
    for turn in range(60):
        share = (weight / time) ** 2
        share /= share.sum()
        middle = size - share @ size
        slope = float(share @ (middle * time) / (share @ middle**2))
        intercept = float(share @ (time - slope * size))
        if turn == 0 and slope * (size.max() - size.min()) <= 1e-9 * time.max():  # or what rounding makes of nothing
            raise InvalidInput("times do not grow with size: there is no bandwidth to fit; measure larger sizes")
        error = np.abs((intercept + slope * size) / time - 1)
        worst = float(error.max())
        if slope > 0 and intercept >= 0 and (best is None or worst < best[0]):
            best = worst, intercept, slope
        if worst == 0:
            break
        weight = weight * np.sqrt(error + 1e-3 * worst)
        weight /= weight.max()
    if best is None:
        # Through the origin: the latency of the smallest message does not show.
        return 0.0, float((size / time).sum() / ((size / time) ** 2).sum())
    return best[1], best[2]


def _cuts(points: Points, count: int | None) -> list[tuple[int, int]]:
    """Return the ranges of points that are fitted apart, as (begin, end)."""
    if len(points) < FEWEST * (count or 1):
        raise InvalidInput(
            f"{len(points)} measurements are too few: a fit needs {FEWEST} a range of sizes: measure more sizes"
        )
    squares: dict[tuple[int, int], float] = {}  # the sum of squared relative errors of a range
    for a, b in itertools.combinations(range(len(points) + 1), 2):
        if b - a >= FEWEST and (a == 0 or b == len(points) or count in (None, 3)):
            try:
                intercept, slope = _fit(points[a:b])
            except InvalidInput:
                if (a, b) == (0, len(points)):
                    raise
                continue
            squares[a, b] = sum(((intercept + slope * n) / float(t) - 1) ** 2 for n, t in points[a:b])
    best: dict[int, tuple[float, list[tuple[int, int]]]] = {}
    for parts in (1, 2, 3) if count is None else (count,):
        for inner in itertools.combinations(range(1, len(points)), parts - 1):
            cuts = list(itertools.pairwise((0, *inner, len(points))))
            if all(one in squares for one in cuts):
                typical = (sum(squares[one] for one in cuts) / len(points)) ** 0.5
                best[parts] = min(best.get(parts, (typical, cuts)), (typical, cuts))
    if count is not None and count not in best:
        raise InvalidInput(f"the curve cannot be cut into {count} ranges in which times grow with size: ask for fewer")
    chosen = best[count or 1]
    for parts in (2, 3):
        if count is None and parts in best and chosen[0] > AUTO_ERROR and best[parts][0] < chosen[0] / 2:
            chosen = best[parts]
    return chosen[1]


def _boundary(low: int, high: int) -> int:
    """Return the size up to which the lower range holds: half-way between two measured ones, as sizes double."""
    return int(np.sqrt(float(low) * float(high)))


def _range_of(size: int, ranges: Sequence[Range]) -> Range:
    return next((one for one in ranges if one.max_size is None or size <= one.max_size), ranges[-1])


def _point(
    point: tuple[int, Fraction], ranges: Sequence[Range], steps: int, volume: Fraction, *, outside: bool = False
) -> Point:
    size, measured = point
    one = _range_of(size, ranges)
    predicted = one.fixed + steps * one.alpha + volume * size / one.bandwidth
    return Point(size, measured, predicted, float(predicted / measured - 1), outside)


def _each_in_turn(points: Points, cuts: list[tuple[int, int]], volume: Fraction, notes: list[str]) -> list[Point]:
    """Return every point as the others of its range predict it."""
    found = []
    for a, b in cuts:
        for k in range(a, b):
            others = [*points[a:k], *points[k + 1 : b]]
            try:
                intercept, slope = _fit(others)
            except InvalidInput:
                notes.append(f"{points[k][0]} bytes cannot be held out: times of the others do not grow with size")
                continue
            alone = Range(
                "", None, Fraction(0), Fraction(intercept), max(1, round(volume / Fraction(slope))), len(others)
            )
            found.append(_point(points[k], [alone], 0, volume, outside=k in (0, len(points) - 1)))
    return found


def _changed(fabric: Fabric, ranges: Sequence[Range], chosen: str, hop: _Hop) -> Fabric:
    """Return the fabric with what was fitted: its links themselves, or protocols where there are several ranges.

    Its switches cut through, since the fit takes the bytes of a hop as sent once, over however many links it leads.
    """

    def fitted(link: Link, one: Range) -> Link:
        # Links of other classes on the way keep their latency; the chosen class takes what is left.
        left, now = one.alpha - hop.rest, hop.alpha - hop.rest
        return replace(
            link,
            bandwidth=max(1, round(link.bandwidth * one.bandwidth / hop.width)),
            latency=link.latency * left / now if now else left / hop.links,
        )

    members = fabric.link_classes[chosen]
    costs = msgspec.structs.replace(fabric.costs, switching="cut-through", protocols=())
    if len(ranges) == 1:
        links = list(fabric.links)
        for link in members:
            links[link] = fitted(links[link], ranges[0])
        return fabric.changed(links=links, costs=msgspec.structs.replace(costs, fixed=ranges[0].fixed))
    if len({(fabric.links[link].bandwidth, fabric.links[link].latency) for link in members}) > 1:
        raise InvalidInput(
            f"links of class {chosen!r} differ, and a protocol gives all of a class the same: ask for one range with "
            "--protocols 1, or give them classes of their own"
        )
    protocols = []
    for one in ranges:
        sample = fitted(fabric.links[members[0]], one)
        protocols.append(
            Protocol(
                name=one.name,
                max_size=None if one.max_size is None else Fraction(one.max_size),
                fixed=one.fixed,
                bandwidth={chosen: sample.bandwidth},
                latency={chosen: sample.latency},
            )
        )
    return fabric.changed(costs=msgspec.structs.replace(costs, protocols=tuple(protocols)))
