"""The planner of several collectives at once: packed trees, cut and ordered so that links are never far from the packing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import msgspec

from fabric_plan.models.schedule.jobs.bound import own_bound, shared_bound
from fabric_plan.models.schedule.jobs.columns import Packed, pack
from fabric_plan.models.schedule.jobs.commodity import Commodity, commodities
from fabric_plan.models.schedule.jobs.cut import MOST_TRANSFERS, Cut, cut
from fabric_plan.models.schedule.jobs.dual import better_lengths
from fabric_plan.models.schedule.jobs.net import Net
from fabric_plan.models.schedule.jobs.order import Style, listed
from fabric_plan.models.schedule.jobs.usual import best_alone, in_turn, together
from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.plan import Baseline, Certificate, Key, Status
from fabric_plan.planner.problem import Problem, ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan
from fabric_plan.planner.simulator.dataflow import NOT, Found
from fabric_plan.planner.simulator.report import ScheduleReport
from fabric_plan.planner.simulator.schedule import simulate

GRAINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""Chunks that a link could send one after another in the whole time."""

STYLES = (Style(1.0, 1.0), Style(0.5, 2.0), Style(1.0, 1.0, 0.05))

ENOUGH = Fraction(1005, 1000)
"""So near the bound, no finer cuts are tried."""

SHORT = 0.999
"""Where the bound is so far below what the packing's dual says, better lengths are looked for."""

LATE = 4
"""Times of release for which jobs are packed and bounded on their own."""

_NOTHING = Certificate(status=Status.UNKNOWN, keys=())


class PackPlanner:
    """Trees of all jobs packed together, with one after another and all at once as baselines."""

    def solve(self, problem: Problem, budget: Budget, on_progress: OnProgress) -> SchedulePlan:
        """Return the packed schedule, or the better of the baselines where that is quicker."""
        assert isinstance(problem, ScheduleProblem)
        search = _Search(problem, budget, on_progress)
        search.baselines()
        search.packed()
        return search.result()


