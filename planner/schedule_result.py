"""What a schedule's simulation means to its reader: bandwidths, loads, costs by name, and the documents of ``--json``."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fabric_plan.planner.collective import bus_factor
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.result import document_of, number
from fabric_plan.planner.simulator.report import ScheduleReport

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan

MEANING = {
    "release": "waiting for ranks that come late",
    "queueing": "waiting for links that others use",
    "serialisation": "bytes over bandwidth",
    "protocol": "what in-switch traffic costs more",
    "latency": "on the wire and through switches",
    "reduction": "adding up at receivers (gamma)",
    "fixed": "fixed cost of a collective",
}


def algbw(size: Fraction, seconds: Fraction) -> Fraction:
    """Return the algorithm bandwidth in bytes/s: size over time."""
    return size / seconds if seconds else Fraction(0)


def busbw(pattern: str, ranks: int, size: Fraction, seconds: Fraction) -> Fraction:
    """Return the bus bandwidth in bytes/s, as nccl-tests counts it: comparable with a rank's link bandwidth."""
    return algbw(size, seconds) * bus_factor(pattern, ranks)


def busiest(report: ScheduleReport) -> list[tuple[int, Fraction, Fraction]]:
    """Return (link, busy seconds, bytes) of the links that send for longest, longest first."""
    rows = zip(report.links, report.busy, report.carried, strict=True)
    return sorted(rows, key=lambda row: (-row[1], row[0]))


def simulation_document(plan: SchedulePlan, report: ScheduleReport, fabric: Fabric | None = None) -> dict[str, Any]:
    """Return the simulator's findings: time, bandwidths, critical path, and every link that carries something."""
    job = plan.problem.jobs[0]
    fabric = fabric or plan.problem.fabric
    seconds = report.seconds
    rates: dict[str, Any] = {"algbw": None, "busbw": None}
    if seconds and len(plan.problem.jobs) == 1:
        rates = {
            "algbw": number(algbw(job.size, seconds)),
            "busbw": number(busbw(job.pattern, len(job.group), job.size, seconds)),
        }
    return {
        "seconds": number(seconds),
        **rates,
        "max_link_load": number(max(report.busy, default=Fraction(0))),
        "rounding": report.rounding,
        "discipline": report.discipline,
        "data": report.data,
        "transfers": report.transfers,
        "critical_path": {term.name: number(term.seconds) for term in report.terms},
        "links": [
            {
                "link": link,
                "name": fabric.link_name(link),
                "busy": number(busy),
                "bytes": number(carried),
                "utilisation": number(busy / seconds) if seconds else None,
            }
            for link, busy, carried in zip(report.links, report.busy, report.carried, strict=True)
        ],
        **({"jobs": _jobs(plan, report)} if report.jobs else {}),
    }


def _jobs(plan: SchedulePlan, report: ScheduleReport) -> list[dict[str, Any]]:
    return [
        {
            "name": job.label,
            "pattern": job.pattern,
            "ranks": len(job.group),
            "size": number(job.size),
            "release": number(job.release),
            "priority": job.priority,
            "finish": number(end),
        }
        for job, end in zip(plan.problem.jobs, report.jobs, strict=True)
    ]


def result_document(plan: SchedulePlan) -> dict[str, Any]:
    """Return what ``fabric-plan schedule --json`` prints: the keys of every family's result."""
    return document_of(
        plan, None if plan.report is None else simulation_document(plan, plan.report), plan.certificate.proof
    )
