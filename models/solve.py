"""Running CP-SAT: the only place that knows its parameters, callbacks and statuses.

The solver runs in a thread of its own while the main thread watches the budget, so that Ctrl-C and limits end it in
good order and keep what it found.
"""

from __future__ import annotations

import functools
import math
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ortools.sat.python import cp_model

from fabric_plan.planner.interface import Budget

DETERMINISTIC_PER_SECOND = 0.4
"""Deterministic time that a budget's second stands for. A second of work on one core is worth 0.45 to 2.4 of it on the
placement models, so that a step takes no longer than it was given."""

_POLL = 0.05


class Answer(StrEnum):
    """What a run of the solver ended with."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome:
    """The end of a run: values and bounds exist only as the answer allows.

    ``seconds`` are wall seconds, ``work`` the deterministic time in budget seconds. ``values`` are those of the variables asked for; ``bound`` is proven, None when the model has no objective or nothing
    was proved.
    """

    answer: Answer
    values: tuple[int, ...] | None
    objective: int | None
    bound: int | None
    seconds: float
    work: float


class _Watcher(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """Queues solutions for the main thread: a callback runs on a solver's thread and must be brief."""

    def __init__(self, wanted: Sequence[cp_model.IntVar], events: queue.SimpleQueue[Callable[[], None]]) -> None:
        super().__init__()
        self._wanted = wanted
        self._events = events
        self.on_solution: Callable[[tuple[int, ...]], None] | None = None

    def on_solution_callback(self) -> None:
        """Called by the solver, on one of its threads."""
        if self.on_solution is not None:
            values = tuple(int(self.value(variable)) for variable in self._wanted)
            self._events.put(functools.partial(self.on_solution, values))


def run(
    model: cp_model.CpModel,
    budget: Budget,
    *,
    wanted: Sequence[cp_model.IntVar] = (),
    seconds: float | None = None,
    hint: Sequence[tuple[cp_model.IntVar, int]] = (),
    on_solution: Callable[[tuple[int, ...]], None] | None = None,
    on_bound: Callable[[int], None] | None = None,
    parameters: str = "",
) -> Outcome:
    """Solve a model within what is left of the budget, and within ``seconds`` if given.

    Parameters
    ----------
    wanted
        Variables whose values the outcome and ``on_solution`` give.
    hint
        Pairs (variable, value); a complete and feasible hint is a first solution.
    parameters
        CP-SAT parameters in text form, added to the usual ones.
    """
    limit = budget.left if seconds is None else min(seconds, budget.left)
    if limit <= 0:
        return Outcome(Answer.UNKNOWN, None, None, None, 0.0, 0.0)
    solver = cp_model.CpSolver()
    p = solver.parameters
    p.num_workers = 1 if budget.deterministic else budget.workers
    p.random_seed = budget.seed
    p.max_time_in_seconds = budget.left if budget.deterministic else limit
    p.catch_sigint_signal = False
    # 9.15 can extract a wrong enforcement literal where an at-most-one is included in a linear constraint (OR-tools issue
    # 5293), and then proves optima that are none: tests/models/test_exact.py has a case. Without that step it does not.
    p.presolve_inclusion_work_limit = 0
    if budget.deterministic:
        p.max_deterministic_time = (budget.seconds if seconds is None else seconds) * DETERMINISTIC_PER_SECOND
    if parameters:
        p.parse_text_format(parameters)
    if hint:
        model.clear_hints()
        for variable, value in hint:
            model.add_hint(variable, value)
    events: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    watcher = _Watcher(wanted, events)
    watcher.on_solution = on_solution
    if on_bound is not None:
        solver.best_bound_callback = lambda bound: events.put(functools.partial(on_bound, _ceil(bound)))
    done = threading.Event()
    found: list[Any] = []

    def work() -> None:
        try:
            found.append(solver.solve(model, watcher))
        finally:
            done.set()

    thread = threading.Thread(target=work, name="cp-sat", daemon=True)
    thread.start()
    try:
        while not done.wait(_POLL):
            _drain(events)
            if budget.stop.is_set():
                solver.stop_search()
        _drain(events)
    finally:
        # Whatever was raised here, the solver must not go on behind it.
        while not done.wait(_POLL):
            solver.stop_search()
        thread.join()
    if not found:
        raise RuntimeError("the solver ended without a status")
    return _outcome(model, solver, found[0], wanted)


def _drain(events: queue.SimpleQueue[Callable[[], None]]) -> None:
    while not events.empty():
        events.get()()


def _outcome(
    model: cp_model.CpModel, solver: cp_model.CpSolver, status: Any, wanted: Sequence[cp_model.IntVar]
) -> Outcome:
    answers = {
        cp_model.OPTIMAL: Answer.OPTIMAL,
        cp_model.FEASIBLE: Answer.FEASIBLE,
        cp_model.INFEASIBLE: Answer.INFEASIBLE,
        cp_model.UNKNOWN: Answer.UNKNOWN,
    }
    if status not in answers:
        raise RuntimeError(f"the solver refuses the model: {model.validate() or solver.status_name(status)}")
    answer = answers[status]
    solved = answer in (Answer.OPTIMAL, Answer.FEASIBLE)
    minimises = model.has_objective()
    values = tuple(int(solver.value(variable)) for variable in wanted) if solved else None
    objective = round(solver.objective_value) if solved and minimises else None
    bound = None
    if answer is Answer.OPTIMAL:
        bound = objective  # not the solver's float, which may be off in its last bits
    elif minimises and answer is not Answer.INFEASIBLE:
        bound = _ceil(solver.best_objective_bound)
    work = solver.deterministic_time / DETERMINISTIC_PER_SECOND
    return Outcome(answer, values, objective, bound, solver.wall_time, work)


def _ceil(bound: float) -> int:
    """Return the smallest whole number that a bound on a whole objective allows, forgiving the last bits of a float."""
    return math.ceil(bound - max(1e-6, abs(bound) * 1e-12))


def smallest_core(
    build: Callable[[frozenset[str]], cp_model.CpModel], names: Sequence[str], budget: Budget
) -> tuple[str, ...] | None:
    """Return a set of named constraint groups that is infeasible, none of which can be left out; None if time runs out.

    ``build`` makes the model with the groups given. Groups are dropped one by one and each drop is proved, so the core
    needs no assumptions and is minimal.
    """
    core = list(names)
    outcome = run(build(frozenset(core)), budget)
    if outcome.answer is not Answer.INFEASIBLE:
        return None
    for name in names:
        without = [one for one in core if one != name]
        outcome = run(build(frozenset(without)), budget)
        if outcome.answer is Answer.UNKNOWN:
            return None
        if outcome.answer is Answer.INFEASIBLE:
            core = without
    return tuple(core)
