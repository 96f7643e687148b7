"""The exact model, rule by rule: what is feasible under caps and what is not, and that its solutions are placements."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import msgspec
import pytest
import random_problems
import reference

from fabric_plan.models import solve
from fabric_plan.models.allowance import Allowance
from fabric_plan.models.placement import bounds, lns
from fabric_plan.models.placement.exact import PlacementModel
from fabric_plan.models.placement.instance import Instance, Solution
from fabric_plan.models.placement.search import Search
from fabric_plan.models.placement.symmetry import canonical
from fabric_plan.planner.catalog import build
from fabric_plan.planner.errors import Infeasible, InvalidProblem
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.interface import Budget, plan
from fabric_plan.planner.plan import Status
from fabric_plan.planner.problem import PlacementProblem


def budget(seconds: float = 30) -> Budget:
    return Budget(seconds=seconds, workers=1, deterministic=True)


def answer(model: PlacementModel) -> tuple[solve.Answer, Solution | None]:
    outcome = solve.run(model.model, budget(), wanted=model.wanted)
    return outcome.answer, None if outcome.values is None else model.extract(outcome.values)


def within(instance: Instance, caps: list[int]) -> bool:
    """Return whether some placement keeps to ``caps``, checking the one that is found."""
    found, solution = answer(PlacementModel(instance, caps=caps))
    assert found in (solve.Answer.OPTIMAL, solve.Answer.INFEASIBLE)
    if solution is None:
        return False
    check(instance, solution)
    value = instance.evaluate(solution)
    assert all(load <= cap for load, cap in zip(value.loads, caps, strict=True))
    return True


def check(instance: Instance, solution: Solution) -> None:
    """Check that a solution is a placement, and that the model's symmetry rules hold in it."""
    assert len(set(solution.seats)) == instance.workers
    assert all(0 <= seat < instance.seats for seat in solution.seats)
    for ring, order in zip(instance.rings, solution.orders, strict=True):
        assert sorted(order) == sorted(ring.members)
        assert order[0] == ring.members[0]


def of(fabric, strategy: str, **options) -> Instance:
    return Instance(PlacementProblem.of(fabric, strategy, **options))


@pytest.mark.parametrize(
    ("fabric", "strategy", "options", "least"),
    [
        # A ring of two takes both directions of a link.
        ("mesh:1x2", "MP2", {}, [1]),
        # On a row the way back crosses every link once; more members than fit side by side make no difference.
        ("mesh:1x4", "MP4", {}, [1]),
        # Two rings of two on a square: rows and columns.
        ("mesh:2x2", "MP2-DP2", {}, [1]),
        # The same on a row: the outer worker's two partners lie on one side.
        ("mesh:1x4", "MP2-DP2", {}, [2]),
        # Everyone to everyone on a row of four: two by two cross the middle.
        ("mesh:1x4", "EP4", {}, [4]),
        ("full:4", "EP4", {}, [1]),
        ("hub:4", "EP4", {}, [3]),
        # A pipeline forward, and back on the links' other directions.
        ("mesh:1x4", "PP4", {}, [1]),
        ("mesh:1x4", "PP4", {"direction": "both"}, [1]),
        # Phases apart.
        ("mesh:1x4", "MP2-DP2", {"concurrent": False}, [1, 2]),
        # A stage's first worker sends to both of the next stage by one multicast.
        ("mesh:2x2", "MP2-PP2", {"pp": "multicast"}, [2]),
        ("mesh:2x2", "MP2-PP2", {"pp": "unicast"}, [1]),
        ("mesh:1x4", "MP2-PP2", {"pp": "multicast"}, [2]),
        ("mesh:1x4", "MP2-PP2", {"pp": "multicast", "concurrent": False}, [1, 1]),
    ],
)
def test_caps(fabric: str, strategy: str, options: dict, least: list[int]) -> None:
    instance = of(fabric, strategy, **options)
    assert instance.unit == 1
    optimum = reference.brute_force(instance.problem)
    assert optimum.objective == sum(least)
    assert within(instance, least)
    for phase, cap in enumerate(least):
        assert not within(instance, [cap - 1 if k == phase else most for k, most in enumerate(least)])