class _Search:
    """The best schedule so far, and the best bound."""

    def __init__(self, problem: ScheduleProblem, budget: Budget, on_progress: OnProgress) -> None:
        self._problem, self._budget, self._on_progress = problem, budget, on_progress
        self._bound = own_bound(problem)
        self._best: SchedulePlan | None = None
        self._value: tuple[Fraction, Fraction] | None = None
        self._rounding = 0.0
        self._baselines: list[Baseline] = []
        self._refused: list[str] = []
        self._told: list[str] = []

    def baselines(self) -> None:
        """Try what one would do without packing."""
        problem = self._problem
        try:
            alone = best_alone(problem)
        except InvalidInput as error:
            self._refused.append(str(error))
            return
        classes = len({job.priority for job in problem.jobs})
        ways: list[tuple[str, Callable[[], SchedulePlan]]] = [("together", lambda: together(problem, alone))]
        if len(problem.jobs) > 1:
            ways.append(("one after another", lambda: in_turn(problem, alone)))
        if 1 < classes < len(problem.jobs):
            ways.append(("by priority", lambda: in_turn(problem, alone, classes=True)))
        for name, make in ways:
            try:
                seconds = self._try(make(), name)
            except InvalidInput as error:
                self._refused.append(f"{name}: {error}")
                continue
            if seconds is not None:
                self._baselines.append(Baseline(name=name, value=seconds))

    def packed(self) -> None:
        """Pack trees, bound all schedules by the dual, and try cuts of the packing."""
        problem, budget = self._problem, self._budget
        try:
            net = Net.of(problem.seen)
            wanted = commodities(problem.jobs)
            packed = pack(net, wanted, lambda: budget.left * 0.5)
            self._raise(shared_bound(problem, wanted, packed.lengths, lambda: budget.left * 0.5))
            if self._bound[0] < packed.dual * SHORT:
                lengths = better_lengths(net, wanted, packed, lambda: budget.left - budget.seconds / 2)
                self._raise(shared_bound(problem, wanted, lengths, lambda: budget.left * 0.5))
            for release in sorted({job.release for job in problem.jobs})[1 : LATE + 1]:
                late = [one for one in wanted if problem.jobs[one.job].release >= release]
                lengths = pack(net, late, lambda: budget.left * 0.5).lengths
                self._raise(shared_bound(problem, wanted, lengths, lambda: budget.left * 0.5))
        except InvalidInput as error:
            self._refused.append(str(error))
            return
        self._told.append(
            f"pack: {len(packed.trees)} trees, {packed.seconds:.6g} s at full rate; their dual {packed.dual:.6g} s"
        )
        for number, (pieces, style) in enumerate(self._cuts(net, wanted, packed)):
            if number and (budget.left <= 0 or self._near()):
                break
            expected = max(packed.seconds, float(self._bound[0]))
            transfers = listed(problem, net, pieces, expected, style)
            self._try(
                SchedulePlan(
                    problem=problem,
                    algorithm="pack",
                    shards=tuple(pieces.shards),
                    job_chunks=tuple(pieces.job_chunks) if len(problem.jobs) > 1 else (),
                    transfers=transfers,
                    certificate=_NOTHING,
                ),
                f"pack, {len(pieces.shards):,} chunks",
            )

    def _cuts(self, net: Net, wanted: list[Commodity], packed: Packed) -> Iterator[tuple[Cut, Style]]:
        """Yield cuts from coarse to fine, each with every style; a second time none that is the same."""
        width = max(link.bandwidth for link in net.fabric.links)
        seen: set[tuple[int, ...]] = set()
        priorities = len({job.priority for job in self._problem.jobs}) > 1
        for grain in GRAINS:
            pieces = cut(self._problem, net, wanted, packed, packed.seconds * width / grain)
            key = tuple(pieces.job_chunks)
            moves = sum(len(one.tree.up) + len(one.tree.down) for one in pieces.chunks)
            if key in seen or (seen and moves > MOST_TRANSFERS):
                continue
            seen.add(key)
            for style in STYLES:
                if not style.weight or priorities:
                    yield pieces, style

    def _raise(self, bound: tuple[Fraction, str]) -> None:
        if bound[0] > self._bound[0]:
            self._bound = bound

    def _near(self) -> bool:
        return self._value is not None and self._value[0] <= self._bound[0] * ENOUGH

    def _try(self, plan: SchedulePlan, note: str) -> Fraction | None:
        """Simulate a schedule, keep it if it is the best, and return its time; None where it never ends."""
        report = simulate(plan, followed=Found([], NOT)).report
        if report.seconds is None:
            return None
        value = (report.seconds, self._completion(report))
        if self._value is None or value < self._value:
            self._best, self._value, self._rounding = plan, value, report.rounding
        self._on_progress(Progress(self._budget.elapsed, self._value[0], self._bound[0], "s", note))
        return report.seconds

    def _completion(self, report: ScheduleReport) -> Fraction:
        """Return the jobs' times, weighted: a job of priority k counts 1/(k + 1). It decides between schedules that end together."""
        ends = zip(report.jobs, self._problem.jobs, strict=False)
        return sum((end / (1 + max(0, job.priority)) for end, job in ends if end is not None), Fraction(0))

    def result(self) -> SchedulePlan:
        """Return the best with its certificate."""
        if self._best is None or self._value is None:
            raise InvalidProblem(f"pack: no schedule suits: {'; '.join(self._refused) or 'none was found'}")
        value, bound = self._value[0], self._bound[0]
        # Where the simulation rounds times, a bound that is exact may lie above them by as little.
        bound = min(value, bound * (1 - Fraction(self._rounding))) if self._rounding else bound
        key = Key(name="time", value=value, bound=bound, unit="s")
        certificate = Certificate(
            status=Status.OPTIMAL if key.closed else Status.FEASIBLE, keys=(key,), proof=(self._bound[1], *self._told)
        )
        return msgspec.structs.replace(
            self._best,
            certificate=certificate,
            baselines=tuple(self._baselines),
            planner="pack",
            seed=self._budget.seed,
            seconds=None if self._budget.deterministic else self._budget.elapsed,
        )
