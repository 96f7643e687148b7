"""Schedules written in the forms of other tools."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan


def schedule_in(plan: Any, plan_file: str, form: str) -> SchedulePlan:
    """Return a plan that is a schedule.

    Raises
    ------
    InvalidPlan
        When it is of another family.
    """
    from fabric_plan.planner.errors import InvalidPlan
    from fabric_plan.planner.schedule import SchedulePlan

    if not isinstance(plan, SchedulePlan):
        raise InvalidPlan(f"{plan_file}: {form} is of schedules, not of plans of the family {plan.family}")
    return plan


def write_schedule(plan: SchedulePlan, form: str, output: str) -> None:
    """Write a schedule (``-``: to stdout); what its user should know goes to stderr.

    Raises
    ------
    InvalidInput
        When the form cannot say it.
    """
    from fabric_plan.planner import files

    if form == "chrome-trace":
        from fabric_plan.cli.schedule_console import describe
        from fabric_plan.planner.formats.chrome_trace import write_trace
        from fabric_plan.planner.simulator.schedule import simulate

        found = simulate(plan)
        data = write_trace(found.timeline, found.fabric, plan.transfers.name, describe(plan))
        files.write_atomically(output, data)
        return
    from fabric_plan.planner.export.msccl import write_msccl
    from fabric_plan.planner.export.mscclpp import write_mscclpp

    made = write_msccl(plan) if form == "msccl-xml" else write_mscclpp(plan)
    files.write_atomically(output, made.data)
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)
