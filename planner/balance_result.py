"""The ``--json`` documents of balance plans."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from fabric_plan.planner.balance import BalancePlan, BalanceReport
from fabric_plan.planner.result import document_of, number


def simulation_document(report: BalanceReport) -> dict[str, Any]:
    """Return what propagation found."""
    return {
        "total": report.total,
        "built": report.built,
        "worst": report.worst,
        "capacities": {str(links): pairs for links, pairs in report.capacities},
        "cut_off": report.cut_off[1],
        "unreachable": report.cut_off[0],
        "within_zones": {"total": report.local[0], "worst": report.local[1]},
        "withdrawn": report.withdrawn,
        "max_link_load": number(report.load),
        "hottest": report.hottest or None,
    }


def result_document(plan: BalancePlan) -> dict[str, Any]:
    """Return what ``fabric-plan balance --json`` prints: the keys of every family's result."""
    simulation = None if plan.report is None else simulation_document(plan.report)
    return document_of(plan, simulation, plan.certificate.proof)


def share(part: int, whole: int) -> str:
    """Return a share in percent, for a reader."""
    return f"{float(Fraction(100 * part, whole)):.2f} %" if whole else "-"