def test_a_free_ring_is_one_circuit() -> None:
    """Four workers on a full mesh with one slow direction: two circuits of two would avoid it, one of four must not."""
    slow = {(0, 1), (1, 0), (2, 3), (3, 2)}
    links = [Link(a, b, 10 if (a, b) in slow else 1, Fraction(0)) for a in range(4) for b in range(4) if a != b]
    fabric = Fabric("two pairs", [Node("npu", f"n{k}") for k in range(4)], links)
    problem = PlacementProblem.of(fabric, "MP4", ring="free", volumes={"mp": 10})
    instance = Instance(problem)
    found, solution = answer(PlacementModel(instance))
    assert found is solve.Answer.OPTIMAL
    check(instance, solution)
    value = instance.evaluate(solution)
    assert value.objective * instance.unit == reference.brute_force(problem).objective == 15


def test_a_free_ring_may_be_better_than_a_fixed_one() -> None:
    fixed, free = (of("mesh:1x6", "MP3-DP2", ring=ring) for ring in ("fixed", "free"))
    assert reference.brute_force(free.problem).objective <= reference.brute_force(fixed.problem).objective
    for instance in (fixed, free):
        least = int(reference.brute_force(instance.problem).objective)
        assert within(instance, [least])
        assert not within(instance, [least - 1])


def test_pairs_without_a_path_are_not_used() -> None:
    links = [Link(a, b, 1, Fraction(0)) for a, b in ((0, 1), (1, 0), (2, 3), (3, 2))]
    islands = Fabric("islands", [Node("npu", f"n{k}") for k in range(4)], links)
    assert within(of(islands, "MP2"), [1])
    assert within(of(islands, "MP2-DP1"), [1])
    assert not within(of(islands, "MP3"), [99])
    assert not within(of(islands, "MP2-PP2"), [99])
    assert not within(of(islands, "EP3"), [99])
    assert not within(of(islands, "MP2-PP2", pp="multicast"), [99])
    assert not within(of(islands, "MP3", ring="free"), [99])


def test_narrow_and_parallel_links_count_by_their_width() -> None:
    links = [
        Link(0, 1, 4, Fraction(0), 4),
        Link(1, 0, 1, Fraction(0), 1),
        Link(1, 2, 1, Fraction(0)),
        Link(2, 1, 4, Fraction(0), 2),
    ]
    fabric = Fabric("uneven", [Node("npu", f"n{k}") for k in range(3)], links)
    for options in ({}, {"volumes": {"pp": 8}}):
        problem = PlacementProblem.of(fabric, "PP3", **options)
        instance = Instance(problem)
        found, solution = answer(PlacementModel(instance))
        assert found is solve.Answer.OPTIMAL
        assert instance.evaluate(solution).objective * instance.unit == reference.brute_force(problem).objective


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_the_whole_model_minimises_every_mode(first: int) -> None:
    """Without any bound or hint from elsewhere, the model alone finds the optimum."""
    for seed in range(first, first + 30):
        problem = random_problems.problem(seed)
        instance = Instance(problem)
        best = reference.brute_force(problem).objective
        found, solution = answer(PlacementModel(instance))
        if best is None:
            assert found is solve.Answer.INFEASIBLE, seed
            continue
        assert found is solve.Answer.OPTIMAL, seed
        check(instance, solution)
        assert instance.evaluate(solution).objective * instance.unit == best, seed


@pytest.mark.parametrize("first", range(0, 120, 60))
def test_a_canonical_solution_satisfies_the_model(first: int) -> None:
    """Held to the seats of any solution, moved to where the model looks, the model agrees and gives its value."""
    for seed in range(first, first + 60):
        problem = random_problems.problem(seed)
        instance = Instance(problem)
        seats, rings = random_problems.placement(random.Random(seed), problem)
        orders = {name: list(some) for name, some in rings.items()}
        solution = Solution(seats, tuple(orders[ring.dimension].pop(0) for ring in instance.rings))
        value = instance.evaluate(solution)
        if value is None:
            continue
        moved = canonical(instance, solution)
        model = PlacementModel(instance, caps=value.loads)
        for worker, seat in enumerate(moved.seats):
            model.model.add(model.x[worker][seat] == 1)
        found, again = answer(model)
        assert found is solve.Answer.OPTIMAL, seed
        assert again.seats == moved.seats
        assert all(load <= cap for load, cap in zip(instance.evaluate(again).loads, value.loads, strict=True))


