"""Words and numbers that every drawing of a placement uses: which phase, how a load reads, what colours workers."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.simulator.report import PhaseReport, PlacementReport
from fabric_plan.planner.units import format_time

_NAME_LIMIT = 60


def report_of(plan: PlacementPlan) -> PlacementReport:
    """Return a plan's report.

    Raises
    ------
    InvalidInput
        When the plan has none, so that no load is known.
    """
    if plan.report is None:
        raise InvalidInput("the plan carries no report, so its loads are unknown: pass it through fabric_plan.validate")
    return plan.report


def phase_of(plan: PlacementPlan, name: str = "all") -> PhaseReport:
    """Return the phase of that name from a plan's report, or all phases together for ``all``.

    Raises
    ------
    InvalidInput
        For a name that the plan does not have, or a plan without a report.
    """
    report = report_of(plan)
    if name.lower() == "all":
        return report.together
    for phase in report.phases:
        if phase.name == name.lower():
            return phase
    known = ["all", *(phase.name for phase in report.phases)]
    raise InvalidInput(
        f"phase {printable(name)!r}{suggest(name, known)}: the plan has no such phase: expected {', '.join(known)}"
    )


def loads_of(phase: PhaseReport) -> dict[int, Fraction]:
    """Return the load of each link that carries something."""
    return dict(zip(phase.links, phase.loads, strict=True))


def load_text(load: Fraction, unit: str) -> str:
    """Return a load as briefly as a drawing needs it: 2, 1/18, 0.347, 1.5ms."""
    if unit == "s":
        return format_time(load)
    return str(load) if load.denominator <= 99 and load.numerator <= 999 else f"{float(load):.3g}"


def unit_text(unit: str, load: Fraction | None = None) -> str:
    """Return the unit that follows :func:`load_text`, with its space: nothing for seconds, which carry theirs."""
    if unit == "s":
        return ""
    return " flow" if unit == "flows" and load == 1 else f" {unit}"


def printable(text: str, limit: int = _NAME_LIMIT) -> str:
    """Return a name from a file so that it can be shown: no control characters, and no longer than ``limit``."""
    shown = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def link_name(fabric: Fabric, link: int) -> str:
    """Return a link's name so that it can be shown."""
    return printable(fabric.link_name(link), 2 * _NAME_LIMIT)


def hottest(plan: PlacementPlan, phase: str = "all", *, most: int = 3) -> str:
    """Return in a phrase the largest load and the links that have it."""
    found = phase_of(plan, phase)
    if not found.max_load:
        return "no link carries anything"
    unit = report_of(plan).unit
    names = [link_name(plan.problem.fabric, link) for link in found.hottest]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    load = f"{load_text(found.max_load, unit)}{unit_text(unit, found.max_load)}"
    return f"largest load {load} on {', '.join(names[:most])}{more}"


def colour_dimension(strategy: Strategy) -> str | None:
    """Return the dimension whose digit colours a worker: pp, else the slowest of several that are split, else None."""
    split = [name for name in strategy.dimensions if strategy.size(name) > 1]
    return split[-1] if len(split) > 1 or split == ["pp"] else None


def seated(plan: PlacementPlan) -> Mapping[int, int]:
    """Return the worker on each seat that is taken."""
    return {seat: worker for worker, seat in enumerate(plan.seats)}
