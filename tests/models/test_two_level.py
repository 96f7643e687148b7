"""The two-level FRED fabric: routings walked from NPU to NPU, and the strategies whose paper order fails."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace

from fabric_plan.models.routing.prove import TwoLevelProver
from fabric_plan.models.routing.two_level import route_two_level
from fabric_plan.planner.errors import InvalidInput, InvalidPlan
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk_two_level
from fabric_plan.planner.switch_flows import ORDERS, parse_groups, strategy_flows


def budget() -> Budget:
    return Budget(seconds=60, workers=2)


def routes(flows: list[SwitchFlow]) -> bool:
    found = route_two_level(flows, budget())
    assert found.answer in ("optimal", "infeasible")
    if found.answer == "infeasible":
        return False
    assert walk_two_level(3, found.chiplets, flows) == []
    return True


FAILING = ["MP5-DP4-PP1", "MP5-DP3-PP1", "MP1-DP4-PP5", "MP1-DP3-PP5"]


@pytest.mark.parametrize("name", FAILING)
def test_where_the_papers_order_fails_another_routes(name: str) -> None:
    strategy = Strategy.parse(name)
    assert not routes(strategy_flows(strategy, "dp"))
    assert routes(strategy_flows(strategy, "mp")) and routes(strategy_flows(strategy, "pp"))
    prover = TwoLevelProver(budget())
    assert any(prover._all_phases(strategy, order) for order in ORDERS)


@pytest.mark.parametrize("name", ["MP3-DP3-PP2", "MP2-DP5-PP2", "MP4-DP5-PP1", "MP20-DP1-PP1", "MP1-DP20-PP1"])
@pytest.mark.parametrize("multicast", [False, True])
def test_usual_strategies_route(name: str, multicast: bool) -> None:
    for phase in ("mp", "pp", "dp"):
        assert routes(strategy_flows(Strategy.parse(name), phase, multicast=multicast))


@pytest.mark.slow
def test_exactly_four_strategies_fail_in_the_papers_order() -> None:
    cases = TwoLevelProver(budget()).cases(["mp-pp-dp"], explain=False)
    assert sorted(str(one.strategy) for one in cases if one.verdict != "routes") == sorted(FAILING)
    assert {one.phase for one in cases if one.verdict != "routes"} == {"dp"}


@pytest.mark.slow
def test_every_strategy_has_an_order_that_routes() -> None:
    assert None not in TwoLevelProver(budget()).good_orders(ORDERS).values()


@pytest.mark.parametrize("seed", range(25))
def test_random_flows_walk(seed: int) -> None:
    source = random.Random(seed)
    inputs, outputs = list(range(20)), list(range(20))
    source.shuffle(inputs)
    source.shuffle(outputs)
    flows = []
    while inputs and outputs and len(flows) < 5:
        a, b = source.randint(1, min(4, len(inputs))), source.randint(1, min(4, len(outputs)))
        flows.append(SwitchFlow(inputs=tuple(inputs[:a]), outputs=tuple(outputs[:b])))
        inputs, outputs = inputs[a:], outputs[b:]
    assert isinstance(routes(flows), bool)


def test_the_walk_misses_what_a_chiplet_leaves_out() -> None:
    flows = parse_groups("0,4,8;1,5,9;2,3")
    found = route_two_level(flows, budget())
    left_out = 0
    for place, chiplet in enumerate(found.chiplets):
        if chiplet.flows:
            short = replace(chiplet, flows=chiplet.flows[1:], words=chiplet.words[1:], origins=chiplet.origins[1:])
            assert walk_two_level(3, [*found.chiplets[:place], short, *found.chiplets[place + 1 :]], flows)
            left_out += 1
    assert left_out >= 4  # three L1 chiplets, and at least one L2


def test_two_flows_on_one_wire_of_a_chiplet() -> None:
    flows = parse_groups("0,4;1,5")
    found = route_two_level(flows, budget())
    for place, chiplet in enumerate(found.chiplets):
        if len(chiplet.flows) > 1:
            # All flows of an L1 chiplet come in over NPUs 0 and 1 or go out to them: one word cannot serve all.
            same = replace(chiplet, words=(chiplet.words[0],) * len(chiplet.words))
            with pytest.raises(InvalidPlan, match="both take middle network"):
                walk_two_level(3, [*found.chiplets[:place], same, *found.chiplets[place + 1 :]], flows)
            return
    raise AssertionError("both flows cross L1, so some chiplet has two")


def test_io_controllers_are_ends_too() -> None:
    """Weights stream in from controllers, gradients are reduced out to them (FRED paper, section 6.2.2)."""
    assert routes(parse_groups("20>0-19"))
    assert routes(parse_groups("0-19>37"))
    assert routes(parse_groups("20>0-3;24>4-7;28>8-11;32>12-15;35>16-19"))
    assert not routes(parse_groups("20>4;21>5;22>6;23>7;0>8"))  # five flows over the four uplinks of an L1


def test_flows_left_out_and_rounds() -> None:
    flows = parse_groups("20>4;21>5;22>6;23>7;0>8")
    assert route_two_level(flows, budget()).answer == "infeasible"
    left = route_two_level(flows, budget(), block=True)
    assert left.answer == "optimal" and left.bound == 1 and left.rounds.count(None) == 1
    served = [flow for flow, turn in zip(flows, left.rounds, strict=True) if turn is not None]
    assert walk_two_level(3, left.chiplets, served) == []
    two = route_two_level(flows, budget(), rounds=2)
    assert two.answer == "optimal" and set(two.rounds) == {0, 1}
    for turn, chiplets in enumerate(two.turns):
        served = [flow for flow, at in zip(flows, two.rounds, strict=True) if at == turn]
        assert walk_two_level(3, chiplets, served) == []


def test_an_end_that_does_not_exist() -> None:
    with pytest.raises(InvalidInput, match="there is no end 38"):
        route_two_level(parse_groups("0,38"), budget())
