"""The documents that ``--json`` prints: results and validations, with the same keys every time."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from fabric_plan.planner.files import encode
from fabric_plan.planner.plan import Certificate, PlacementPlan, RoutingPlan
from fabric_plan.planner.simulator.report import PhaseReport, PlacementReport
from fabric_plan.planner.units import format_time

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan
    from fabric_plan.planner.schedule import SchedulePlan

RESULT_SCHEMA = "fabric-plan/result/1"
VALIDATION_SCHEMA = "fabric-plan/validation/1"


def number(value: Fraction | int | float | None) -> int | float | None:
    """Return a number as JSON readers expect it: whole where it is whole, else a float."""
    if value is None:
        return None
    exact = Fraction(value)
    return exact.numerator if exact.denominator == 1 else float(exact)


def show_value(value: Fraction | None, unit: str) -> str:
    """Return a load or a time for a reader."""
    if value is None:
        return "-"
    if unit == "s":
        return format_time(value)
    return str(value.numerator) if value.denominator == 1 else f"{float(value):.4g} ({value})"


def document_of(
    plan: PlacementPlan | RoutingPlan | BalancePlan | SchedulePlan,
    simulation: dict[str, Any] | None,
    explanation: Sequence[str],
) -> dict[str, Any]:
    """Return what ``--json`` prints for a plan of any family: the same keys every time."""
    certificate = plan.certificate
    first = certificate.keys[0]
    return {
        "schema": RESULT_SCHEMA,
        "family": plan.family,
        "status": certificate.status.value,
        "objective": {"name": first.name, "value": number(first.value), "unit": first.unit},
        "bound": number(first.bound),
        "gap": number(certificate.gap),
        "further": [
            {"name": key.name, "value": number(key.value), "unit": key.unit, "bound": number(key.bound)}
            for key in certificate.keys[1:]
        ],
        "seconds": plan.seconds,
        "planner": plan.planner,
        "seed": plan.seed,
        "baselines": {one.name: number(one.value) for one in plan.baselines},
        "simulation": simulation,
        "explanation": list(explanation),
        "plan": encode(plan),
    }


def result_document(plan: PlacementPlan) -> dict[str, Any]:
    """Return what ``fabric-plan place --json`` prints for a plan that has been simulated."""
    simulation = None if plan.report is None else simulation_document(plan, plan.report)
    return document_of(plan, simulation, [gain(plan), *plan.certificate.proof])


def simulation_document(plan: PlacementPlan, report: PlacementReport) -> dict[str, Any]:
    """Return the simulator's findings: times, and the load of every link that carries something."""

    def phase_document(phase: PhaseReport) -> dict[str, Any]:
        return {
            "name": phase.name,
            "seconds": number(phase.seconds),
            "max_link_load": number(phase.max_load),
            "hottest": [plan.problem.fabric.link_name(link) for link in phase.hottest],
        }

    together = report.together
    fabric = plan.problem.fabric
    return {
        "seconds": number(together.seconds),
        "max_link_load": number(together.max_load),
        "unit": report.unit,
        "hops": report.hops,
        "discipline": report.discipline,
        "nominal_bytes_per_collective": report.nominal_size,
        "phases": [phase_document(phase) for phase in report.phases],
        "links": [
            {
                "link": link,
                "source": fabric.links[link].source,
                "target": fabric.links[link].target,
                "name": fabric.link_name(link),
                "load": number(load),
            }
            for link, load in zip(together.links, together.loads, strict=True)
        ],
    }


def usual(plan: PlacementPlan) -> tuple[str, Fraction] | None:
    """Return the name and value of the placement that one would have without a planner: the best row-major order."""
    for name in ("row-major", "megatron", "mp-pp-dp"):
        for one in plan.baselines:
            if one.name == name:
                return (
                    f"the best row-major order ({one.note.rpartition(' ')[2]})" if name == "row-major" else name,
                    one.value,
                )
    return None


def gain(plan: PlacementPlan) -> str:
    """Return in one sentence what the plan changes for its user."""
    found, before = plan.certificate.keys[0], usual(plan)
    now = show_value(found.value, found.unit)
    what = {"congestion": "largest link load", "time": "communication time"}[found.name]
    if not plan.problem.concurrent:
        what = "sum of the phases' largest link loads" if found.name == "congestion" else what
    if before is None:
        return f"{what} {now}"
    name, value = before
    if value == found.value:
        proved = ", and no placement has less" if found.closed else ""
        return f"{what} {now}, as in {name}{proved}"
    ratio = value / found.value if found.value else Fraction(0)
    if found.name == "time":
        effect = f"communication is {float(ratio):.3g} times faster"
    elif plan.problem.concurrent:
        effect = f"each collective on the hot link runs {float(ratio):.3g} times faster"
    else:
        effect = f"the phases' slowest links together take {float(ratio):.3g} times less time"
    return f"{what} {now} instead of {show_value(value, found.unit)} in {name}: {effect}"


def validation_document(
    where: str, faults: Sequence[str], simulation: dict[str, Any] | None, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what ``fabric-plan validate --json`` prints; a fault reads "code: message"."""
    findings = [_finding("error", fault, where) for fault in faults] + [_finding("info", note, where) for note in notes]
    return {
        "schema": VALIDATION_SCHEMA,
        "verdict": "invalid" if faults else "valid",
        "hangs_above_bytes": None,
        "findings": findings,
        "simulation": simulation,
    }


def _finding(severity: str, text: str, where: str) -> dict[str, Any]:
    code, _, message = text.partition(": ")
    return {"severity": severity, "code": code, "message": message, "file": where, "line": None, "witness": None}


def gap_text(certificate: Certificate) -> str:
    """Return the gap in percent, for a reader."""
    return "unknown" if certificate.gap is None else f"{float(certificate.gap) * 100:.3g} %"
