from __future__ import annotations

import json
import random
from fractions import Fraction

import msgspec
import pytest
import random_problems
import reference

from fabric_plan.planner import files
from fabric_plan.planner.interface import Budget, plan, validate
from fabric_plan.planner.plan import Certificate, Key, PlacementPlan, Status
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.simulator import placement
from fabric_plan.planner.simulator.placement import check, objective_values, simulate
from fabric_plan.planner.simulator.report import PlacementReport


def loads(phase) -> dict[int, Fraction]:
    return dict(zip(phase.links, phase.loads, strict=True))


# Loads and values, against the reference


def compare(problem: PlacementProblem, seats, rings, table) -> None:
    expected = reference.evaluate(problem, seats, rings, table)
    assert expected is not None
    report = simulate(problem, seats, rings)
    assert report.hops == expected.hops
    assert [phase.name for phase in report.phases] == [demand.dimension for demand in problem.demands]
    for phase in report.phases:
        assert loads(phase) == expected.each[phase.name]
        assert phase.max_load == max(expected.each[phase.name].values())
        assert {expected.each[phase.name][link] for link in phase.hottest} == {phase.max_load}
    assert loads(report.together) == expected.together
    assert report.together.max_load == max(expected.together.values())
    values = objective_values(problem, report, seats, rings)
    assert values[problem.objective] == expected.objective
    assert values["hops"] == expected.hops
    sized = problem.demands[0].size is not None
    assert report.unit == ("s" if sized else "flows")
    assert (report.nominal_size is None) == sized
    for phase in (*report.phases, report.together):
        assert phase.seconds is not None
        if sized:
            assert phase.seconds >= phase.max_load


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_random_placements_of_random_problems(first: int) -> None:
    judged = 0
    for seed in range(first, first + 50):
        problem = random_problems.problem(seed)
        table = reference.route_table(problem.fabric)
        source = random.Random(seed)
        for _ in range(3):
            seats, rings = random_problems.placement(source, problem)
            if reference.evaluate(problem, seats, rings, table) is not None:
                compare(problem, seats, rings, table)
                judged += 1
    assert judged > 75


LARGER = [
    ("mesh:4x5", "MP3-DP3-PP2"),
    ("mesh:4x5", "MP2-DP2-PP5"),
    ("torus:4x4", "MP2-DP4-PP2"),
    ("torus:3x2x3", "CP3-EP2-DP3"),
    ("mesh:2x3x4", "MP2-CP2-EP2-DP3"),
    ("ring:9", "MP3-PP3"),
    ("full:8", "MP2-DP2-PP2"),
    ("hub:12", "EP4-PP3"),
    ("nvl72", "MP2-EP2-PP3"),
    ("fred-20", "MP2-DP5-PP2"),
]

MODES: list[dict] = [
    {},
    {"ring": "free", "direction": "both"},
    {"pp": "multicast"},
    {"pp": "multicast", "direction": "both", "concurrent": False},
    {"objective": "time", "sized": True},
    {"objective": "time", "sized": True, "concurrent": False, "pp": "multicast", "ring": "free"},
]


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(("fabric", "strategy"), LARGER)
def test_random_placements_on_catalog_fabrics(fabric: str, strategy: str, mode: dict) -> None:
    options = dict(mode)
    if options.pop("sized", False):
        sizes = {"mp": "3MB*4", "cp": "5MB", "ep": "1MB*2", "dp": Fraction(10**7, 3), "pp": "7MB*3"}
        options["volumes"] = {n: v for n, v in sizes.items() if n.upper() in strategy}
    problem = PlacementProblem.of(fabric, strategy, **options)
    seats, rings = random_problems.placement(random.Random(fabric + strategy), problem)
    pairs = {(a, b): reference.paths_of(problem.fabric, a, b) for a in seats for b in seats if a != b}
    compare(problem, seats, rings, pairs)


