"""What validate prints of schedules that other tools made."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fabric_plan.planner.result import VALIDATION_SCHEMA

if TYPE_CHECKING:
    from fabric_plan.planner.fabric import Fabric
    from fabric_plan.planner.threads.findings import Verdict

SHOWN = 24
"""Findings that are printed without ``-v``."""


def add_bound(simulation: dict[str, Any], fabric: Fabric) -> None:
    """Add the lower bound of the collective on the fabric, where there is one, and how far the time is from it."""
    from fabric_plan.models.schedule.bounds import time_bound
    from fabric_plan.models.schedule.group import Group
    from fabric_plan.planner.problem import ScheduleProblem
    from fabric_plan.planner.threads.timing import PATTERNS

    pattern = PATTERNS.get(simulation["pattern"])
    if pattern is None:
        return
    # The first of a group is its root, and the bound of a rooted collective is that root's.
    root = simulation["root"]
    group = [root, *(rank for rank in range(simulation["ranks"]) if rank != root)]
    problem = ScheduleProblem.of(fabric, pattern, Fraction(simulation["size"]), group=group)
    bound, why = time_bound(Group(problem.fabric, problem.jobs[0]))
    simulation["bound"] = float(bound)
    simulation["bound_proof"] = why
    simulation["ratio"] = simulation["seconds"] / float(bound) if bound else None


def document(path: str, verdict: Verdict) -> dict[str, Any]:
    """Return the ``--json`` document."""
    return {
        "schema": VALIDATION_SCHEMA,
        "verdict": verdict.verdict,
        "hangs_above_bytes": verdict.hangs_above,
        "format": verdict.kind,
        "summary": verdict.summary,
        "findings": [
            {
                "severity": one.severity,
                "code": one.code,
                "message": one.message,
                "file": path,
                "line": one.line,
                "witness": list(one.witness) or None,
                "profiles": list(one.profiles) or None,
            }
            for one in verdict.findings
        ],
        "simulation": verdict.simulation,
    }


def print_verdict(path: str, verdict: Verdict, *, verbose: bool) -> None:
    """Print findings, the worst first, then the verdict and the time."""
    from fabric_plan.planner.units import format_size, format_time

    order = {"error": 0, "warning": 1, "profile": 2, "info": 3}
    rows = sorted(verdict.findings, key=lambda one: order[one.severity])
    if not verbose:
        rows = [one for one in rows if one.severity != "info"]
    for one in rows if verbose else rows[:SHOWN]:
        where = f"{path}:{one.line}" if one.line is not None else path
        print(f"{where}: {one.severity}: {one.message} [{one.code}]")
        if one.severity == "error" or verbose:
            for step in one.witness[: 40 if verbose else 8]:
                print(f"    {step}")
    if len(rows) > SHOWN and not verbose:
        print(f"... {len(rows) - SHOWN} more findings (-v lists them)")
    told = verdict.verdict if verdict.hangs_above is None else f"hangs above {verdict.hangs_above:,} bytes"
    print(f"{path}: {told}: {verdict.summary}")
    found = verdict.simulation
    if found is not None and "seconds" in found:
        text = f"{path}: {format_size(found['size'])} on {found['fabric']} in {format_time(found['seconds'])}"
        if found.get("ratio") is not None:
            text += f", {found['ratio']:.3g} times the lower bound of {format_time(found['bound'])}"
        print(text)
