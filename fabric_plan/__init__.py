"""fabric-plan: a planning toolkit for the networks inside AI machines, with proofs and an independent simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "Budget": "planner.interface",
    "Progress": "planner.interface",
    "plan": "planner.interface",
    "planners": "planner.interface",
    "validate": "planner.interface",
    "Fabric": "planner.fabric",
    "Strategy": "planner.parallelism",
    "Demand": "planner.problem",
    "PlacementProblem": "planner.problem",
    "ScheduleProblem": "planner.problem",
    "PlacementPlan": "planner.plan",
    "SchedulePlan": "planner.schedule",
    "Certificate": "planner.plan",
    "Status": "planner.plan",
    "load_fabric": "planner.files",
    "read_plan": "planner.files",
    "write_plan": "planner.files",
    "FabricPlanError": "planner.errors",
    "Infeasible": "planner.errors",
    "InvalidInput": "planner.errors",
    "InvalidPlan": "planner.errors",
    "InvalidProblem": "planner.errors",
    "LimitReached": "planner.errors",
    "PlanRejected": "planner.errors",
}
__all__ = ["__version__", *_HOMES]

if TYPE_CHECKING:
    from fabric_plan.planner.errors import (
        FabricPlanError,
        Infeasible,
        InvalidInput,
        InvalidPlan,
        InvalidProblem,
        LimitReached,
        PlanRejected,
    )
    from fabric_plan.planner.fabric import Fabric
    from fabric_plan.planner.files import load_fabric, read_plan, write_plan
    from fabric_plan.planner.interface import Budget, Progress, plan, planners, validate
    from fabric_plan.planner.parallelism import Strategy
    from fabric_plan.planner.plan import Certificate, PlacementPlan, Status
    from fabric_plan.planner.problem import Demand, PlacementProblem, ScheduleProblem
    from fabric_plan.planner.schedule import SchedulePlan


def __getattr__(name: str) -> Any:
    """Load a public name where it is first used, so that importing the package costs nothing."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module 'fabric_plan' has no attribute {name!r}")
    module = importlib.import_module(f"fabric_plan.{_HOMES[name]}")
    found = getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