def test_parallel_links_share_flows() -> None:
    """Two flows over a double NVLink load each of its links with one."""
    problem = PlacementProblem.of("dgx1", "MP2")
    assert simulate(problem, (0, 1), {}).together.max_load == Fraction(1, 2)
    assert simulate(problem, (0, 2), {}).together.max_load == 1


def test_a_plane_carries_its_stripe() -> None:
    problem = PlacementProblem.of("nvl72", "PP2")
    report = simulate(problem, (0, 1), {})
    assert report.together.max_load == Fraction(1, 18)
    assert len(report.together.links) == report.hops == 36


def test_too_many_hops_leave_out_the_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PlacementProblem.of("mesh:2x2", "MP2-DP2")
    whole = simulate(problem, range(4), {})
    monkeypatch.setattr(placement, "MAX_TIMED_HOPS", 0)
    short = simulate(problem, range(4), {})
    assert short.together.seconds is None
    assert loads(short.together) == loads(whole.together)


# Plans that are not what they say


def solved(**options) -> PlacementPlan:
    problem = PlacementProblem.of("mesh:2x3", "MP3-DP2", **options)
    return plan(problem, planner="megatron", budget=Budget(seconds=30, workers=1, deterministic=True))


@pytest.fixture(scope="module")
def flows() -> PlacementPlan:
    """A plan with a gap."""
    found = plan(
        PlacementProblem.of("mesh:1x6", "MP3-PP2", direction="both"),
        planner="megatron",
        budget=Budget(seconds=30, workers=1, deterministic=True),
    )
    assert found.certificate.status is Status.FEASIBLE
    return found


@pytest.fixture(scope="module")
def rings() -> PlacementPlan:
    return solved(ring="free", volumes={"mp": "1MB", "dp": "3MB"}, concurrent=False)


replace = msgspec.structs.replace


def with_report(found: PlacementPlan, **changes) -> PlacementPlan:
    return replace(found, report=replace(found.report, **changes))


def with_key(found: PlacementPlan, index: int, **changes) -> PlacementPlan:
    keys = list(found.certificate.keys)
    keys[index] = replace(keys[index], **changes)
    return replace(found, certificate=replace(found.certificate, keys=tuple(keys)))


def refused(found: PlacementPlan, *words: str) -> None:
    """Check that a plan is refused, and that one of the faults holds all of some words."""
    faults = check(found)[1]
    assert any(all(word in fault for word in words) for fault in faults), faults
    assert validate(found)[1] == faults


def test_honest_plans_are_accepted(flows: PlacementPlan, rings: PlacementPlan) -> None:
    for found in (flows, rings):
        report, faults = check(found)
        assert faults == []
        assert report == found.report
        assert check(replace(found, report=None))[1] == []


def test_two_workers_on_a_seat(flows: PlacementPlan) -> None:
    seats = (flows.seats[0], flows.seats[0], *flows.seats[2:])
    refused(replace(flows, seats=seats), "workers 00 and 10 both sit on seat 0")
    assert check(replace(flows, seats=seats))[0] is None


@pytest.mark.parametrize("seat", [6, -1, 10**9])
def test_a_seat_off_the_fabric(flows: PlacementPlan, seat: int) -> None:
    refused(replace(flows, seats=(*flows.seats[:-1], seat)), f"worker 21 sits on seat {seat}", "(0 to 5)")


@pytest.mark.parametrize("seats", [(), (0, 1, 2, 3, 4), (0, 1, 2, 3, 4, 5, 0)])
def test_a_worker_without_a_seat_or_a_seat_without_a_worker(flows: PlacementPlan, seats: tuple[int, ...]) -> None:
    refused(replace(flows, seats=seats), f"seats: {len(seats)} given for the 6 workers")


def test_a_false_value(flows: PlacementPlan) -> None:
    value = flows.certificate.objective
    refused(with_key(flows, 0, value=value - 1, bound=None), f"stated as {value - 1}", f"finds {value}")


def test_a_false_hops_value(flows: PlacementPlan) -> None:
    at = [key.name for key in flows.certificate.keys].index("hops")
    refused(with_key(flows, at, value=Fraction(3)), "hops is stated as 3")
    refused(with_report(flows, hops=3), "report: 3 hops are stated")


