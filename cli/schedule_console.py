"""What commands print about schedules."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from fabric_plan.cli.console import table
from fabric_plan.planner.result import gap_text, show_value
from fabric_plan.planner.schedule_result import MEANING, algbw, busbw, busiest
from fabric_plan.planner.units import format_bandwidth, format_size, format_time

if TYPE_CHECKING:
    from fabric_plan.planner.fabric import Fabric
    from fabric_plan.planner.schedule import SchedulePlan
    from fabric_plan.planner.simulator.report import ScheduleReport


def describe(plan: SchedulePlan) -> str:
    """Return a schedule in one line."""
    job, jobs = plan.problem.jobs[0], len(plan.problem.jobs)
    if jobs > 1:
        return (
            f"{jobs} collectives at once on {plan.problem.fabric.name}, {plan.algorithm}: "
            f"{len(plan.transfers):,} transfers of {len(plan.shards):,} chunks"
        )
    return (
        f"{job.pattern} of {format_size(job.size)} over {len(job.group)} ranks on {plan.problem.fabric.name}, "
        f"{plan.algorithm}: {len(plan.transfers):,} transfers of {len(plan.shards):,} chunks"
    )


def print_plan(plan: SchedulePlan, *, verbose: bool) -> None:
    """Print a schedule with its certificate and what its simulation found."""
    print(describe(plan))
    certificate = plan.certificate
    key = certificate.keys[0]
    proved = {"optimal": "optimal, proved", "feasible": "feasible; the bound leaves a gap"}
    rows = [
        ("status", proved.get(certificate.status.value, certificate.status.value)),
        ("time", show_value(key.value, "s")),
        ("bound", f"{show_value(key.bound, 's')}, gap {gap_text(certificate)}"),
    ]
    if plan.baselines:
        ordered = sorted(plan.baselines, key=lambda one: one.value)
        rows.append(
            (
                "algorithms" if len(plan.problem.jobs) == 1 else "baselines",
                "; ".join(f"{one.name} {show_value(one.value, 's')}" for one in ordered),
            )
        )
    for name, text in rows:
        print(f"  {name:<11} {text}")
    if verbose:
        for line in certificate.proof:
            print(f"  proof       {line}")
    if plan.report is not None:
        print_report(plan, plan.report, plan.problem.fabric, verbose=verbose)


def print_report(
    plan: SchedulePlan, report: ScheduleReport, fabric: Fabric, *, verbose: bool, bandwidths: bool = True
) -> None:
    """Print time, bandwidths (where the size means something), the critical path by kind of cost, and the busiest links."""
    job = plan.problem.jobs[0]
    bandwidths = bandwidths and len(plan.problem.jobs) == 1
    exact = "exact" if report.rounding == 0 else f"rounded by less than {report.rounding:.0e}"
    print(f"Simulated ({report.discipline}; times {exact}; data followed: {report.data}):")
    seconds = report.seconds
    if seconds is None:
        print("  it never finishes")
    else:
        bus = busbw(job.pattern, len(job.group), job.size, seconds)
        rates = f", algbw {format_bandwidth(algbw(job.size, seconds))}, busbw {format_bandwidth(bus)}"
        print(f"  {format_time(seconds)}{rates if bandwidths else ''}")
        rows = [("critical path", "time", "share", "")]
        for term in report.terms:
            share = float(term.seconds / seconds) if seconds else 0.0
            rows.append((term.name, format_time(term.seconds), f"{share * 100:.1f} %", MEANING.get(term.name, "")))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        for row in rows:
            print(f"  {row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip())
    if report.jobs:
        _print_jobs(plan, report, verbose=verbose)
    links = busiest(report)
    shown = links if verbose else links[:3]
    if shown:
        alike = sum(1 for link in links if link[1] == links[0][1])
        rows_ = [("link" if verbose else f"busiest ({alike} alike)", "busy", "of the time", "carries")]
        for link, busy, carried in shown:
            share_ = f"{float(busy / seconds) * 100:.1f} %" if seconds else "-"
            rows_.append((fabric.link_name(link), format_time(busy), share_, format_size(Fraction(carried))))
        table(rows_)


SHOWN = 12
"""Jobs that are shown without ``--verbose``: those that finish last."""


def _print_jobs(plan: SchedulePlan, report: ScheduleReport, *, verbose: bool) -> None:
    """Print when each job is done, in their order; of many, those that are done last."""
    rows = list(zip(plan.problem.jobs, report.jobs, strict=True))
    if not verbose and len(rows) > SHOWN:
        last = sorted(range(len(rows)), key=lambda k: (rows[k][1] is not None, -(rows[k][1] or 0), k))[:SHOWN]
        rows = [rows[k] for k in sorted(last)]
    left = len(plan.problem.jobs) - len(rows)
    told = [("job" + (f" ({left} more with -v)" if left else ""), "collective", "ranks", "size", "released", "done")]
    for job, end in rows:
        done = format_time(end) if end is not None else "never"
        told.append(
            (job.label, job.pattern, str(len(job.group)), format_size(job.size), format_time(job.release), done)
        )
    table(told)
