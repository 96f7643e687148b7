"""The search for good placements and proofs: baselines, annealing, bounds, the exact model, and neighbourhoods around it.

A :class:`Search` holds what is known of one problem, the best solution and the proven bounds; its steps each spend part
of the budget and improve either. The planners are sequences of these steps.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement import baselines, bounds
from fabric_plan.models.placement.instance import Instance, Solution, Value
from fabric_plan.models.placement.symmetry import canonical
from fabric_plan.planner.errors import Infeasible
from fabric_plan.planner.interface import Budget, OnProgress, Progress
from fabric_plan.planner.plan import Baseline

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

    from fabric_plan.models.placement.anneal import Annealer
    from fabric_plan.models.placement.exact import PlacementModel

EXACT_PAIRS = 200_000
"""The whole model is tried up to so many seat pairs (about 36 NPUs); beyond, only neighbourhoods are."""

CUT_WORKERS = 128
"""Cuts are tried up to so many workers; beyond, their models end without a useful bound."""

GRID_SEATS = 20_000
"""Local search is left out on larger grids: making its tables would take longer than it gains."""

TABLE_SEATS = 512
"""Local search is left out on fabrics without grid routes that have more seats than this: their table would not fit."""


class Search:
    """What is known of a problem, and the steps that find out more. Loads and bounds are in the instance's units."""

    def __init__(self, instance: Instance, budget: Budget, on_progress: OnProgress) -> None:
        self.instance = instance
        self.budget = budget
        self._on_progress = on_progress
        self._random = np.random.default_rng(budget.seed)
        self._annealer: Annealer | None = None
        self.best: Solution | None = None
        self.value: Value | None = None
        self.baselines: list[Baseline] = []
        self.load_bounds = [0] * instance.phases
        self.wait_bounds = [bounds.least_wait(instance, demand) for demand in range(len(instance.demands))]
        self._total_bound = 0
        self.proof: list[str] = []
        self.allowance = Allowance.whole(budget)

    # What is known

    @property
    def bound(self) -> int:
        """The proven bound on the objective."""
        weights = self.instance.phase_weights
        if self.instance.concurrent:
            parts = self.load_bounds[0] + max(self.wait_bounds, default=0)
        else:
            parts = sum(w * (a + b) for w, a, b in zip(weights, self.load_bounds, self.wait_bounds, strict=True))
        return max(parts, self._total_bound)

    @property
    def closed(self) -> bool:
        """True when the best solution meets the bound."""
        return self.value is not None and self.value.objective <= self.bound

    @property
    def done(self) -> bool:
        """True when nothing is left to find, or nothing left to spend."""
        return self.closed or self.allowance.left <= 0

    def offer(self, solution: Solution, note: str = "") -> bool:
        """Take a solution if it is better than the best; return whether it was."""
        value = self.instance.evaluate(solution)
        if baselines.rank(value) >= baselines.rank(self.value):
            return False
        better = self.value is None or (value is not None and value.objective < self.value.objective)
        self.best, self.value = solution, value
        if better:
            self.report(note)
        return True

    def raise_bound(self, total: int, reason: str) -> None:
        """Take a proven bound on the objective."""
        if total > self.bound:
            self._total_bound = total
            self.proof.append(reason)
            self.report("bound")

    def report(self, note: str) -> None:
        """Tell where the search stands."""
        unit = self.instance.unit
        objective = self.value.objective * unit if self.value is not None else None
        self._on_progress(
            Progress(self.budget.elapsed, objective, self.bound * unit, "s" if self.instance.seconds else "flows", note)
        )

    # Steps

    def run_baselines(self) -> None:
        """Evaluate the methods in use today; the best of them is the first solution."""
        instance = self.instance
        row, name, _ = baselines.row_major(instance)
        methods = [
            ("mp-pp-dp", baselines.fred_order(instance), "MP, then PP, then DP on consecutive NPUs"),
            ("row-major", row, f"best order of dimensions: {name}"),
            ("megatron", baselines.megatron_order(instance), "rank order tp-cp-ep-dp-pp"),
            ("greedy", self.greedy(), "greedy with exchanges"),
        ]
        for label, solution, note in methods:
            value = instance.evaluate(solution)
            if value is not None:
                self.baselines.append(Baseline(name=label, value=value.objective * instance.unit, note=note))
                self.offer(solution, label)

    def greedy(self) -> Solution:
        """Return the greedy placement after exchanges of seats that lower the load, or the hops at the same load."""
        solution = baselines.greedy(self.instance)
        annealer = self.annealer
        if annealer is None or self.instance.evaluate(solution) is None:
            return solution
        best = solution
        for _ in range(3):
            annealer.load(best)
            value = self.instance.evaluate(best)
            assert value is not None
            goals = [max(0, load - 1) for load in value.loads]
            offer = annealer.run(goals, moves=20_000, heat=0.0, hop_price=1e-3)
            if baselines.rank(self.instance.evaluate(offer)) >= baselines.rank(value):
                break
            best = offer
        return best

    @property
    def annealer(self) -> Annealer | None:
        """The annealer; None where the fabric is too large for a table of its routes."""
        if self._annealer is None and self.instance.nets:
            most = GRID_SEATS if self.instance.is_grid else TABLE_SEATS
            if self.instance.seats > most:
                return None
            from fabric_plan.models.placement.anneal import Annealer

            self.report("loading the move kernel (compiled on first use)")
            self._annealer = Annealer(self.instance, self.budget.seed)
        return self._annealer

    def count(self) -> None:
        """Bound each phase by counting at the seats."""
        for phase in range(self.instance.phases):
            found = bounds.counting(self.instance, phase)
            if found.value >= bounds.IMPOSSIBLE:
                raise self.infeasible()
            self._raise_phase(phase, found)
        self.report("counting")

    def cut(self, allowance: Allowance) -> None:
        """Bound each phase by cuts of the fabric, the widest first."""
        if self.instance.workers > CUT_WORKERS:
            return
        pairs = list(itertools.product(range(self.instance.phases), list(bounds.seat_sets(self.instance))[:24]))
        for done, (phase, (inside, name)) in enumerate(pairs):
            if self.done or allowance.left <= 0:
                return
            share = allowance.share(1 / (len(pairs) - done))
            self._raise_phase(phase, bounds.cut(self.instance, phase, inside, name, self.budget, share))

    def _raise_phase(self, phase: int, found: bounds.Bound) -> None:
        step = self.instance.step
        value = -(-found.value // step) * step  # every load is a multiple of the step
        if value > self.load_bounds[phase]:
            self.load_bounds[phase] = value
            where = "" if self.instance.concurrent else f" of {self.instance.demands[phase].dimension}"
            worth = value * self.instance.unit
            self.proof.append(f"largest load{where} at least {_show(worth)}: {found.reason}")

    def anneal(self, allowance: Allowance) -> None:
        """Anneal from random and from good starts, towards loads that would be better than the best."""
        annealer = self.annealer
        if annealer is None:
            return
        large = self.instance.workers > 200  # random starts are hopeless there
        moves = 200_000
        for run in itertools.count():
            if self.done or allowance.left <= 0:
                return
            if (large or run % 3 == 2) and self.best is not None:
                annealer.load(self.best)
                heat = 0.1 if large else 0.3
            else:
                annealer.shuffle(self._random)
                heat = 0.6
            price = 0.05 if self.value is None else 0.0  # hops count, above all those of missing paths
            solution = annealer.run(self.goals(run), moves=moves, heat=heat, hop_price=price, allowance=allowance)
            self.offer(solution, "annealing")
            moves = min(2 * moves, 3_000_000) if run % 4 == 3 else moves

    def goals(self, turn: int) -> list[int]:
        """Return loads to aim at: the bounds, or somewhat less than the best where the bounds are far."""
        if self.value is None or turn % 2 == 0:
            return list(self.load_bounds)
        loads = list(self.value.loads)
        open_phases = [k for k, (load, low) in enumerate(zip(loads, self.load_bounds, strict=True)) if load > low]
        for phase in open_phases:
            if len(open_phases) > 1 and turn % 3 and phase != open_phases[turn % len(open_phases)]:
                continue
            distance = loads[phase] - self.load_bounds[phase]
            loads[phase] -= max(1, distance // 8)
        return loads

    def break_ties(self, allowance: Allowance) -> None:
        """Lower the hops at the same objective."""
        annealer = self.annealer
        for run in range(6):
            if annealer is None or self.best is None or self.value is None or allowance.left <= 0:
                return
            annealer.load(self.best)
            heat = 0.05 if run % 2 else 0.12
            goals = self.value.loads
            solution = annealer.run(goals, moves=100_000, heat=heat, hop_price=0.05, allowance=allowance)
            self.offer(solution, "fewer hops")

    # The exact model

    def can_solve_exactly(self) -> bool:
        """True when the whole model is worth building."""
        from fabric_plan.models.placement.exact import PlacementModel

        return bool(self.instance.nets) and PlacementModel.pairs(self.instance) <= EXACT_PAIRS

    def solve_exactly(self, allowance: Allowance) -> None:
        """Close the gap with the exact model: caps from the bound up where loads are few whole numbers, else minimise."""
        if self.done:
            return
        if self.value is not None and self.instance.problem.objective == "congestion":
            if self.instance.concurrent and self.value.objective - self.bound <= 6 * self.instance.step:
                while not self.done and allowance.left > 0 and self._try_caps([self.bound], allowance):
                    pass
                return
            if not self.instance.concurrent:
                self._try_caps(self.load_bounds, allowance.share(0.5))
        if not self.done:
            self._minimise(allowance)

    def _try_caps(self, caps: Sequence[int], allowance: Allowance) -> bool:
        """Ask whether some placement keeps to ``caps``; return whether the answer moved a bound or the best."""
        from fabric_plan.models import solve

        model = self._model(caps=caps)
        outcome = solve.run(model.model, self.budget, wanted=model.wanted, seconds=allowance.left)
        allowance.charge(outcome.work)
        if outcome.values is not None:
            return self.offer(model.extract(outcome.values), "exact model")
        if outcome.answer is not solve.Answer.INFEASIBLE:
            return False
        # Every load is a multiple of the step: the caps, rounded down to one, are passed by a step somewhere.
        step = self.instance.step
        total = sum(w * (cap // step * step) for w, cap in zip(self.instance.phase_weights, caps, strict=True)) + step
        shown = ", ".join(_show(cap * self.instance.unit) for cap in caps)
        self.raise_bound(total, f"CP-SAT: no placement keeps the largest load to {shown}")
        return True

    def _minimise(self, allowance: Allowance) -> None:
        from fabric_plan.models import solve

        instance = self.instance
        upper = self._upper()
        model = self._model(lower=self.load_bounds, upper=upper)
        hint = model.hint(canonical(instance, self.best)) if self.best is not None else []
        outcome = solve.run(
            model.model,
            self.budget,
            wanted=model.wanted,
            seconds=allowance.left,
            hint=hint,
            on_solution=lambda values: self._watch(model, values),
            on_bound=lambda bound: self._watch_bound(bound),
        )
        allowance.charge(outcome.work)
        if outcome.values is not None:
            self.offer(model.extract(outcome.values), "exact model")
        if outcome.answer is solve.Answer.INFEASIBLE and self.best is None:
            raise self.infeasible()
        if outcome.answer is solve.Answer.INFEASIBLE and self.value is not None:
            # Nothing lies within the loads of the best, not even the best: the hint's loads are its own upper bound.
            raise RuntimeError("the exact model excludes a known solution")
        bound = outcome.bound
        if outcome.answer is solve.Answer.OPTIMAL and self.value is not None:
            bound = self.value.objective  # whole, where the solver reports a float
        if bound is not None:
            shown = _show(bound * instance.unit)
            self.raise_bound(bound, f"CP-SAT: no placement has a smaller objective than {shown}")

    def _upper(self) -> list[int] | None:
        """Return loads that no better solution exceeds: the objective less the other phases' bounds."""
        if self.value is None:
            return None
        weights = self.instance.phase_weights
        total = sum(w * low for w, low in zip(weights, self.load_bounds, strict=True))
        return [
            (self.value.objective - (total - w * low)) // w for w, low in zip(weights, self.load_bounds, strict=True)
        ]

    def _watch(self, model: PlacementModel, values: tuple[int, ...]) -> None:
        self.offer(model.extract(values), "exact model")

    def _watch_bound(self, bound: int) -> None:
        unit = self.instance.unit
        objective = self.value.objective * unit if self.value is not None else None
        shown = max(bound, self.bound) * unit
        self._on_progress(
            Progress(self.budget.elapsed, objective, shown, "s" if self.instance.seconds else "flows", "exact model")
        )

    def _model(self, **options: Sequence[int] | None) -> PlacementModel:
        from fabric_plan.models.placement.exact import PlacementModel

        return PlacementModel(self.instance, **options)  # type: ignore[arg-type]

    def infeasible(self) -> Infeasible:
        """Return the error that says which demands no placement can give paths, none of which could be left out."""
        from fabric_plan.models import solve
        from fabric_plan.models.placement.exact import PlacementModel

        problem = self.instance.problem
        demands = {demand.dimension: demand for demand in problem.demands}

        def build(names: frozenset[str]) -> cp_model.CpModel:
            some = msgspec.structs.replace(problem, demands=tuple(d for d in problem.demands if d.dimension in names))
            instance = Instance(some)
            return PlacementModel(instance, caps=[None] * instance.phases).model

        core = solve.smallest_core(build, list(demands), self.budget) or tuple(demands)
        named = tuple(f"{name}: {demands[name].pattern} by {demands[name].algorithm}" for name in core)
        text = f"no placement of {problem.strategy} on {problem.fabric.name} gives every flow a path"
        return Infeasible(f"{text}: the fabric has too few seats that reach one another", named)

    def neighbourhoods(self, allowance: Allowance) -> None:
        """Improve the best by freeing the workers around a hot link and solving for them alone, again and again."""
        from fabric_plan.models.placement import lns

        lns.improve(self, allowance)


def _show(value: Fraction) -> str:
    return str(value) if value.denominator == 1 else f"{float(value):.6g}"
