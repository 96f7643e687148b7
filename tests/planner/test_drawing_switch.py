"""Pictures of routings: every micro-switch and every wire in use, once."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

import fabric_plan
from fabric_plan.planner.drawing import svg, switch
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fred import configure, levels
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.plan import RoutingPlan
from fabric_plan.planner.switch_flows import parse_groups, switch_problem


def routed(name: str, groups: str, allow: str = "nothing") -> RoutingPlan:
    plan = fabric_plan.plan(switch_problem(name, parse_groups(groups), allow), budget=Budget(seconds=30, workers=2))  # type: ignore[arg-type]
    assert isinstance(plan, RoutingPlan)
    return plan


@pytest.mark.parametrize(
    ("name", "groups"),
    [("fred3:11", "0-2;3,4,8,9;5-7>10"), ("fred2:2", "0,1"), ("fred2:3", "0,2"), ("fred3:16", "0-15")],
)
def test_every_switch_and_every_wire(name: str, groups: str) -> None:
    plan = routed(name, groups)
    picture = switch.scene(plan)
    settings = configure(plan.middles, plan.problem.ports, plan.flows, [word or () for word in plan.words])
    states = [cell for cell in picture.cells if ": " in cell.title]
    assert len(states) == len(settings)
    assert sum(cell.colour is None for cell in states) == sum(one.state == "idle" for one in settings)
    # A flow has, level by level, a wire from each outer port that it holds.
    expected = 0
    for flow in plan.flows:
        for side in (flow.inputs, flow.outputs):
            expected += sum(len({port >> level for port in side}) for level in range(levels(plan.problem.ports) + 1))
    assert sum(bool(stroke.links) for stroke in picture.strokes) == expected
    root = ElementTree.fromstring(svg.standalone(picture))
    assert root.tag.endswith("svg")
    assert b"<table>" in switch.write_html(plan, svg.render(picture))


def test_every_micro_switch_stands_alone() -> None:
    picture = switch.scene(routed("fred3:12", "0-2;3,4;5-7"))
    places = [cell.middle for cell in picture.cells if ": " in cell.title]
    assert len(set(places)) == len(places)
    assert all(0 < x < picture.width and 0 < y < picture.height for x, y in places)


def test_rounds_and_chiplets_have_panels() -> None:
    plan = routed("fred2:8", "1,2;0,4;3,5;6,7", "phases")
    assert [one.title for one in switch.panels(plan)] == ["round 0, fred2(8)", "round 1, fred2(8)"]
    two = routed("fred-20", "0,4;8,9")
    names = [one.title.split(":")[0] for one in switch.panels(two)]
    assert {"l1.0", "l1.1", "l1.2"} <= set(names) and any(name.startswith("l2.") for name in names)
    assert "l1.0" in switch.write_html(two, "").decode()


def test_a_switch_too_large_to_draw() -> None:
    with pytest.raises(InvalidInput, match="too many to draw"):
        switch.scene(routed("fred3:256", "0,1"))
