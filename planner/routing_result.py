"""The ``--json`` documents of routings."""

from __future__ import annotations

from typing import Any

from fabric_plan.planner.files import encode
from fabric_plan.planner.plan import RoutingPlan
from fabric_plan.planner.result import RESULT_SCHEMA, number
from fabric_plan.planner.simulator.report import RoutingReport


def simulation_document(report: RoutingReport) -> dict[str, Any]:
    """Return what the walk found."""
    return {"micro_switches": report.micro_switches, "states": list(report.states), "configuration_bits": report.bits}


def result_document(plan: RoutingPlan) -> dict[str, Any]:
    """Return what ``fabric-plan route --json`` prints: the keys of every family's result."""
    certificate = plan.certificate
    first = certificate.keys[0]
    return {
        "schema": RESULT_SCHEMA,
        "family": plan.family,
        "status": certificate.status.value,
        "objective": {"name": first.name, "value": number(first.value), "unit": first.unit},
        "bound": number(first.bound),
        "gap": number(certificate.gap),
        "further": [],
        "seconds": plan.seconds,
        "planner": plan.planner,
        "seed": plan.seed,
        "baselines": {one.name: number(one.value) for one in plan.baselines},
        "simulation": None if plan.report is None else simulation_document(plan.report),
        "explanation": list(certificate.proof),
        "plan": encode(plan),
    }
