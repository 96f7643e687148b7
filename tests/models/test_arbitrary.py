"""Workers on any ports of a FRED switch: how often phases route, and placements that keep to what routes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace

import fabric_plan
from fabric_plan.models.routing.arbitrary import partitions, shares, ways
from fabric_plan.models.routing.prove import Prover, TwoLevelProver
from fabric_plan.planner import catalog, files, interface
from fabric_plan.planner.errors import Infeasible, InvalidInput, LimitReached
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.switch_flows import ORDERS, placed_phases, strategy_flows


def budget(seconds: float = 60) -> Budget:
    return Budget(seconds=seconds, workers=2)


@pytest.mark.parametrize(("ports", "size", "count"), [(6, 2, 3), (6, 3, 2), (7, 2, 2), (8, 3, 2), (9, 3, 3), (5, 2, 1)])
def test_partitions_come_once_each(ports: int, size: int, count: int) -> None:
    found = [frozenset(map(frozenset, one)) for one in partitions(range(ports), size, count)]
    assert len(found) == len(set(found)) == ways(ports, size, count)
    assert all(len(one) == count and len(frozenset().union(*one)) == size * count for one in found)


@pytest.mark.slow
def test_partitions_of_12_ports_into_threes() -> None:
    mp, dp = shares(Prover(3, 12, budget()), Strategy.parse("MP3-DP4"), samples=1, seed=0)
    assert (mp.tried, mp.failed, mp.unknown, mp.every) == (15_400, 1_920, 0, True)
    assert (dp.tried, dp.failed) == (5_775, 0)
    assert len(mp.core) == 4


def test_all_ways_on_a_small_switch_by_hand() -> None:
    """On fred2:6 three pairs conflict exactly when their pairs of ports form a triangle of the three micro-switches."""
    (share,) = shares(Prover(2, 6, budget()), Strategy.parse("MP2-DP3"), samples=1, seed=0)[:1]
    triangles = 0
    for groups in partitions(range(6), 2, 3):
        met = {frozenset(port >> 1 for port in group) for group in groups}
        triangles += met == {frozenset((0, 1)), frozenset((0, 2)), frozenset((1, 2))}
    assert (share.tried, share.failed, share.every) == (15, triangles, True)
    assert triangles == 8


def test_random_placements_of_20_workers() -> None:
    """The MP phase of MP5-DP4 on Fred_3(20) fails in 27 % of the placements: a sample must be within its noise."""
    (mp,) = shares(Prover(3, 20, budget()), Strategy.parse("MP5"), samples=1, seed=3)[:1]
    assert not mp.every or mp.failed == 0
    mp, _ = shares(Prover(3, 20, budget()), Strategy.parse("MP5-DP4"), samples=300, seed=1)
    assert not mp.every and mp.tried == 300
    assert abs(mp.failed / mp.tried - 0.27) < 2 * mp.error + 0.01
    assert mp.witness and len(mp.core) >= 4


@pytest.mark.parametrize("name", ["MP5-DP4", "MP5-DP3", "DP4-PP5", "MP3-DP3-PP2"])
def test_place_keeps_every_phase_routable(name: str, tmp_path: Path) -> None:
    plan = fabric_plan.plan(
        PlacementProblem.of("fred-20", name), planner="mp-pp-dp" if name == "MP3-DP3-PP2" else "auto", budget=budget(20)
    )
    assert [one.name for one in plan.switched] == [phase for phase, _ in placed_phases(plan.problem, plan.seats)]
    path = tmp_path / "plan.json"
    files.write_plan(plan, str(path))
    again, faults = files.read_plan(str(path))
    assert faults == []
    assert interface.validate(again)[1] == []
    # A routing of other seats is no routing of these.
    other = replace(plan, seats=(*plan.seats[1:], plan.seats[0]))
    assert any(fault.startswith("switched: ") for fault in interface.validate(other)[1])
    assert any("must be given a routing" in fault for fault in interface.validate(replace(plan, switched=()))[1])


def test_the_papers_order_is_no_plan_where_it_does_not_route() -> None:
    with pytest.raises(Infeasible, match="does not route through fred-20: phase dp"):
        fabric_plan.plan(PlacementProblem.of("fred-20", "MP5-DP4"), planner="mp-pp-dp", budget=budget())


def test_a_placement_that_the_search_finds_first_may_not_route() -> None:
    """With two middle networks the paper's order fails for DP2-PP3, another routes, and the plan is that one."""
    plan = fabric_plan.plan(PlacementProblem.of("fred2:6", "DP2-PP3"), budget=budget())
    assert plan.certificate.status == "optimal"
    flows = dict(placed_phases(plan.problem, plan.seats))["dp"]
    assert Prover(2, 6, budget()).verdict(flows) == "routes"
    assert Prover(2, 6, budget()).verdict(strategy_flows(Strategy.parse("DP2-PP3"), "dp")) == "conflicts"


def test_collectives_that_run_in_steps_and_gradients_that_go_back() -> None:
    problem = PlacementProblem.of("fred3:12", "EP2-PP3-CP2", direction="both")
    names = [name for name, _ in placed_phases(problem, range(12))]
    assert {"pp", "pp.back", "ep.0", "cp.0", "cp.1"} == set(names)
    plan = fabric_plan.plan(problem, budget=budget(20))
    assert interface.validate(plan)[1] == []


def test_no_switch_no_routing() -> None:
    plan = fabric_plan.plan(PlacementProblem.of("mesh:2x2", "MP2-DP2"), budget=budget())
    assert plan.switched == ()
    routed = fabric_plan.plan(PlacementProblem.of("fred3:4", "MP2-DP2"), budget=budget())
    assert any("no FRED switch" in one for one in interface.validate(replace(plan, switched=routed.switched))[1])


@pytest.mark.parametrize("name", ["fred1:8", "fred3:1", "fred:8", "fred3:x", "fred3:4x4"])
def test_fabrics_that_are_no_fred_switch(name: str) -> None:
    with pytest.raises(InvalidInput):
        catalog.build(name)


def test_where_nothing_routes_nothing_is_claimed() -> None:
    """Sixteen pairs that each way of sitting puts through two middle networks: found, or said to be not found."""
    source = random.Random(5)
    for _ in range(3):
        strategy = source.choice(["MP2-DP4-PP2", "MP4-DP4", "DP8-PP2"])
        try:
            plan = fabric_plan.plan(PlacementProblem.of("fred2:16", strategy), budget=budget(10))
        except LimitReached as error:
            assert "more middle networks" in str(error)
        else:
            assert interface.validate(plan)[1] == []


@pytest.mark.slow
def test_two_level_arbitrary() -> None:
    found = shares(TwoLevelProver(budget()), Strategy.parse("MP5-DP4"), samples=20, seed=0)
    assert all(one.tried == 20 and one.unknown == 0 for one in found)
    assert ORDERS
