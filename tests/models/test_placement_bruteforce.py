"""500 tiny random problems: the planners and the bounds against a brute force that shares no code with them."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
import random_problems
import reference

from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement import bounds
from fabric_plan.models.placement.instance import Instance
from fabric_plan.planner.errors import Infeasible
from fabric_plan.planner.interface import Budget, plan
from fabric_plan.planner.plan import Status
from fabric_plan.planner.problem import PlacementProblem

SEEDS = 500
QUICK_EXACT = 300
QUICK_AUTO = 20
"""``auto`` anneals before it proves, which takes about a second a problem."""


def budget() -> Budget:
    return Budget(seconds=60, workers=1, deterministic=True)


def chunks(size: int, quick: int) -> list:
    """Return chunks of the seeds; those beyond ``quick`` are left to the slow tests."""
    return [
        pytest.param(range(first, first + size), id=f"{first}-{first + size - 1}", marks=marks)
        for first in range(0, SEEDS, size)
        for marks in [[] if first < quick else [pytest.mark.slow]]
    ]


def describe(problem: PlacementProblem) -> str:
    how = "concurrent" if problem.concurrent else "phases"
    wants = "; ".join(
        f"{d.dimension} {d.pattern} {d.algorithm} {d.order} {d.direction} {d.size} x{d.count} w{d.weight}"
        for d in problem.demands
    )
    return (
        f"{problem.strategy} on {problem.fabric.name} ({problem.fabric.routing}), {problem.objective}, {how}: {wants}"
    )


def verdict(problem: PlacementProblem, planner: str) -> str:
    """Return what is wrong with a planner's answer to a problem, or an empty string."""
    best = reference.brute_force(problem).objective
    try:
        found = plan(problem, planner=planner, budget=budget())
    except Infeasible:
        return "" if best is None else f"called infeasible, but {best} can be reached"
    except Exception as error:  # whatever it is, the seed must be named
        return f"{type(error).__name__}: {error} (the optimum is {best})"
    if best is None:
        return f"no placement has a path for every flow, yet one of {found.certificate.objective} is returned"
    certificate = found.certificate
    seen = reference.evaluate(problem, found.seats, found.rings)
    if seen is None or seen.objective != certificate.objective:
        return f"the placement is worth {seen and seen.objective}, not {certificate.objective}"
    if (certificate.status, certificate.objective, certificate.bound) != (Status.OPTIMAL, best, best):
        return f"{certificate.status}: {certificate.objective}, bound {certificate.bound}; the optimum is {best}"
    return ""


def failures(seeds: range, planner: str) -> list[str]:
    found = []
    for seed in seeds:
        problem = random_problems.problem(seed)
        wrong = verdict(problem, planner)
        if wrong:
            found.append(f"seed {seed}: {describe(problem)}: {wrong}")
    return found


@pytest.mark.parametrize("seeds", chunks(25, QUICK_EXACT))
def test_exact_is_optimal(seeds: range) -> None:
    assert failures(seeds, "exact") == []


@pytest.mark.parametrize("seeds", chunks(10, QUICK_AUTO))
def test_auto_is_optimal(seeds: range) -> None:
    assert failures(seeds, "auto") == []


@pytest.mark.parametrize("seeds", chunks(50, SEEDS))
def test_bounds_do_not_pass_the_optimum(seeds: range) -> None:
    wrong = []
    for seed in seeds:
        problem = random_problems.problem(seed)
        optimum = reference.brute_force(problem)
        if optimum.objective is None:
            continue
        instance = Instance(problem)
        for phase, least in enumerate(optimum.phases):
            found = [bounds.counting(instance, phase)]
            found += [
                bounds.cut(instance, phase, inside, name, budget(), Allowance(budget(), 5))
                for inside, name in bounds.seat_sets(instance)
            ]
            for bound in found:
                if bound.value * instance.unit > least:
                    wrong.append(f"seed {seed}, phase {phase}: {bound.value * instance.unit} > {least}: {bound.reason}")
    assert wrong == []


def test_bounds_are_often_tight() -> None:
    """The bounds would pass the test above if they were always zero."""
    tight = total = 0
    for seed in range(100):
        problem = random_problems.problem(seed)
        optimum = reference.brute_force(problem)
        instance = Instance(problem)
        for phase, least in enumerate(optimum.phases):
            total += 1
            tight += bounds.counting(instance, phase).value * instance.unit == least
    assert tight > total / 3


