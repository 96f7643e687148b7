"""Exports name the seat of every worker, and only that."""

from __future__ import annotations

import csv
import io
from fractions import Fraction

import pytest

from fabric_plan.planner import interface
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric, Link, Node, seat_at
from fabric_plan.planner.formats import csv_table, megatron
from fabric_plan.planner.plan import PlacementPlan
from fabric_plan.planner.problem import PlacementProblem


def planned(fabric: str | Fabric, strategy: str, planner: str = "mp-pp-dp") -> PlacementPlan:
    plan = interface.plan(PlacementProblem.of(fabric, strategy), planner=planner)
    assert isinstance(plan, PlacementPlan)
    return plan


def rows(plan: PlacementPlan) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_table.write_csv(plan).decode(), newline="")))


def odd() -> Fabric:
    """Return three NPUs with names that need care, the second of the nodes being a switch."""
    nodes = [Node("npu", 'a, "b"\nc'), Node("switch", "s"), Node("npu", "# x"), Node("npu", "")]
    links = [Link(*ends, 10**9, Fraction(0)) for npu in (0, 2, 3) for ends in ((npu, 1), (1, npu))]
    return Fabric("odd\nname", nodes, links)


def order(plan: PlacementPlan) -> list[list[str]]:
    lines = megatron.write_megatron_order(plan).decode().splitlines()
    return [line.split(" ") for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("fabric", "strategy"),
    [("mesh:4x5", "MP3-DP3-PP2"), ("torus:4x4x4", "MP12-DP5"), ("nvl72", "MP8-DP3-PP3"), ("dgx1", "MP2-EP2-DP2")],
)
def test_csv_gives_the_plan_back(fabric: str, strategy: str) -> None:
    plan = planned(fabric, strategy)
    strategy_ = plan.problem.strategy
    table = rows(plan)
    assert tuple(int(row["seat"]) for row in table) == plan.seats
    assert [int(row["rank"]) for row in table] == list(range(strategy_.workers))
    for row in table:
        digits = [int(row[name]) for name in strategy_.dimensions]
        assert strategy_.index(digits) == int(row["rank"])
        assert row["worker"] == strategy_.name(int(row["rank"]))
        node = plan.problem.fabric.seats[int(row["seat"])]
        assert row["node"] == plan.problem.fabric.nodes[node].name


def test_csv_header_and_positions() -> None:
    plan = planned("mesh:4x5", "MP3-DP3-PP2")
    assert csv_table.write_csv(plan).splitlines()[0] == b"worker,mp,dp,pp,rank,seat,node,position"
    for row in rows(plan):
        assert seat_at(tuple(map(int, row["position"].split(":"))), (4, 5)) == int(row["seat"])
    assert {row["position"] for row in rows(planned("dgx1", "MP4"))} == {""}


def test_csv_quotes_names() -> None:
    plan = planned(odd(), "MP3")
    found = {row["seat"]: row["node"] for row in rows(plan)}
    assert found == {"0": 'a, "b"\nc', "1": "# x", "2": ""}


@pytest.mark.parametrize("fabric", ["mesh:4x5", "nvl72"])
def test_megatron_order_gives_the_plan_back(fabric: str) -> None:
    plan = planned(fabric, "MP3-DP3-PP2")
    found = order(plan)
    assert [int(rank) for rank, _, _ in found] == list(range(18))
    assert tuple(int(seat) for _, seat, _ in found) == plan.seats
    names = [plan.problem.fabric.nodes[plan.problem.fabric.seats[seat]].name for seat in plan.seats]
    assert [name for _, _, name in found] == names


def test_megatron_ranks_have_tensor_parallelism_fastest() -> None:
    # For tensor 2, data 3 and pipeline 4, Megatron documents the first data-parallel group as ranks 0, 2, 4 and the
    # last one as 19, 21, 23.
    plan = planned("mesh:4x6", "MP2-DP3-PP4")
    strategy = plan.problem.strategy
    seat_of_rank = {int(rank): int(seat) for rank, seat, _ in order(plan)}
    worker_on = {seat: worker for worker, seat in enumerate(plan.seats)}
    for ranks, fixed in (((0, 2, 4), (0, 0)), ((19, 21, 23), (1, 3))):
        workers = [worker_on[seat_of_rank[rank]] for rank in ranks]
        assert [strategy.digit(worker, "dp") for worker in workers] == [0, 1, 2]
        assert {(strategy.digit(worker, "mp"), strategy.digit(worker, "pp")) for worker in workers} == {fixed}


def test_megatron_header_states_order_and_sizes() -> None:
    text = megatron.write_megatron_order(planned("mesh:4x5", "MP3-DP3-PP2")).decode()
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert any("tp-cp-ep-dp-pp" in line for line in head)
    assert any("--tensor-model-parallel-size 3 --pipeline-model-parallel-size 2" in line for line in head)
    assert "data-parallel size 4" in megatron.write_megatron_order(planned("dgx1", "MP2-EP2-DP2")).decode()


def test_megatron_lines_stay_lines() -> None:
    plan = planned(odd(), "MP3")
    found = order(plan)
    assert [len(line) for line in found] == [3, 3, 3]
    assert sorted(line[2] for line in found) == ["#_x", "_", 'a,_"b"_c']


def test_megatron_has_no_order_for_experts_and_context() -> None:
    with pytest.raises(InvalidInput, match="both CP and EP"):
        megatron.write_megatron_order(planned("mesh:4x5", "CP2-EP2", "megatron"))
    assert order(planned("mesh:4x5", "CP2-DP2", "megatron"))
