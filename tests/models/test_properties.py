"""What must hold for every placement problem, on examples that Hypothesis makes."""

from __future__ import annotations

import random
from fractions import Fraction

import msgspec
import pytest
import random_problems
import reference
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fabric_plan.models.placement.instance import Instance
from fabric_plan.planner.catalog import build
from fabric_plan.planner.errors import Infeasible, LimitReached
from fabric_plan.planner.fabric import Fabric, Link
from fabric_plan.planner.interface import Budget, plan, planners, validate
from fabric_plan.planner.plan import PlacementPlan, Status
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.simulator.placement import check

SEEDS = st.integers(0, 10_000)


def examples(count: int):
    return settings(max_examples=count, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def solve(problem: PlacementProblem, planner: str = "exact", **options) -> PlacementPlan | None:
    """Return a plan, or None when the problem has none, or annealing finds none."""
    seconds = 4 if planner == "anneal" else 60
    try:
        return plan(problem, planner=planner, budget=Budget(seconds=seconds, workers=1, deterministic=True, **options))
    except Infeasible:
        return None
    except LimitReached:
        if planner != "anneal":
            raise
        return None


def optimum(problem: PlacementProblem) -> Fraction | None:
    found = solve(problem)
    if found is None:
        return None
    assert found.certificate.status is Status.OPTIMAL
    return found.certificate.objective


def whole(seed: int) -> PlacementProblem:
    """Return a random problem on a fabric where every pair has a path."""
    problem = random_problems.problem(seed)
    assume(all(reference.route_table(problem.fabric).values()))
    return problem


QUICK = ["exact", "greedy", "megatron", "mp-pp-dp", "row-major"]


def test_every_planner_is_tried_below() -> None:
    assert set(planners("placement")) == {*QUICK, "auto", "anneal"}


def judge(problem: PlacementProblem, planner: str) -> None:
    """Check a planner's plan with the simulator, and what its certificate says of itself."""
    found = solve(problem, planner)
    if found is None:
        return
    assert validate(found)[1] == []
    assert check(found)[1] == []
    assert found.planner == f"placement.{planner}"
    assert found.seconds is None
    for key in found.certificate.keys:
        assert key.bound is None or 0 <= key.bound <= key.value
    assert (found.certificate.status is Status.OPTIMAL) == (found.certificate.bound == found.certificate.objective)
    for baseline in found.baselines:
        assert planner in QUICK[1:] or found.certificate.objective <= baseline.value


@pytest.mark.parametrize("planner", QUICK)
@examples(12)
@given(SEEDS)
def test_the_simulator_accepts_every_plan(planner: str, seed: int) -> None:
    judge(random_problems.problem(seed), planner)


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["auto", "anneal"])
@examples(12)
@given(SEEDS)
def test_the_simulator_accepts_every_annealed_plan(planner: str, seed: int) -> None:
    judge(random_problems.problem(seed), planner)


@examples(15)
@given(SEEDS)
def test_no_planner_is_better_than_a_bound_of_another(seed: int) -> None:
    problem = whole(seed)
    plans = [solve(problem, planner) for planner in QUICK]
    least = min(found.certificate.objective for found in plans)
    for found in plans:
        assert found.certificate.bound <= least, found.planner


@examples(10)
@given(SEEDS)
def test_the_same_seed_gives_the_same_plan(seed: int) -> None:
    problem = random_problems.problem(seed)
    assert solve(problem, seed=5) == solve(problem, seed=5)


# Another look at the same problem


def mirrored(problem: PlacementProblem, axis: int) -> PlacementProblem:
    """Return a problem on the mirror image of its grid."""
    fabric = problem.fabric
    shape = fabric.shape

    def image(seat: int) -> int:
        place, rest = [], seat
        for side in reversed(shape):
            rest, here = divmod(rest, side)
            place.insert(0, here)
        place[axis] = shape[axis] - 1 - place[axis]
        found = 0
        for side, here in zip(shape, place, strict=True):
            found = found * side + here
        return found

    links = [between(link, image(link.source), image(link.target)) for link in fabric.links]
    turned = Fabric("mirrored", fabric.nodes, links, fabric.routing, shape=shape)
    return msgspec.structs.replace(problem, fabric=turned)


def between(link: Link, source: int, target: int) -> Link:
    """Return a link of the same figures between two other nodes."""
    return Link(source, target, link.bandwidth, link.latency, link.multiplicity)


@examples(12)
@given(SEEDS, st.integers(0, 1))
def test_a_mirror_image_has_the_same_optimum(seed: int, axis: int) -> None:
    source = random.Random(seed)
    fabric = random_problems.grid(source, source.choice([(2, 3), (3, 2), (1, 5), (2, 2)]), "xy")
    strategy = random_problems.strategy(source, len(fabric.seats))
    demands = random_problems.demands(source, strategy, sized=source.random() < 0.5)
    assume(demands)
    problem = PlacementProblem(fabric=fabric, strategy=strategy, demands=demands, concurrent=source.random() < 0.5)
    assert optimum(mirrored(problem, axis)) == optimum(problem)


@examples(12)
@given(SEEDS)
def test_seats_in_another_order_have_the_same_optimum(seed: int) -> None:
    """Renumbering the nodes of a fabric whose routes do not hang on numbers."""
    problem = whole(seed)
    fabric = problem.fabric
    assume(not fabric.shape and fabric.routing != "dimension-order")
    order = list(range(len(fabric.nodes)))
    random.Random(seed).shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    links = [between(link, place[link.source], place[link.target]) for link in fabric.links]
    random.Random(seed).shuffle(links)
    turned = Fabric("renumbered", [fabric.nodes[old] for old in order], links, fabric.routing)
    assert optimum(msgspec.structs.replace(problem, fabric=turned)) == optimum(problem)