def test_domains_hold_workers_where_they_are() -> None:
    instance = of("mesh:2x3", "MP3-DP2")
    domains = [[5], [0, 1], [2], [0, 1, 3], [4], [0, 1, 3]]
    found, solution = answer(PlacementModel(instance, domains=domains, goals=[1]))
    assert found is solve.Answer.OPTIMAL
    assert all(seat in domain for seat, domain in zip(solution.seats, domains, strict=True))
    assert solution.seats[0] == 5
    assert solution.seats[2] == 2


def test_goals_minimise_what_is_beyond_them() -> None:
    """The least excess over a goal, by trying every placement of four workers."""
    instance = of("mesh:1x4", "MP2-DP2")
    found, solution = answer(PlacementModel(instance, goals=[1], domains=[range(4)] * 4))
    assert found is solve.Answer.OPTIMAL

    def excess(seats) -> Fraction:
        return sum(max(load - 1, 0) for load in reference.evaluate(instance.problem, seats).together.values())

    assert excess(solution.seats) == min(excess(seats) for seats in itertools.permutations(range(4)))


def test_bounds_from_elsewhere_do_not_change_the_optimum() -> None:
    for seed in range(40):
        problem = random_problems.problem(seed)
        optimum = reference.brute_force(problem)
        if optimum.objective is None:
            continue
        instance = Instance(problem)
        lower = [int(phase / instance.unit) for phase in optimum.phases]
        found, solution = answer(PlacementModel(instance, lower=lower))
        assert found is solve.Answer.OPTIMAL
        assert instance.evaluate(solution).objective * instance.unit == optimum.objective, seed


# Known optima


