"""What the command balance prints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fabric_plan.planner.balance_result import share
from fabric_plan.planner.result import gap_text, show_value

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan
    from fabric_plan.planner.simulator.cells import SchemeReport

MOST = 24
"""Interface nodes up to which all pairs are printed."""


def describe(plan: BalancePlan) -> str:
    """Return a plan in one line."""
    fabric, failed = plan.problem.fabric, len(plan.problem.failed)
    coupling = plan.problem.coupling
    extra = [f"{coupling.profiles} profile(s) a pair of zones"] if coupling.profiles is not None else []
    extra += ["ports bundled"] if coupling.bundle else []
    extra += [f"at least {coupling.min_links} links"] if coupling.min_links > 1 else []
    told = f", {', '.join(extra)}" if extra else ""
    return f"{fabric.name} ({fabric.links:,} links), {failed:,} failed, policy {plan.policy}{told}"


def print_plan(plan: BalancePlan, *, verbose: bool) -> None:
    """Print the certificate, the baselines, and, of small fabrics, every pair."""
    certificate, report = plan.certificate, plan.report
    print(describe(plan))
    told = {"optimal": "optimal, proved", "feasible": "feasible"}
    print(f"  status      {told.get(certificate.status.value, certificate.status.value)}, gap {gap_text(certificate)}")
    for key in certificate.keys:
        bound = "" if key.bound is None else f", bound {show_value(key.bound, 'links')}"
        value = f"{key.value.numerator:,}" if key.value.denominator == 1 else show_value(key.value, "links")
        print(f"  {key.name:<11} {value} {key.unit}{bound}")
    if report is not None:
        print(f"  capacity    {share(report.total, report.built)} of what was built")
        if report.local[1] is not None:
            print(f"  in zones    {report.local[0]:,} links, worst pair {report.local[1]}")
        if report.hottest:
            print(f"  busiest     {report.hottest}")
        if report.cut_off[0]:
            print(f"  cut off     {report.cut_off[0]:,} pairs that no selection can join")
        if report.cut_off[1]:
            print(f"  cut off     {report.cut_off[1]:,} pairs that another selection would join")
    for one in plan.baselines:
        print(f"  {one.name:<11} {f'{round(one.value):,}'} links, {one.note}")
    for line in certificate.proof:
        print(f"  proof       {line}")
    if report is not None:
        spread = ", ".join(f"{links}: {pairs:,}" for links, pairs in report.capacities[:12])
        print(f"Pairs by links of capacity: {spread}{' ...' if len(report.capacities) > 12 else ''}")
    if sum(zone.interfaces for zone in plan.problem.fabric.zones) <= MOST or verbose:
        _print_pairs(plan)
        _print_withdrawals(plan, everything=verbose)


def _print_pairs(plan: BalancePlan) -> None:
    """Print before and after of every destination whose capacities changed."""
    from fabric_plan.planner.simulator.balance import propagated

    fabric = plan.problem.fabric
    for copy, profiles in enumerate(plan.copies):
        rows: dict[tuple[int, str, str], list[str]] = {}
        for pair in propagated(plan.problem, profiles, copy):
            built = fabric.built[0][pair.zone].sum(axis=1).tolist()
            now = pair.capacity.tolist()
            if now != built:
                key = pair.zone, ",".join(map(str, built)), ",".join(map(str, now))
                rows.setdefault(key, []).append(fabric.interface_name(pair.home, pair.destination))
        suffix = f" (copy {copy})" if fabric.copies > 1 else ""
        for (zone, built_, now_), names in sorted(rows.items()):
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            print(f"  zone {fabric.zones[zone].name} to {', '.join(names[:6])}{more}: {built_} -> {now_}{suffix}")


def _print_withdrawals(plan: BalancePlan, *, everything: bool) -> None:
    """Print which device withdraws which links towards which destinations."""
    fabric = plan.problem.fabric
    lines = []
    for copy, profiles in enumerate(plan.copies):
        for profile in profiles:
            zone = fabric.zones[profile.zone]
            names = [fabric.interface_name(*place) for place in profile.destinations]
            told = f"{', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}"
            for kind, rows in (("upper", profile.upper.rows.tolist()), ("lower", profile.lower.rows.tolist())):
                by: dict[int, list[str]] = {}
                for a, b, mask in rows:
                    device, neighbour = (b, zone.fabric_names[a]) if kind == "upper" else (b, zone.interface_names[a])
                    for number in range(mask.bit_length()):
                        if mask >> number & 1:
                            by.setdefault(device, []).append(neighbour + (f"#{number}" if number else ""))
                for device, links in sorted(by.items()):
                    name = fabric.spine_list[device] if kind == "upper" else f"{zone.name}/{zone.fabric_names[device]}"
                    at = f" [copy {copy}]" if fabric.copies > 1 else ""
                    lines.append(f"  {name} stops advertising {told} to {zone.name}/{', '.join(links)}{at}")
    for line in lines if everything else lines[:40]:
        print(line)
    if len(lines) > 40 and not everything:
        print(f"  ... {len(lines) - 40} more (-v lists them)")


def print_distribution(plan: BalancePlan) -> None:
    """Print the exact distribution of the randomised protocol, where it can be enumerated."""
    from fabric_plan.models.balance.protocol import distribution, sorted_distribution

    fabric = plan.problem.fabric
    if sum(zone.interfaces for zone in fabric.zones) > MOST or fabric.copies > 1:
        return
    seen: dict[str, list[str]] = {}
    for zone in range(len(fabric.zones)):
        for home, there in enumerate(fabric.zones):
            for number in range(there.interfaces) if home != zone else ():
                found = distribution(plan.problem, 0, zone, (home, number))
                if found is None:
                    continue
                chances = sorted_distribution(found)
                if len(chances) == 1 and not plan.problem.failed:
                    continue
                text = ", ".join(f"{','.join(map(str, vector))} with {chance}" for vector, chance in chances.items())
                seen.setdefault(f"zone {fabric.zones[zone].name}: {text}", []).append(
                    fabric.interface_name(home, number)
                )
    if seen:
        print("Randomised protocol, exactly (sorted capacities of the senders, worst first):")
    for text, names in seen.items():
        zone_text, _, rest = text.partition(": ")
        print(
            f"  {zone_text} to {', '.join(names[:6])}{f' and {len(names) - 6} more' if len(names) > 6 else ''}: {rest}"
        )


def print_schemes(reports: Sequence[tuple[str, Sequence[SchemeReport]]]) -> None:
    """Print the comparison of schemes: a block for each situation."""
    from fabric_plan.cli.console import table
    from fabric_plan.planner.units import format_size, format_time

    for title, rows in reports:
        print(f"{title}:")
        lines = [["scheme", "done", "x ideal", "skew", "fabric queue", "VOQ", "reordered", "resent"]]
        for one in rows:
            fabric = max(run.queues.fabric for run in one.runs)
            voq = max(run.queues.voq for run in one.runs)
            lines.append(
                [
                    one.scheme,
                    format_time(one.completion_s),
                    f"{one.ratio:.2f}",
                    f"{one.skew:.2f}",
                    format_size(fabric),
                    format_size(voq) if voq else "-",
                    f"{one.reordered:,.0f}",
                    f"{one.resent:,.0f}",
                ]
            )
        table(lines)