@examples(12)
@given(SEEDS)
def test_relabelled_workers_have_the_same_value(seed: int) -> None:
    """Rotating the digits of a ring's or an all-to-all's dimension renames workers and changes nothing else."""
    problem = random_problems.problem(seed)
    instance = Instance(problem)
    strategy = problem.strategy
    source = random.Random(seed)
    seats, _ = random_problems.placement(source, problem)
    value = instance.evaluate(instance.start(seats))
    held = {"pp"} | ({"mp"} if any(d.algorithm == "multicast" for d in problem.demands) else set())
    turns = [0 if name in held else source.randrange(size) for name, size in strategy.sizes]
    turned = list(seats)
    for worker in range(strategy.workers):
        digits = [
            (digit + turn) % size
            for digit, turn, (_, size) in zip(strategy.digits(worker), turns, strategy.sizes, strict=True)
        ]
        turned[strategy.index(digits)] = seats[worker]
    assert instance.evaluate(instance.start(turned)) == value


@examples(10)
@given(SEEDS)
def test_dimensions_may_change_their_names(seed: int) -> None:
    """Data and tensor parallelism exchanged: the same rings under other names."""
    source = random.Random(seed)
    fabric = random_problems.grid(source, source.choice([(2, 3), (1, 6), (2, 2)]), "xy")
    sizes = source.choice([(2, 3), (3, 2), (2, 2)])
    assume(sizes[0] * sizes[1] <= len(fabric.seats))
    values = []
    for names in (("mp", "dp"), ("dp", "mp")):
        pairs = dict(zip(names, sizes, strict=True))
        volumes = dict(zip(names, (3_000_000, 5_000_000), strict=True))
        strategy = "-".join(f"{name}{size}" for name, size in pairs.items())
        values.append(optimum(PlacementProblem.of(fabric, strategy, volumes=volumes)))
    assert values[0] == values[1]


# More is never less


def with_links(problem: PlacementProblem, change) -> PlacementProblem:
    fabric = problem.fabric
    links = [change(index, link) for index, link in enumerate(fabric.links)]
    made = Fabric("changed", fabric.nodes, links, fabric.routing, shape=fabric.shape)
    return msgspec.structs.replace(problem, fabric=made)


def grid_problem(source: random.Random, *, sized: bool) -> PlacementProblem:
    """Return a problem on a grid, where routes do not depend on widths."""
    rule = source.choice(["xy", "dimension-order"])
    fabric = random_problems.grid(source, source.choice([(2, 3), (1, 5), (2, 2), (5,)]), rule)
    strategy = random_problems.strategy(source, len(fabric.seats))
    demands = random_problems.demands(source, strategy, sized=sized)
    assume(demands)
    return PlacementProblem(fabric=fabric, strategy=strategy, demands=demands, concurrent=source.random() < 0.5)


@examples(15)
@given(SEEDS)
def test_more_bandwidth_is_never_worse(seed: int) -> None:
    source = random.Random(seed)
    problem = grid_problem(source, sized=True)
    lucky = {index for index in range(len(problem.fabric.links)) if source.random() < 0.4}

    def widen(index: int, link: Link) -> Link:
        factor = 3 if index in lucky else 1
        return Link(link.source, link.target, factor * link.bandwidth, link.latency, link.multiplicity)

    assert optimum(with_links(problem, widen)) <= optimum(problem)


@examples(10)
@given(SEEDS)
def test_twice_the_bandwidth_halves_the_load(seed: int) -> None:
    problem = grid_problem(random.Random(seed), sized=True)

    def double(index: int, link: Link) -> Link:
        return Link(link.source, link.target, 2 * link.bandwidth, link.latency, link.multiplicity)

    assert 2 * optimum(with_links(problem, double)) == optimum(problem)


@examples(10)
@given(SEEDS)
def test_parallel_links_are_never_worse(seed: int) -> None:
    source = random.Random(seed)
    problem = grid_problem(source, sized=False)
    lucky = {index for index in range(len(problem.fabric.links)) if source.random() < 0.4}

    def add(index: int, link: Link) -> Link:
        return Link(link.source, link.target, link.bandwidth, link.latency, link.multiplicity + (index in lucky))

    assert optimum(with_links(problem, add)) <= optimum(problem)


@examples(8)
@given(SEEDS)
def test_free_rings_and_fewer_demands_are_never_worse(seed: int) -> None:
    problem = grid_problem(random.Random(seed), sized=False)
    best = optimum(problem)
    free = tuple(
        msgspec.structs.replace(demand, order="free") if demand.algorithm == "ring" else demand
        for demand in problem.demands
    )
    assert optimum(msgspec.structs.replace(problem, demands=free)) <= best
    assert optimum(msgspec.structs.replace(problem, demands=problem.demands[1:])) <= best


@pytest.mark.parametrize(("small", "large"), [("mesh:2x2", "mesh:2x3"), ("mesh:1x4", "mesh:2x4"), ("full:4", "full:5")])
@pytest.mark.parametrize("strategy", ["MP4", "MP2-DP2", "EP4", "EP2-PP2"])
def test_spare_seats_are_never_worse(small: str, large: str, strategy: str) -> None:
    """The larger fabric holds the smaller, with its routes."""
    values = [optimum(PlacementProblem.of(build(name), strategy)) for name in (small, large)]
    assert values[1] <= values[0]
