"""The placement planners: ``auto``, ``exact``, ``anneal``, and each baseline by its name."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from fabric_plan.models.placement import baselines
from fabric_plan.models.placement.instance import Instance, Solution
from fabric_plan.models.placement.search import Search
from fabric_plan.planner.errors import Infeasible, LimitReached
from fabric_plan.planner.interface import Budget, OnProgress
from fabric_plan.planner.plan import Certificate, Key, PlacementPlan, Status, SwitchPhase
from fabric_plan.planner.problem import PlacementProblem

SMALL_SEATS = 24
"""Up to so many NPUs the whole exact model gets what annealing leaves of the budget at once."""

NEIGHBOURHOOD_SEATS = 1024
"""Beyond, building even a neighbourhood takes longer than annealing gains."""

TIE_SECONDS = 1.5
"""For breaking ties by hops, which claims nothing."""


class _PlacementPlanner:
    """A planner of placements: its steps, and the plan made of what they found."""

    name = ""
    free = True
    """Whether the planner may take another placement where its first does not route through a FRED switch."""

    def solve(self, problem: PlacementProblem, budget: Budget, on_progress: OnProgress) -> PlacementPlan:
        """Return the best plan found; see :class:`fabric_plan.planner.interface.Planner`."""
        instance = Instance(problem)
        search = Search(instance, budget, on_progress)
        self.steps(search)
        if search.best is None:
            raise LimitReached("the budget ended before any placement was found", search.bound * instance.unit)
        switched: tuple[SwitchPhase, ...] = ()
        if problem.fabric.switch:
            from fabric_plan.models.placement.switched import settle

            switched = settle(search, others=self.free)
        return _plan(search, self.name, switched)

    def steps(self, search: Search) -> None:
        """Spend the budget on a search."""
        raise NotImplementedError


class AutoPlanner(_PlacementPlanner):
    """Whatever is strongest for the size: annealing, cuts, then the exact model whole or in neighbourhoods."""

    name = "auto"

    def steps(self, search: Search) -> None:
        """Baselines, counting, annealing; then cuts, and the exact model if the gap is still open."""
        allowance = search.allowance
        search.run_baselines()
        search.count()
        if search.best is None:
            _find_any(search)
        search.anneal(allowance.share(1 / 4, most=4.0))
        search.cut(allowance.share(1 / 6, most=6.0))
        if search.instance.seats <= SMALL_SEATS and search.can_solve_exactly():
            search.solve_exactly(allowance.share(1.0))
        exact = search.can_solve_exactly()
        while not search.done and search.annealer is not None and allowance.left > 1.0:
            search.anneal(allowance.share(1 / 4))
            if search.instance.seats <= NEIGHBOURHOOD_SEATS:
                search.neighbourhoods(allowance.share(1 / 3))
            if exact:
                search.solve_exactly(allowance.share(1 / 2))
                exact = False
        search.break_ties(allowance.share(1.0, most=TIE_SECONDS))


class ExactPlanner(_PlacementPlanner):
    """The exact model whole, hinted by the best baseline, without annealing before it."""

    name = "exact"

    def steps(self, search: Search) -> None:
        """Baselines, counting, then the exact model for all that is left."""
        search.run_baselines()
        search.count()
        if search.best is None:
            _find_any(search)
        if not search.done:
            search.solve_exactly(search.allowance)


class AnnealPlanner(_PlacementPlanner):
    """Annealing for the whole budget; bounds by counting only."""

    name = "anneal"

    def steps(self, search: Search) -> None:
        """Baselines, counting, then annealing."""
        search.run_baselines()
        search.count()
        search.anneal(search.allowance.share(0.95))
        search.break_ties(search.allowance.share(1.0, most=TIE_SECONDS))


class _BaselinePlanner(_PlacementPlanner):
    """One method of today, with the bound by counting beside it."""

    make: Callable[[Search], Solution]
    free = False

    def steps(self, search: Search) -> None:
        """Take that method's placement."""
        solution = type(self).make(search)
        if search.instance.evaluate(solution) is None:
            raise Infeasible(
                f"{self.name} places workers where a flow has no path on {search.instance.fabric.name}", (self.name,)
            )
        search.offer(solution, self.name)
        search.count()


class FredOrderPlanner(_BaselinePlanner):
    """MP, then PP, then DP on consecutive NPUs."""

    name = "mp-pp-dp"
    make = staticmethod(lambda search: baselines.fred_order(search.instance))


class MegatronOrderPlanner(_BaselinePlanner):
    """Megatron's rank order on consecutive NPUs."""

    name = "megatron"
    make = staticmethod(lambda search: baselines.megatron_order(search.instance))


class RowMajorPlanner(_BaselinePlanner):
    """The best order of the dimensions on consecutive NPUs."""

    name = "row-major"
    make = staticmethod(lambda search: baselines.row_major(search.instance)[0])


class GreedyPlanner(_BaselinePlanner):
    """Greedy with exchanges."""

    name = "greedy"
    make = staticmethod(lambda search: search.greedy())


def _find_any(search: Search) -> None:
    """Find any placement at all, where every baseline uses a pair of seats that has no path."""
    search.anneal(search.allowance.share(1 / 4))
    if search.best is None and search.can_solve_exactly():
        search.solve_exactly(search.allowance)


def _plan(search: Search, name: str, switched: tuple[SwitchPhase, ...]) -> PlacementPlan:
    budget = search.budget
    assert search.best is not None
    return PlacementPlan(
        problem=search.instance.problem,
        seats=search.best.seats,
        rings=search.instance.rings_of(search.best),
        switched=switched,
        certificate=_certificate(search, search.best),
        baselines=tuple(search.baselines),
        planner=f"placement.{name}",
        seed=budget.seed,
        seconds=None if budget.deterministic else round(budget.elapsed, 3),
    )


def _certificate(search: Search, best: Solution) -> Certificate:
    """Return the certificate: the objective, its phases where they count apart, and the hops that break ties."""
    instance = search.instance
    problem, unit = instance.problem, instance.unit
    loads, waits, hops = instance.exact_values(best)
    shown = "s" if instance.seconds else "flows"
    objective = sum((w * (a + b) for w, a, b in zip(instance.phase_weights, loads, waits, strict=True)), Fraction(0))
    keys = [Key(name=problem.objective, value=objective, bound=search.bound * unit, unit=shown)]
    if not instance.concurrent:
        for k, demand in enumerate(instance.demands):
            low = (search.load_bounds[k] + search.wait_bounds[k]) * unit
            name = f"{problem.objective}.{demand.dimension}"
            keys.append(Key(name=name, value=loads[k] + waits[k], bound=low, unit=shown, asked=False))
    keys.append(Key(name="hops", value=Fraction(hops), bound=None, unit="links", asked=False))
    status = Status.OPTIMAL if keys[0].closed else Status.FEASIBLE
    return Certificate(status=status, keys=tuple(keys), proof=tuple(search.proof))