def test_the_problems_cover_every_mode() -> None:
    seen: set[str] = set()
    for seed in range(200):
        problem = random_problems.problem(seed)
        seen |= {problem.fabric.routing, problem.objective, "concurrent" if problem.concurrent else "phases"}
        seen.add("spare seats" if problem.strategy.workers < len(problem.fabric.seats) else "full")
        if reference.brute_force(problem).objective is None:
            seen.add("infeasible")
        for demand in problem.demands:
            seen |= {demand.algorithm, demand.order, demand.direction, demand.pattern, demand.dimension}
            seen.add("flows" if demand.size is None else "sized")
    assert seen >= {"xy", "dimension-order", "shortest", "up-down", "planes", "congestion", "time", "infeasible"}
    assert seen >= {"concurrent", "phases", "spare seats", "full", "flows", "sized"}
    assert seen >= {"ring", "direct", "unicast", "multicast", "fixed", "free", "forward", "both"}
    assert seen >= {"mp", "cp", "ep", "dp", "pp", "all-reduce", "reduce-scatter", "all-gather"}


THREE_DIMENSIONS = [
    {},
    {"pp": "multicast", "direction": "both"},
    {"concurrent": False, "direction": "both"},
    {"ring": "free", "volumes": {"mp": "7MB", "dp": "3MB", "pp": "1MB"}},
]


@pytest.mark.parametrize("options", THREE_DIMENSIONS)
@pytest.mark.parametrize("fabric", ["mesh:2x4", pytest.param("torus:4x2", marks=pytest.mark.slow)])
def test_three_dimensions_on_eight_seats(fabric: str, options: dict) -> None:
    assert verdict(PlacementProblem.of(fabric, "MP2-DP2-PP2", **options), "exact") == ""


@pytest.mark.parametrize("planner", ["exact", pytest.param("auto", marks=pytest.mark.slow)])
def test_a_large_unit_count_still_closes(planner: str) -> None:
    """Volumes with odd denominators make objectives of many units; the bound must still meet the value."""
    fabric = random_problems.grid(random.Random(5), (2, 3), "xy")
    volumes = {"mp": Fraction(10**12 + 39, 7), "dp": Fraction(10**12 + 61, 11)}
    assert verdict(PlacementProblem.of(fabric, "MP2-DP3", volumes=volumes), planner) == ""


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(
            range(first, first + 50), id=f"{first}-{first + 49}", marks=[pytest.mark.slow] if first >= 250 else []
        )
        for first in range(0, 1000, 50)
    ],
)
def test_measured_bandwidths(seeds: range) -> None:
    """Numbers without a common measure, some of them rounded down: nothing false may be said, and all that is exact proved."""
    wrong, judged = [], 0
    for seed in seeds:
        problem = random_problems.measured(seed)
        if problem is None:
            continue
        judged += 1
        optimum = reference.brute_force(problem)
        certificate = plan(problem, planner="exact", budget=budget()).certificate
        instance = Instance(problem)
        if not certificate.bound <= optimum.objective <= certificate.objective:
            wrong.append(f"seed {seed}: {certificate.bound} <= {optimum.objective} <= {certificate.objective} is false")
        elif instance.exact and certificate.status is not Status.OPTIMAL:
            wrong.append(f"seed {seed}: {describe(problem)}: {certificate.bound} < {certificate.objective}")
        elif certificate.objective > optimum.objective * Fraction(1001, 1000):
            wrong.append(
                f"seed {seed}: {describe(problem)}: {certificate.objective}; the optimum is {optimum.objective}"
            )
        for phase, least in enumerate(optimum.phases):
            cuts = [
                bounds.cut(instance, phase, inside, name, budget(), Allowance(budget(), 5))
                for inside, name in bounds.seat_sets(instance)
            ]
            for bound in (bounds.counting(instance, phase), *cuts):
                if bound.value * instance.unit > least:
                    wrong.append(f"seed {seed}: {bound.value * instance.unit} > {least}: {bound.reason}")
    assert wrong == []
    assert judged > 20
