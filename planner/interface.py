"""The planner interface: planners by name, a budget, progress, and plans that the simulator has accepted.

Planners register in the entry-point group ``fabric_plan.planners`` under ``family.name``; other distributions can add
theirs in the same way.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast, overload

import msgspec

from fabric_plan.planner.errors import InvalidInput, PlanRejected, suggest
from fabric_plan.planner.plan import PlacementPlan, Plan, RoutingPlan
from fabric_plan.planner.problem import PlacementProblem, Problem, RoutingProblem, ScheduleProblem

if TYPE_CHECKING:
    from fabric_plan.planner.balance import BalancePlan, BalanceProblem
    from fabric_plan.planner.schedule import SchedulePlan

GROUP = "fabric_plan.planners"

PlanT = TypeVar("PlanT", bound=Plan)


@dataclass(frozen=True)
class Budget:
    """What a planner may spend.

    Parameters
    ----------
    seconds
        Wall seconds; a safety net only when ``deterministic``.
    workers
        Threads of the exact solver.
    seed
        Of every random choice.
    deterministic
        The same seed gives the same plan every time: one thread, and limits that count work rather than time.
    stop
        Set it, from any thread, and the planner returns the best plan it has.
    """

    seconds: float = 60.0
    workers: int = field(default_factory=lambda: min(8, os.cpu_count() or 1))
    seed: int = 0
    deterministic: bool = False
    stop: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    started: float = field(default_factory=time.monotonic, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise InvalidInput(f"time limit {self.seconds}: it must be greater than zero")
        if self.workers < 1:
            raise InvalidInput(f"workers {self.workers}: there must be at least one")
        if not 0 <= self.seed < 2**31:
            raise InvalidInput(f"seed {self.seed}: it must lie between 0 and {2**31 - 1}")

    @property
    def elapsed(self) -> float:
        """Seconds since the budget was made."""
        return time.monotonic() - self.started

    @property
    def left(self) -> float:
        """Seconds that are left; zero once :attr:`stop` is set."""
        return 0.0 if self.stop.is_set() else max(0.0, self.seconds - self.elapsed)


@dataclass(frozen=True)
class Progress:
    """Where a planner stands: seconds since the start, best objective and proven bound so far (None: not yet)."""

    seconds: float
    objective: Fraction | None
    bound: Fraction | None
    unit: str
    note: str = ""


OnProgress = Callable[[Progress], None]


class Planner(Protocol):
    """One method of solving one family's problems."""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> Plan:
        """Return the best plan that the budget finds.

        Raises
        ------
        Infeasible
            When there is none, with a set of constraints that contradict one another.
        LimitReached
            When the budget ended without any.
        """
        ...


def planners(family: str) -> dict[str, Callable[[], Planner]]:
    """Return the loaders of the planners of a family, by name."""
    prefix = f"{family}."
    found = {
        point.name.removeprefix(prefix): point for point in entry_points(group=GROUP) if point.name.startswith(prefix)
    }
    return {name: (lambda point=point: cast(Planner, point.load()())) for name, point in sorted(found.items())}  # type: ignore[misc]


@overload
def plan(
    problem: PlacementProblem,
    *,
    planner: str = "auto",
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> PlacementPlan: ...


@overload
def plan(
    problem: ScheduleProblem,
    *,
    planner: str = "auto",
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> SchedulePlan: ...


@overload
def plan(
    problem: RoutingProblem,
    *,
    planner: str = "auto",
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> RoutingPlan: ...


@overload
def plan(
    problem: BalanceProblem,
    *,
    planner: str = "auto",
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> BalancePlan: ...


@overload
def plan(
    problem: Problem,
    *,
    planner: str = "auto",
    budget: Budget | None = None,
    on_progress: OnProgress | None = None,
) -> Plan: ...


def plan(
    problem: Problem, *, planner: str = "auto", budget: Budget | None = None, on_progress: OnProgress | None = None
) -> Plan:
    """Solve a problem and return a plan that the simulator has accepted.

    Parameters
    ----------
    planner
        ``auto``, ``exact`` or a baseline's name; see :func:`planners`.
    on_progress
        Called with :class:`Progress` whenever objective or bound improves.

    Raises
    ------
    InvalidInput
        For an unknown planner.
    Infeasible, LimitReached
        As :meth:`Planner.solve`.
    PlanRejected
        When the simulator refuses what the planner made: a defect of this package.
    """
    known = planners(problem.family)
    if planner not in known:
        names = ", ".join(known) or "none is installed"
        raise InvalidInput(
            f"unknown planner {planner!r} for {problem.family}{suggest(planner, list(known))}: expected {names}"
        )
    budget = budget or Budget()
    with interruptible(budget.stop):
        found = known[planner]().solve(problem, budget, on_progress or (lambda progress: None))
        checked, faults = validate(found)
    if faults:
        raise PlanRejected(f"the simulator refuses the plan of {problem.family}.{planner}: {faults[0]}", tuple(faults))
    return checked


def validate(plan: PlanT) -> tuple[PlanT, list[str]]:
    """Simulate a plan and return (the plan with the simulator's report, violations): no violation means valid."""
    report: Any
    if plan.family == "placement":
        from fabric_plan.planner.simulator import placement

        report, faults = placement.check(cast(PlacementPlan, plan))
    elif plan.family == "schedule":
        from fabric_plan.planner.simulator import schedule

        report, faults = schedule.check(cast("SchedulePlan", plan))
    elif plan.family == "routing":
        from fabric_plan.planner.simulator import routing

        report, faults = routing.check(cast(RoutingPlan, plan))
    elif plan.family == "balance":
        from fabric_plan.planner.simulator import balance

        report, faults = balance.check(cast("BalancePlan", plan))
    else:
        raise InvalidInput(f"plans of the family {plan.family} have no checker in this version")
    if report is not None:
        plan = msgspec.structs.replace(plan, report=report)  # type: ignore[type-var]  # every plan is a structure
    return plan, faults


@contextlib.contextmanager
def interruptible(stop: threading.Event) -> Iterator[None]:
    """Let the first Ctrl-C set ``stop`` instead of raising; a second one interrupts as usual.

    Outside the main thread, where signals cannot be caught, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
