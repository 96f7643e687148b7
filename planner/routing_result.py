"""The ``--json`` documents of routings."""

from __future__ import annotations

from typing import Any

from fabric_plan.planner.plan import RoutingPlan
from fabric_plan.planner.result import document_of
from fabric_plan.planner.simulator.report import RoutingReport


def simulation_document(report: RoutingReport) -> dict[str, Any]:
    """Return what the walk found."""
    return {"micro_switches": report.micro_switches, "states": list(report.states), "configuration_bits": report.bits}


def result_document(plan: RoutingPlan) -> dict[str, Any]:
    """Return what ``fabric-plan route --json`` prints: the keys of every family's result."""
    return document_of(plan, None if plan.report is None else simulation_document(plan.report), plan.certificate.proof)
