"""The judge of balance plans: reachability propagated from the failures and the withdrawals alone.

Capacities, inputs and outputs are what propagation finds; a bound holds if the plan's cut says so, and the cut is counted here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from fabric_plan.planner.dsf import Live, count_links
from fabric_plan.planner.simulator.fluid import fluid, is_exact
from fabric_plan.planner.simulator.reach import Pair, advertised, cut_value, oversubscribed, remote_pairs, spine_output

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan, BalanceProblem, BalanceReport, Profile

MAX_LOAD_PAIRS = 4_000
"""Up to so many pairs of a zone and a destination, in all copies together, the fluid load is computed."""


@dataclass
class Counts:
    """What is added up over all pairs of a plan."""

    total: int = 0
    total_bound: int = 0
    worst: int | None = None
    worst_bound: int | None = None
    capacities: Counter[int] = field(default_factory=Counter)
    impossible: int = 0
    cut_off: int = 0
    withdrawn: int = 0


def check(plan: BalancePlan) -> tuple[BalanceReport | None, list[str]]:
    """Propagate a plan and return (report, violations): no violation means that the plan is valid."""
    problem = plan.problem
    if len(plan.copies) != problem.fabric.copies:
        return None, [f"copies: profiles are given for {len(plan.copies)}, the fabric has {problem.fabric.copies}"]
    for copy, profiles in enumerate(plan.copies):
        faults = _covered(problem, copy, profiles)
        if faults:
            return None, faults[:5]
    counts, faults = _survey(plan)
    report = _report(plan, counts)
    faults += _coupling_faults(plan)
    faults += _certificate_faults(plan, counts, report)
    if plan.report is not None and plan.report != report:
        faults.append("report: it does not say what propagation finds")
    return report, faults


def measure(plan: BalancePlan) -> tuple[BalanceReport, int, int | None]:
    """Return what propagation finds of a plan, and the bounds on the total and on the worst pair that its cuts prove.

    The certificate is not looked at, and the plan may have profiles of the first copies only.
    """
    counts, _ = _survey(plan)
    return _report(plan, counts), counts.total_bound, counts.worst_bound


def _survey(plan: BalancePlan) -> tuple[Counts, list[str]]:
    counts, faults = Counts(), []
    for copy, profiles in enumerate(plan.copies):
        live = plan.problem.live(copy)
        for profile in profiles:
            faults += _profile(plan.problem, live, copy, profile, counts, bounded=plan.policy != "none")
            if len(faults) > 20:
                return counts, faults
    return counts, faults


def _report(plan: BalancePlan, counts: Counts) -> BalanceReport:
    from fabric_plan.planner.balance import BalanceReport

    load, hottest = _load(plan)
    return BalanceReport(
        total=counts.total,
        built=built_total(plan.problem),
        worst=counts.worst,
        capacities=tuple(sorted(counts.capacities.items())),
        cut_off=(counts.impossible, counts.cut_off),
        local=_local(plan),
        withdrawn=counts.withdrawn,
        load=load,
        hottest=hottest,
    )


def built_total(problem: BalanceProblem) -> int:
    """Return the capacity of all pairs of different zones without failures."""
    lower, _ = problem.fabric.built
    sent = [int(one.sum()) for one in lower]
    nodes = [zone.interfaces for zone in problem.fabric.zones]
    pairs = sum(links * (sum(nodes) - own) for links, own in zip(sent, nodes, strict=True))
    return pairs * problem.fabric.copies


def propagated(problem: BalanceProblem, profiles: tuple[Profile, ...], copy: int) -> Iterator[Pair]:
    """Yield how every zone reaches every destination of the other zones in a copy."""
    live = problem.live(copy)
    for profile in profiles:
        zone = problem.fabric.zones[profile.zone]
        upper = profile.upper.grid(zone.fabrics, problem.fabric.spines)
        lower = profile.lower.grid(zone.interfaces, zone.fabrics)
        for home, number in profile.destinations:
            yield advertised(live, profile.zone, home, number, upper, lower, intra=problem.intra)


def _covered(problem: BalanceProblem, copy: int, profiles: tuple[Profile, ...]) -> list[str]:
    """Every pair of a zone and a destination outside it is in one profile."""
    zones = problem.fabric.zones
    found: Counter[tuple[int, int, int]] = Counter()
    for profile in profiles:
        for home, number in profile.destinations:
            if not (0 <= profile.zone < len(zones) and 0 <= home < len(zones) and 0 <= number < zones[home].interfaces):
                return [
                    f"copy {copy}: a profile of zone {profile.zone} names destination {home}, {number}, which is none"
                ]
            found[profile.zone, home, number] += 1
    wanted = set(remote_pairs(problem.fabric))
    if set(found) != wanted or any(count != 1 for count in found.values()):
        return [f"copy {copy}: every zone needs one profile for each destination outside it"]
    return []


def _profile(
    problem: BalanceProblem, live: Live, copy: int, profile: Profile, counts: Counts, *, bounded: bool
) -> list[str]:
    dsf = problem.fabric
    zone = dsf.zones[profile.zone]
    name = f"copy {copy}, zone {zone.name}"
    try:
        upper = profile.upper.grid(zone.fabrics, dsf.spines)
        lower = profile.lower.grid(zone.interfaces, zone.fabrics)
        sizes = (zone.interfaces, zone.fabrics, dsf.spines)
        cuts = [None if one is None else one.members(*sizes) for one in (profile.total_cut, profile.worst_cut)]
    except ValueError as error:
        return [f"{name}: {error}"]
    if (upper & ~live.upper_links[profile.zone]).any() or (lower & ~live.lower_links[profile.zone]).any():
        return [f"{name}: a link that is not alive is withdrawn"]
    gone_upper, gone_lower = count_links(upper, dsf.widest), count_links(lower, dsf.widest)
    own = live.lower[profile.zone].sum(axis=1)
    faults: list[str] = []
    # Destinations towards which the spines have the same output look the same from here: one of them is propagated for all.
    alike: dict[bytes, list[tuple[int, int]]] = {}
    for home, number in profile.destinations:
        alike.setdefault(spine_output(live, home, number, intra=problem.intra).tobytes(), []).append((home, number))
    for places in alike.values():
        many, (home, number) = len(places), places[0]
        pair = advertised(live, profile.zone, home, number, upper, lower, intra=problem.intra)
        if bounded:
            for kind, index, incoming, outgoing in oversubscribed(pair)[:3]:
                device = dsf.spine_list[index] if kind == "spine" else f"{zone.name}/{zone.fabric_names[index]}"
                target = dsf.interface_name(home, number)
                faults.append(f"{name} to {target}: {device} has input {incoming} over output {outgoing}")
        capacity, possible = pair.capacity, reachable(live, pair)
        counts.total += many * int(capacity.sum())
        for links, times in zip(*np.unique(capacity, return_counts=True), strict=True):
            counts.capacities[int(links)] += many * int(times)
        gone = int(gone_upper[:, pair.output > 0].sum()) + int(gone_lower[:, pair.upper.sum(axis=1) > 0].sum())
        counts.withdrawn += many * gone
        counts.impossible += many * int((~possible).sum())
        counts.cut_off += many * int((capacity[possible] == 0).sum())
        counts.total_bound += (
            many * _cut_bound(live, profile.zone, pair, cuts[0], np.ones(len(own), dtype=bool), own)[0]
        )
        if possible.any():
            least = int(capacity[possible].min())
            bound = _cut_bound(live, profile.zone, pair, cuts[1], possible, own)[1]
            counts.worst = least if counts.worst is None else min(counts.worst, least)
            counts.worst_bound = bound if counts.worst_bound is None else min(counts.worst_bound, bound)
    return faults


def reachable(live: Live, pair: Pair) -> Any:
    """Return which interface nodes have any way to the destination, whatever is withdrawn, shape (interfaces,)."""
    useful: Any = ((live.upper[pair.zone] > 0) & (pair.output > 0)[None, :]).any(axis=1)
    return ((live.lower[pair.zone] > 0) & useful[None, :]).any(axis=1)


def _cut_bound(live: Live, zone: int, pair: Pair, cut: Any, wanted: Any, own: Any) -> tuple[int, int]:
    """Return what the wanted senders can send at most in total, and the smallest of them, by a cut and by their own links."""
    total, least = int(own[wanted].sum()), int(own[wanted].min())
    if cut is not None:
        side = [one for one in cut[0].tolist() if wanted[one]]
        if side:
            value = cut_value(live, zone, pair.output, side, cut[1].tolist(), cut[2].tolist())
            rest = int(own[wanted].sum()) - int(own[side].sum())
            total, least = min(total, value + rest), min(least, value // len(side))
    return total, least


def _local(plan: BalancePlan) -> tuple[int, int | None]:
    """Return the total and the smallest capacity between interface nodes of one zone."""
    total, worst = 0, None
    for copy in range(len(plan.copies)):
        live = plan.problem.live(copy)
        for lower in live.lower:
            if len(lower) < 2:
                continue
            if plan.problem.intra and live.dsf.widest > 1:
                links = np.minimum(lower[:, None, :], lower[None, :, :]).sum(axis=2, dtype=np.int64)
            else:
                links = lower.astype(np.int64) @ (lower > 0).astype(np.int64).T
            others = ~np.eye(len(lower), dtype=bool)
            total += int(links[others].sum())
            least = int(links[others].min())
            worst = least if worst is None else min(worst, least)
    return total, worst


def _load(plan: BalancePlan) -> tuple[Fraction | None, str]:
    """Return the largest fluid load over all copies and the link that has it; nothing where there are too many pairs."""
    problem = plan.problem
    zones = problem.fabric.zones
    pairs = sum(zone.interfaces for zone in zones) * (len(zones) - 1) * problem.fabric.copies
    if not 0 < pairs <= MAX_LOAD_PAIRS:
        return None, ""
    best, hottest = Fraction(0), ""
    exact = is_exact(problem.fabric)
    for copy, profiles in enumerate(plan.copies):
        live = problem.live(copy)
        load, where = fluid(live, propagated(problem, profiles, copy)).largest(live)
        value = Fraction(load) if exact else Fraction(float(load)).limit_denominator(10**6)
        if value > best:
            best, hottest = value, where + (f"@{copy}" if copy else "")
    return best, hottest


def _coupling_faults(plan: BalancePlan) -> list[str]:
    coupling, faults = plan.problem.coupling, []
    dsf = plan.problem.fabric
    if coupling.profiles is not None:
        for copy, profiles in enumerate(plan.copies):
            used = Counter((one.zone, home) for one in profiles for home in {place[0] for place in one.destinations})
            faults += [
                f"copy {copy}: zone {dsf.zones[zone].name} uses {count} profiles towards {dsf.zones[home].name}, {coupling.profiles} are allowed"
                for (zone, home), count in sorted(used.items())
                if count > coupling.profiles
            ]
    if coupling.bundle:
        faults += _bundle_faults(plan)
    if coupling.min_links > 1:
        for copy, profiles in enumerate(plan.copies):
            for pair in propagated(plan.problem, profiles, copy):
                through = pair.upper.sum(axis=1)
                low = np.flatnonzero((through > 0) & (through < coupling.min_links) & (pair.lower.sum(axis=0) > 0))
                if len(low):
                    device = dsf.zones[pair.zone].fabric_names[int(low[0])]
                    faults.append(
                        f"copy {copy}: {dsf.zones[pair.zone].name}/{device} advertises {dsf.interface_name(pair.home, pair.destination)} "
                        f"with {int(through[low[0]])} links, fewer than {coupling.min_links}"
                    )
                    break
    return faults


def _bundle_faults(plan: BalancePlan) -> list[str]:
    """Virtual devices of a plane withdraw the same links, where these are alive and the device can reach the destination at all."""
    dsf, devices = plan.problem.fabric, plan.problem.fabric.devices
    for first in range(0, dsf.copies, devices):
        shared: dict[tuple[int, int, int], list[Any]] = {}
        for copy in range(first, first + devices):
            live = plan.problem.live(copy)
            for pair in propagated(plan.problem, plan.copies[copy], copy):
                able_upper = np.broadcast_to(pair.output > 0, live.upper[pair.zone].shape)
                able_lower = np.broadcast_to(pair.upper.sum(axis=1) > 0, live.lower[pair.zone].shape)
                alive = (
                    np.where(able_upper, live.upper_links[pair.zone], 0),
                    np.where(able_lower, live.lower_links[pair.zone], 0),
                )
                gone = (alive[0] & ~pair.upper_links, alive[1] & ~pair.lower_links)
                known = shared.setdefault((pair.zone, pair.home, pair.destination), [])
                for other_alive, other_gone in known:
                    if any(
                        ((a & b & (x ^ y)) != 0).any()
                        for a, b, x, y in zip(alive, other_alive, gone, other_gone, strict=True)
                    ):
                        name = dsf.interface_name(pair.home, pair.destination)
                        return [
                            f"copy {copy}: towards {name} a virtual device withdraws a link that another of its chassis keeps"
                        ]
                known.append((alive, gone))
    return []


def _certificate_faults(plan: BalancePlan, counts: Counts, report: BalanceReport) -> list[str]:
    values = {
        "total": (Fraction(report.total), "links", counts.total_bound),
        "worst": (None if report.worst is None else Fraction(report.worst), "links", counts.worst_bound),
        "withdrawn": (Fraction(report.withdrawn), "links", None),
        "load": (report.load, "of a link", None),
    }
    faults = []
    certificate = plan.certificate
    for key in certificate.keys:
        if key.name not in values:
            faults.append(f"certificate: unknown key {key.name!r}")
            continue
        value, unit, cut = values[key.name]
        if key.value != value:
            faults.append(f"certificate: {key.name} is stated as {key.value}, propagation finds {value}")
        if key.unit != unit or key.maximised != (key.name in ("total", "worst")):
            faults.append(f"certificate: {key.name} is stated in {key.unit}, it is in {unit}")
        if key.bound is None:
            continue
        if key.maximised and plan.problem.coupling.free and cut is not None and key.bound < cut:
            faults.append(f"certificate: the bound {key.bound} on {key.name} is below what the cuts prove, {cut}")
        if (key.bound < key.value) if key.maximised else (key.bound > key.value):
            faults.append(
                f"certificate: the bound {key.bound} on {key.name} contradicts its value {key.value}, so it is false"
            )
    closed = all(key.closed for key in certificate.keys if key.asked)
    if (certificate.status == "optimal") != closed:
        faults.append(
            f"certificate: status {certificate.status.value}, but {'every' if closed else 'not every'} bound meets its value"
        )
    return faults