KNOWN = [
    ("mesh:4x4", "MP2-DP4-PP2", {"concurrent": False, "direction": "both"}, 3),
    ("mesh:4x4", "MP2-DP4-PP2", {}, 2),
    ("mesh:4x5", "MP3-DP3-PP2", {}, 2),
    ("mesh:4x5", "MP2-DP5-PP2", {}, 2),
    ("mesh:4x4", "MP5-DP3", {}, 2),
    ("mesh:4x4", "MP5-DP3", {"concurrent": False}, 2),
    ("mesh:4x5", "MP5-DP3", {}, 1),
    ("mesh:4x5", "MP4-DP5", {}, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("fabric", "strategy", "options", "optimum"), KNOWN)
def test_known_optima(fabric: str, strategy: str, options: dict, optimum: int) -> None:
    found = plan(PlacementProblem.of(fabric, strategy, **options), budget=Budget(seconds=240, workers=2))
    assert found.certificate.objective == optimum
    assert (found.certificate.bound, found.certificate.status) == (optimum, Status.OPTIMAL)


# What the searches around the model must survive


def test_a_disconnected_fabric_with_an_open_gap_is_planned() -> None:
    """The neighbourhoods around a hot link must not trip over seats that it cannot reach."""
    mesh = build("mesh:4x4")
    links = [*mesh.links, *(Link(k.source + 16, k.target + 16, k.bandwidth, k.latency) for k in mesh.links)]
    islands = Fabric("islands", [*mesh.nodes, *mesh.nodes], links)
    search = Search(of(islands, "MP2-DP4-PP2"), budget(), lambda progress: None)
    search.run_baselines()
    search.count()
    assert not search.closed
    before = search.value.objective
    lns.improve(search, search.allowance.share(1.0, most=5))
    assert search.value.objective <= before


def test_a_bound_between_two_steps_is_not_raised_past_the_optimum() -> None:
    """Where units were rounded, loads are multiples of a step; a bound proved by the solver need not be one."""
    problem = PlacementProblem.of("mesh:1x6", "MP2-EP3", volumes={"mp": 10**17 + 1, "ep": 6 * 10**17})
    instance = Instance(problem)
    assert instance.step > 1
    optimum = reference.brute_force(problem).objective
    search = Search(instance, budget(), lambda progress: None)
    search.run_baselines()
    search.count()
    least = int(optimum / instance.unit) // instance.step * instance.step
    search.raise_bound(least - instance.step + 1, "a solver that ended early")
    search.solve_exactly(search.allowance.share(1.0, most=5))
    assert search.bound * instance.unit <= optimum


def test_a_very_slow_link_beside_very_fast_ones_does_not_raise_the_bound() -> None:
    """Costs that are rounded down to nothing must not turn into a bound above the truth."""
    nodes = [Node("npu", f"n{k}") for k in range(12)]
    widths = {(1, 2): 1000}
    links = [
        Link(a, b, widths.get((a, b), 10**15 if 0 in (a, b) else 997 * 10**9 + a + b), Fraction(0))
        for a in range(12)
        for b in range(12)
        if a != b
    ]
    instance = of(Fabric("slow link", nodes, links), "EP12", volumes={"ep": Fraction(10**12 + 39, 7)})
    loads, _, _ = instance.exact_values(instance.start(range(12)))
    assert bounds.counting(instance, 0).value * instance.unit <= loads[0]


@pytest.mark.parametrize("volumes", [None, {"mp": "3MB", "pp": "7MB"}])
def test_multicast_on_planes_that_not_all_reach(volumes: dict | None) -> None:
    """Whatever a multicast over unequal planes is worth, model and simulator must say the same of it."""
    for seed in range(20):
        source = random.Random(seed)
        count, planes = source.randint(4, 6), source.randint(2, 3)
        nodes = [*(Node("npu", f"g{k}") for k in range(count)), *(Node("switch", f"p{k}") for k in range(planes))]
        wired = [(a, count + b) for a in range(count) for b in range(planes) if b == 0 or source.random() < 0.6]
        links = [Link(*end, source.choice([25, 50]), Fraction(0)) for a, b in wired for end in ((a, b), (b, a))]
        fabric = Fabric("unequal planes", nodes, links, "planes")
        try:
            problem = PlacementProblem.of(fabric, "MP2-PP2", pp="multicast", volumes=volumes)
        except InvalidProblem:
            continue  # to refuse them is an answer too
        found = plan(problem, planner="exact", budget=budget())
        assert found.certificate.status is Status.OPTIMAL, seed


def test_an_infeasible_core_is_minimal() -> None:
    """Islands of two: pairs fit, pipelines of four do not."""
    pairs = [(a, a ^ 1) for a in range(8)]
    fabric = Fabric("pairs", [Node("npu", f"n{k}") for k in range(8)], [Link(a, b, 1, Fraction(0)) for a, b in pairs])
    problem = PlacementProblem.of(fabric, "MP2-PP4")
    with pytest.raises(Infeasible, match="too few seats") as caught:
        plan(problem, planner="exact", budget=budget())
    assert caught.value.core == ("pp: point-to-point by unicast",)
    only = msgspec.structs.replace(problem, demands=problem.demands[:1])
    assert plan(only, planner="exact", budget=budget()).certificate.status is Status.OPTIMAL


def test_an_infeasible_problem_with_large_volumes_is_explained() -> None:
    """Bytes without a common measure make weights of many bits; the explanation must not add them past the solver's."""
    links = [Link(a, a ^ 1, 25 * 10**9, Fraction(0)) for a in range(6)]
    fabric = Fabric("pairs", [Node("npu", f"n{k}") for k in range(6)], links)
    volumes = {"dp": Fraction(831_960_506, 7), "pp": Fraction(154_388_252, 11)}
    with pytest.raises(Infeasible) as caught:
        plan(PlacementProblem.of(fabric, "DP2-PP3", volumes=volumes), planner="exact", budget=budget())
    assert caught.value.core == ("pp: point-to-point by unicast",)


@pytest.mark.parametrize(("strategy", "options"), [("MP3", {}), ("EP3", {}), ("PP3", {}), ("PP3", {"pp": "multicast"})])
def test_planes_that_do_not_lead_back(strategy: str, options: dict) -> None:
    """An NPU that has lost the link down from one of three planes: routes to it have two stripes, others three."""
    nodes = [*(Node("npu", f"g{k}") for k in range(3)), *(Node("switch", f"p{k}") for k in range(3))]
    links = [Link(npu, plane, 50, Fraction(0)) for npu in range(3) for plane in range(3, 6)]
    links += [Link(plane, npu, 50, Fraction(0)) for npu in range(3) for plane in range(3, 6) if (npu, plane) != (0, 5)]
    problem = PlacementProblem.of(Fabric("one way", nodes, links, "planes"), strategy, **options)
    found = plan(problem, planner="exact", budget=budget())
    assert found.certificate.objective == found.certificate.bound == reference.brute_force(problem).objective


@pytest.mark.parametrize("step", [100_000_000, 1])
def test_cuts_of_links_that_were_measured(step: int) -> None:
    """Bandwidths that differ from link to link, by tenths of a GB/s or by bytes: their sums have long denominators."""
    source = random.Random(3)
    mesh = build("mesh:2x3")
    links = [
        Link(k.source, k.target, source.randrange(40 * 10**9, 50 * 10**9) // step * step, k.latency) for k in mesh.links
    ]
    problem = PlacementProblem.of(
        Fabric("measured", mesh.nodes, links, "xy", shape=(2, 3)), "MP2-DP3", volumes={"mp": "3MB", "dp": "5MB"}
    )
    instance = Instance(problem)
    (least,) = reference.brute_force(problem).phases
    for inside, name in bounds.seat_sets(instance):
        found = bounds.cut(instance, 0, inside, name, budget(), Allowance(budget(), 5))
        assert 0 < found.value * instance.unit <= least


MISLEADING = """
6-9 3008 1, 9-6 318 1, 0-6 264 1, 6-0 540 1, 1-6 3079 1, 6-1 520 2, 7-9 3058 1, 9-7 525 3, 2-7 346 1, 7-2 3071 1,
8-9 519 2, 9-8 3027 1, 3-8 1073 1, 8-3 521 2, 4-8 1091 3, 8-4 506 1, 5-8 332 1, 8-5 1088 3
"""
"""Links of a tree of six NPUs (nodes 0 to 5): ends, bandwidth in tenths of a GB/s, parallel links."""


def misleading() -> PlacementProblem:
    links = []
    for text in MISLEADING.replace("\n", " ").split(","):
        ends, bandwidth, parallel = text.split()
        source, target = map(int, ends.split("-"))
        links.append(Link(source, target, int(bandwidth) * 10**8, Fraction(0), int(parallel)))
    nodes = [*(Node("npu", f"g{k}") for k in range(6)), *(Node("switch", f"s{k}") for k in range(4))]
    volumes = {"mp": "3MB", "pp": "8MB"}
    problem = PlacementProblem.of(Fabric("tree", nodes, links), "MP3-PP2", ring="free", pp="multicast", volumes=volumes)
    halved = tuple(
        msgspec.structs.replace(demand, pattern="reduce-scatter") if demand.dimension == "mp" else demand
        for demand in problem.demands
    )
    return msgspec.structs.replace(problem, demands=halved)


def test_a_lower_bound_does_not_mislead_the_solver() -> None:
    """OR-tools 9.15 calls a worse value optimal here unless one step of its presolve is off (google/or-tools #5293)."""
    problem = misleading()
    instance = Instance(problem)
    optimum = reference.brute_force(problem)
    least = int(optimum.phases[0] / instance.unit)
    for lower in (0, least - least // 30, least):
        found, solution = answer(PlacementModel(instance, lower=[lower]))
        assert found is solve.Answer.OPTIMAL
        assert instance.exact_values(solution)[0] == list(optimum.phases), lower
    certificate = plan(problem, planner="exact", budget=budget()).certificate
    assert certificate.objective == optimum.objective
    assert certificate.bound <= optimum.objective
