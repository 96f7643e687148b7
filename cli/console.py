"""What commands print: tables and text on stdout, progress on stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fabric_plan.planner.plan import relative_gap
from fabric_plan.planner.result import gap_text, number, show_value

if TYPE_CHECKING:
    from fabric_plan.planner.interface import Budget, Progress
    from fabric_plan.planner.plan import PlacementPlan
    from fabric_plan.planner.problem import Problem
    from fabric_plan.planner.simulator.report import PlacementReport


def emit(document: dict[str, Any]) -> None:
    """Print a JSON document on stdout."""
    print(json.dumps(document, indent=1, ensure_ascii=False))


def table(rows: Sequence[Sequence[str]], *, indent: str = "  ") -> None:
    """Print rows as aligned columns; the first column is flush left, the others right."""
    if not rows:
        return
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print((indent + "  ".join(cells)).rstrip())


class Meter:
    """Progress on stderr: one line that is rewritten, on a terminal; JSON lines with ``--json``; nothing otherwise."""

    def __init__(self, *, as_json: bool, quiet: bool) -> None:
        self._json = as_json and not quiet
        self._live = not as_json and not quiet and sys.stderr.isatty()
        self._shown = 0.0
        self._last: tuple[Any, Any] | None = None
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Show where a planner stands, at most a few times a second unless objective or bound moved."""
        state = (progress.objective, progress.bound)
        if state == self._last and time.monotonic() - self._shown < 0.5:
            return
        self._last, self._shown = state, time.monotonic()
        if self._json:
            line = {
                "progress": progress.note,
                "seconds": round(progress.seconds, 3),
                "objective": number(progress.objective),
                "bound": number(progress.bound),
            }
            print(json.dumps(line), file=sys.stderr, flush=True)
        elif self._live:
            self._rewrite(self._text(progress))

    def _text(self, progress: Progress) -> str:
        value, bound = show_value(progress.objective, progress.unit), show_value(progress.bound, progress.unit)
        gap = ""
        if progress.objective is not None and progress.bound is not None:
            gap = f"  gap {float(relative_gap(progress.objective, progress.bound, progress.unit)) * 100:.3g} %"
        return f"{progress.seconds:6.1f}s  best {value}  bound {bound}{gap}  {progress.note}  (Ctrl-C keeps the best)"

    def _rewrite(self, text: str) -> None:
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        """Take the line away again."""
        if self._live and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


def solve(problem: Problem, planner: str, budget: Budget, *, as_json: bool, quiet: bool) -> Any:
    """Plan with progress on stderr; return the problem's kind of plan."""
    from fabric_plan.planner import interface

    meter = Meter(as_json=as_json, quiet=quiet)
    try:
        plan = interface.plan(problem, planner=planner, budget=budget, on_progress=meter)
    finally:
        meter.close()
    if budget.deterministic and budget.elapsed >= budget.seconds:
        print(
            "fabric-plan: warning: the wall limit ended this run, so it may not repeat: raise --time-limit",
            file=sys.stderr,
        )
    return plan


def describe(plan: PlacementPlan) -> str:
    """Return the problem of a plan in one line."""
    problem = plan.problem
    parts = [
        f"{problem.strategy} ({problem.strategy.workers} workers) on {problem.fabric.name} ({len(problem.fabric.seats)} NPUs)"
    ]
    parts.append("all groups at once" if problem.concurrent else "one phase after another")
    for demand in problem.demands:
        if demand.dimension == "pp":
            way = "" if demand.direction == "forward" else " both ways"
            parts.append(f"PP {demand.algorithm}{way}")
    if any(demand.algorithm == "ring" for demand in problem.demands):
        free = any(demand.order == "free" for demand in problem.demands)
        parts.append("free rings" if free else "fixed rings")
    return ", ".join(parts)


def print_certificate(plan: PlacementPlan, *, verbose: bool) -> None:
    """Print status, objective, bound, gap, baselines, and the proof if wanted."""
    certificate = plan.certificate
    first = certificate.keys[0]
    proved = {"optimal": "optimal, proved", "feasible": "feasible; the bound leaves a gap"}
    rows = [("status", proved.get(certificate.status.value, certificate.status.value))]
    what = "largest link load" if plan.problem.concurrent else "sum of the phases' largest link loads"
    unit = "" if first.unit == "s" else f" {first.unit}"
    rows.append(
        (
            "objective",
            f"{show_value(first.value, first.unit)}{unit}  ({what if first.name == 'congestion' else 'communication time'})",
        )
    )
    rows.append(("bound", f"{show_value(first.bound, first.unit)}{unit}, gap {gap_text(certificate)}"))
    for key in certificate.keys[1:]:
        bound = f", bound {show_value(key.bound, key.unit)}" if key.bound is not None else ""
        rows.append((key.name, f"{show_value(key.value, key.unit)}{bound}"))
    if plan.baselines:
        rows.append(
            ("baselines", "; ".join(f"{one.name} {show_value(one.value, first.unit)}" for one in plan.baselines))
        )
    if plan.seconds is not None:
        rows.append(("found in", f"{plan.seconds:.1f} s by {plan.planner}"))
    for name, text in rows:
        print(f"  {name:<11} {text}")
    if verbose:
        for line in certificate.proof:
            print(f"  proof       {line}")
        for one in plan.baselines:
            print(f"  {one.name:<11} {one.note}")
    if plan.problem.fabric.note:
        print(f"  note        {plan.problem.fabric.note}")


def print_report(plan: PlacementPlan, report: PlacementReport, *, verbose: bool) -> None:
    """Print loads and times of the phases, and of all together, as the simulator found them."""
    from fabric_plan.planner.units import format_size, format_time

    fabric = plan.problem.fabric
    sized = report.nominal_size is None
    basis = "the problem's volumes" if sized else f"{format_size(report.nominal_size or 0)} a collective"
    print(f"Simulated ({report.discipline}; times for {basis}):")
    phases = [*report.phases, report.together] if len(report.phases) != 1 else list(report.phases)
    rows = [("phase", "largest load", "time", "on")]
    for phase in phases:
        hot = [fabric.link_name(link) for link in phase.hottest[:3]]
        more = f" and {len(phase.hottest) - 3} more" if len(phase.hottest) > 3 else ""
        seconds = format_time(phase.seconds) if phase.seconds is not None else "too large to simulate"
        name = "all together" if phase.name == "all" else phase.name
        rows.append((name, show_value(phase.max_load, report.unit), seconds, " ".join(hot) + more))
    table(rows)
    if verbose:
        loads = sorted(
            zip(report.together.loads, report.together.links, strict=True), key=lambda pair: (-pair[0], pair[1])
        )
        table([("link", "load"), *((fabric.link_name(link), show_value(load, report.unit)) for load, link in loads)])
