"""Flows of switches from groups, files and strategies; graphs in DIMACS format."""

from __future__ import annotations

import pytest

from fabric_plan.planner.errors import InvalidInput, InvalidProblem
from fabric_plan.planner.formats.dimacs import parse_col
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import RoutingProblem, SwitchFlow
from fabric_plan.planner.switch_flows import parse_flows, parse_groups, parse_switch, strategy_flows


def test_groups_and_flows() -> None:
    assert parse_groups("0-2;3,4") == [
        SwitchFlow(inputs=(0, 1, 2), outputs=(0, 1, 2)),
        SwitchFlow(inputs=(3, 4), outputs=(3, 4)),
    ]
    assert parse_groups("0-2>4;3>0,1")[1] == SwitchFlow(inputs=(3,), outputs=(0, 1))


def test_a_flow_file() -> None:
    text = b'{"switch": "fred3:8", "flows": [{"group": [0, 1]}, {"inputs": [2], "outputs": [3, 4]}]}'
    switch, flows = parse_flows(text, "f.json")
    assert switch == "fred3:8"
    assert flows == parse_groups("0,1;2>3,4")


def test_phases_of_a_strategy() -> None:
    strategy = Strategy.parse("MP2-DP2-PP2")
    groups = {phase: sorted(one.inputs for one in strategy_flows(strategy, phase)) for phase in ("mp", "dp")}
    assert groups == {"mp": [(0, 1), (2, 3), (4, 5), (6, 7)], "dp": [(0, 4), (1, 5), (2, 6), (3, 7)]}
    one = strategy_flows(strategy, "pp")
    assert sorted((flow.inputs, flow.outputs) for flow in one) == [((k,), (k + 2,)) for k in (0, 1, 4, 5)]
    many = strategy_flows(strategy, "pp", multicast=True)
    assert sorted((flow.inputs, flow.outputs) for flow in many) == [((0,), (2, 3)), ((4,), (6, 7))]
    assert strategy_flows(Strategy.parse("MP4"), "dp") == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fred3", "expected fredM:P"),
        ("fred1:8", "at least 2 middle networks"),
        ("fred3:1", "at least 2 middle networks and 2 ports"),
        ("fred3:999999", "more than 65,536 ports"),
        ("clos3:8", "expected fredM:P"),
    ],
)
def test_bad_switches(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_switch(text)


@pytest.mark.parametrize("text", ["", "a", "0-", "3-1", "0;;1", "0>", ">0", "-1"])
def test_bad_groups(text: str) -> None:
    with pytest.raises(InvalidInput, match="groups"):
        parse_groups(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "f.json: not a flow file"),
        ('{"flows": [{"ports": [1]}]}', "unknown field `ports`"),
        ('{"flows": [{"inputs": [1]}]}', r"flows\[0\]: expected a group, or inputs and outputs"),
        ('{"flows": [{"group": [1], "inputs": [1]}]}', r"flows\[0\]: expected a group"),
        ('{"flows": [{"group": []}]}', r"flows\[0\]: flow: it has no inputs"),
        ('{"flows": [{"group": [1, 1]}]}', r"flows\[0\]: flow: a port is named twice"),
    ],
)
def test_bad_flow_files(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_flows(text.encode(), "f.json")


@pytest.mark.parametrize(
    ("groups", "message"), [("0,1;1,2", "port 1 is already among the inputs"), ("0,8", "port 8 does not exist")]
)
def test_bad_problems(groups: str, message: str) -> None:
    with pytest.raises(InvalidProblem, match=message):
        RoutingProblem(middles=2, ports=8, flows=tuple(parse_groups(groups)))


def test_dimacs() -> None:
    graph = parse_col("c a path\np edge 3 2\ne 1 2\ne 2 1\ne 2 3\n", "g.col")
    assert graph == [{1}, {0, 2}, {1}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no problem line"),
        ("e 1 2\n", "line 1: an edge before"),
        ("p edge 3\n", "line 1: expected 'p edge"),
        ("p edge 3 1\ne 1 4\n", "line 2: vertices go from 1 to 3"),
        ("p edge 3 1\ne 2 2\n", "line 2: vertex 2 is joined to itself"),
        ("p edge 3 1\ne 1\n", "line 2: expected 'e U V'"),
        ("p edge 3 1\nz\n", "line 2: unknown line 'z'"),
        ("p edge 3 1\np edge 3 1\n", "line 2: a second problem line"),
        ("p edge 9999999 1\n", "more than can be coloured"),
    ],
)
def test_bad_graphs(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse_col(text, "g.col")
