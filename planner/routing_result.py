"""The ``--json`` documents of routings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fabric_plan.planner.plan import RoutingPlan
from fabric_plan.planner.result import document_of
from fabric_plan.planner.simulator.report import RoutingReport
from fabric_plan.planner.simulator.routing import configuration_bits


def simulation_document(report: RoutingReport) -> dict[str, Any]:
    """Return what the walk found."""
    return {"micro_switches": report.micro_switches, "states": list(report.states), "configuration_bits": report.bits}


def result_document(plan: RoutingPlan) -> dict[str, Any]:
    """Return what ``fabric-plan route --json`` prints: the keys of every family's result."""
    return document_of(plan, None if plan.report is None else simulation_document(plan.report), plan.certificate.proof)


PAPER_BYTES = 1536
"""SRAM of a switch for the configurations of its communication phases (FRED paper, section 6.2.3)."""


def memory_document(plans: Sequence[RoutingPlan]) -> dict[str, Any]:
    """Return how much memory a switch needs to keep the configurations of several routings, round by round.

    All slices of a switch of the two-level fabric carry the same, so one chiplet's configuration counts: the largest.
    """
    problem = plans[0].problem
    if problem.fabric:
        bits = max(configuration_bits(plans[0].middles, one.ports) for one in plans[0].chiplets[0])
    else:
        bits = configuration_bits(plans[0].middles, problem.ports)
    count = sum(max(plan.rounds, default=0) + 1 for plan in plans)
    return {"configurations": count, "bits": bits, "bytes": -(-bits * count // 8), "paper_bytes": PAPER_BYTES}