def test_a_false_phase_value(rings: PlacementPlan) -> None:
    at = [key.name for key in rings.certificate.keys].index("congestion.dp")
    refused(with_key(rings, at, value=Fraction(0), bound=None), "congestion.dp is stated as 0")


def test_a_bound_above_the_value(flows: PlacementPlan) -> None:
    refused(with_key(flows, 0, bound=flows.certificate.objective + 1), "bound", "is above its value")


def test_a_bound_above_the_value_of_a_phase(rings: PlacementPlan) -> None:
    at = [key.name for key in rings.certificate.keys].index("congestion.mp")
    refused(with_key(rings, at, bound=Fraction(10)), "bound 10 on congestion.mp is above")


def test_optimal_without_the_bound(flows: PlacementPlan) -> None:
    certificate = replace(flows.certificate, status=Status.OPTIMAL)
    refused(replace(flows, certificate=certificate), "status optimal, but not every bound meets its value")


def test_a_met_bound_that_is_not_called_optimal(flows: PlacementPlan) -> None:
    refused(with_key(flows, 0, bound=flows.certificate.objective), "status feasible, but every bound meets")


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.UNKNOWN])
def test_a_status_that_denies_the_plan(flows: PlacementPlan, status: Status) -> None:
    """A plan in hand is a solution: infeasible and unknown cannot be said of it."""
    refused(replace(flows, certificate=replace(flows.certificate, status=status)), "status")


def test_an_objective_that_nobody_asked_for(flows: PlacementPlan) -> None:
    """Optimal of nothing: the objective must be among the values that the status is about."""
    quiet = with_key(flows, 0, asked=False, bound=None)
    refused(replace(quiet, certificate=replace(quiet.certificate, status=Status.OPTIMAL)), "certificate")


def test_a_value_in_the_wrong_unit(flows: PlacementPlan) -> None:
    refused(with_key(flows, 0, unit="s"), "congestion is stated in s")


@pytest.mark.parametrize(
    "changes", [{"unit": "s"}, {"discipline": "fluid"}, {"nominal_size": None}, {"nominal_size": 7}]
)
def test_a_report_that_misnames_what_its_numbers_mean(flows: PlacementPlan, changes: dict) -> None:
    refused(with_report(flows, **changes), "report: ")


def test_an_unknown_key_and_a_missing_one(flows: PlacementPlan) -> None:
    extra = Key(name="beauty", value=Fraction(1), bound=None, unit="", asked=False)
    certificate = flows.certificate
    refused(replace(flows, certificate=replace(certificate, keys=(*certificate.keys, extra))), "unknown key 'beauty'")
    for keys in ((), certificate.keys[1:], (extra,)):
        refused(replace(flows, certificate=replace(certificate, keys=keys)), "first key must be the objective")


def test_a_false_load_in_the_report(flows: PlacementPlan) -> None:
    together = flows.report.together
    less = replace(together, loads=(together.loads[0] - Fraction(1, 2), *together.loads[1:]))
    refused(with_report(flows, together=less), "together: link", "is said to carry")
    hidden = replace(together, links=together.links[1:], loads=together.loads[1:])
    refused(with_report(flows, together=hidden), "is said to carry 0")
    added = replace(together, links=(*together.links, 99), loads=(*together.loads, Fraction(1)))
    refused(with_report(flows, together=added), "link 99 is said to carry 1, it carries 0")
    lower = replace(together, max_load=Fraction(1, 7))
    refused(with_report(flows, together=lower), "largest load 1/7 is stated")


def test_wrong_phase_seconds(flows: PlacementPlan, rings: PlacementPlan) -> None:
    for found in (flows, rings):
        first, *others = found.report.phases
        quick = replace(first, seconds=first.seconds / 2)
        refused(
            with_report(found, phases=(quick, *others)), f"report: phase {first.name}: {first.seconds / 2} s are stated"
        )
        never = replace(first, seconds=None)
        refused(with_report(found, phases=(never, *others)), "s are stated")


def test_a_report_of_other_phases(flows: PlacementPlan) -> None:
    refused(with_report(flows, phases=flows.report.phases[:1]), "it must cover the phases mp, pp")
    refused(with_report(flows, phases=flows.report.phases[::-1]), "it must cover the phases mp, pp")


@pytest.mark.parametrize(
    ("ring", "reason"),
    [
        ([(0, 1, 1), (3, 4, 5)], "mp group 0: the order [0, 1, 1] does not list"),
        ([(0, 1, 2), (3, 4)], "mp group 1: the order [3, 4] does not list"),
        ([(3, 4, 5), (0, 1, 2)], "mp group 0: the order [3, 4, 5] does not list"),
        ([(0, 1, 2)], "mp has 2 groups, 1 orders are given"),
    ],
)
def test_a_wrong_ring_order(rings: PlacementPlan, ring: list, reason: str) -> None:
    refused(replace(rings, rings={**rings.rings, "mp": tuple(ring)}), reason)


def test_a_ring_order_that_was_not_asked_for_and_one_that_is_missing(
    flows: PlacementPlan, rings: PlacementPlan
) -> None:
    refused(replace(flows, rings={"mp": ((0, 1, 2), (3, 4, 5))}), "mp has a ring order, but its order is not free")
    refused(replace(rings, rings={"mp": rings.rings["mp"]}), "dp is free, but no ring order is given")


def test_another_ring_order_is_another_value() -> None:
    """On a row of three, the ring that goes there and back has load 1; the value that is stated is of that order."""
    problem = PlacementProblem.of("mesh:1x4", "MP4", ring="free")
    found = plan(problem, planner="exact", budget=Budget(seconds=30, workers=1, deterministic=True))
    assert found.certificate.objective == 1
    order = [found.seats.index(seat) for seat in (0, 1, 2, 3)]
    worse = (order[0], order[2], order[1], order[3])
    refused(replace(found, rings={"mp": (worse,)}, report=None), "congestion is stated as 1")


def test_a_false_claim_of_optimality_in_a_file_shows_in_its_digest(tmp_path, flows: PlacementPlan) -> None:
    """The simulator cannot know the optimum, so a bound raised to the value is caught by the digest."""
    files.write_plan(flows, tmp_path / "plan.json")
    content = json.loads((tmp_path / "plan.json").read_text())
    content["certificate"]["status"] = "optimal"
    content["certificate"]["keys"][0]["bound"] = content["certificate"]["keys"][0]["value"]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    again, faults = files.read_plan(tmp_path / "plan.json")
    assert check(again)[1] == []
    assert len(faults) == 1
    assert faults[0].startswith("digest: ")


def test_validate_fills_in_the_report(flows: PlacementPlan) -> None:
    checked, faults = validate(replace(flows, report=None))
    assert faults == []
    assert isinstance(checked.report, PlacementReport)
    assert checked == flows


def test_the_gap_is_of_the_first_open_key() -> None:
    keys = (
        Key(name="a", value=Fraction(2), bound=Fraction(2), unit="flows"),
        Key(name="b", value=Fraction(4), bound=Fraction(3), unit="flows"),
        Key(name="c", value=Fraction(9), bound=None, unit="links", asked=False),
    )
    certificate = Certificate(status=Status.FEASIBLE, keys=keys)
    assert (certificate.objective, certificate.bound, certificate.gap) == (2, 2, Fraction(1, 4))
    assert Certificate(status=Status.OPTIMAL, keys=(keys[0], keys[2])).gap == 0
    seconds = Key(name="time", value=Fraction(1, 100), bound=Fraction(1, 200), unit="s")
    assert Certificate(status=Status.FEASIBLE, keys=(seconds,)).gap == Fraction(1, 2)
    unbounded = Key(name="a", value=Fraction(2), bound=None, unit="flows")
    assert Certificate(status=Status.FEASIBLE, keys=(unbounded,)).gap is None
