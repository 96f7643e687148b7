"""The joint word model: the truth page's examples, brute force, ways out, protocols, and strategies."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction
from typing import Any

import pytest

import fabric_plan
from fabric_plan.models.routing.planners import conflicting_set
from fabric_plan.models.routing.protocols import dsatur, exactly, first_fit, level_by_level
from fabric_plan.models.routing.prove import Prover
from fabric_plan.models.routing.words import Joint
from fabric_plan.planner.errors import Infeasible, LimitReached
from fabric_plan.planner.fred import configure, conflicts, levels
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.plan import Status
from fabric_plan.planner.problem import RoutingProblem, SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk
from fabric_plan.planner.simulator.routing import check
from fabric_plan.planner.switch_flows import ORDERS, parse_groups, steps_of

BUDGET = {"seconds": 60.0, "workers": 2}


def budget() -> Budget:
    return Budget(seconds=60, workers=2)


def solve(middles: int, ports: int, text: str, allow: Any = "nothing") -> Any:
    problem = RoutingProblem(middles=middles, ports=ports, flows=tuple(parse_groups(text)), allow=allow)
    return fabric_plan.plan(problem, budget=budget())


def routed(middles: int, ports: int, flows: list[SwitchFlow]) -> bool:
    """Whether the joint model routes; its words are walked."""
    found = Joint(flows, ports, middles).solve(budget())
    if found.answer == "infeasible":
        return False
    words = [word or () for word in found.words]
    assert walk(middles, ports, configure(middles, ports, flows, words), flows) == []
    return True


EXAMPLES = [
    (8, 2, "0-2;3-5", True),
    (8, 2, "0-2;3,4;5-7", True),
    (8, 2, "1,2;0,4;3,5;6,7", False),
    (8, 3, "1,2;0,4;3,5;6,7", True),
    (11, 2, "2,4;0,8;6,10", True),
    (7, 2, "0>0;2,4>4;6>2", True),
    (23, 3, "0,4,8;2,12,16;6,14,20;10,18,22", True),
    (12, 2, "4,5,9;0,1,6;2,8;7,10;3,11", False),
    (12, 3, "0,2,4;1,6,8;3,7,10;5,9,11", False),
    (12, 4, "0,2,4;1,6,8;3,7,10;5,9,11", True),
    (8, 3, "0,2,4>4;1,6>0;3,7>3;5>1,2", False),
    (8, 4, "0,2,4>4;1,6>0;3,7>3;5>1,2", True),
]


@pytest.mark.parametrize(("ports", "middles", "text", "expected"), EXAMPLES)
def test_examples(ports: int, middles: int, text: str, expected: bool) -> None:
    assert routed(middles, ports, parse_groups(text)) == expected
    if expected:
        assert solve(middles, ports, text).certificate.status == "optimal"
    else:
        with pytest.raises(Infeasible) as error:
            solve(middles, ports, text)
        assert error.value.core


@pytest.mark.parametrize(
    ("ports", "middles", "text", "blocked", "phases", "moves", "least"),
    [
        (8, 2, "1,2;0,4;3,5;6,7", 1, 2, 2, 3),
        (12, 3, "0,2,4;1,6,8;3,7,10;5,9,11", 1, 2, 2, 4),
        (12, 2, "0,2,4;1,6,8;3,7,10;5,9,11", 2, 2, 2, 4),
    ],
)
def test_ways_out(ports: int, middles: int, text: str, blocked: int, phases: int, moves: int, least: int) -> None:
    for allow, expected in (("block", blocked), ("phases", phases), ("move", moves), ("middle", least)):
        plan = solve(middles, ports, text, allow)
        assert plan.certificate.status == "optimal", allow
        assert plan.certificate.objective == expected, allow
    decomposed = solve(middles, ports, text, "decompose")
    assert decomposed.certificate.objective >= decomposed.certificate.bound >= 1


def test_the_smallest_conflicting_set_is_the_triangle() -> None:
    flows = parse_groups("1,2;0,4;3,5;6,7")
    assert conflicting_set(flows, 8, 2, budget()) == (0, 1, 2)


@pytest.mark.parametrize(
    ("ports", "middles", "text"), [(11, 2, EXAMPLES[4][2]), (7, 2, EXAMPLES[5][2]), (23, 3, EXAMPLES[6][2])]
)
def test_level_by_level_reports_conflicts_that_are_none(ports: int, middles: int, text: str) -> None:
    flows = parse_groups(text)
    for colour in (first_fit, dsatur, exactly(budget())):
        assert level_by_level(flows, ports, middles, colour) is None
    assert routed(middles, ports, flows)
    problem = RoutingProblem(middles=middles, ports=ports, flows=tuple(flows))
    with pytest.raises(LimitReached, match="proves nothing"):
        fabric_plan.plan(problem, planner="dsatur", budget=budget())


def brute_force(flows: list[SwitchFlow], ports: int, middles: int) -> bool:
    every = itertools.product(itertools.product(range(middles), repeat=levels(ports)), repeat=len(flows))
    pairs = conflicts(flows, ports)
    return any(all(words[a][:level] != words[b][:level] for a, b, level in pairs) for words in every)


def random_flows(source: random.Random, ports: int, most: int, size: int) -> list[SwitchFlow]:
    inputs, outputs = list(range(ports)), list(range(ports))
    source.shuffle(inputs)
    source.shuffle(outputs)
    flows: list[SwitchFlow] = []
    while inputs and outputs and len(flows) < most:
        a, b = source.randint(1, min(size, len(inputs))), source.randint(1, min(size, len(outputs)))
        flows.append(SwitchFlow(inputs=tuple(inputs[:a]), outputs=tuple(outputs[:b])))
        inputs, outputs = inputs[a:], outputs[b:]
    return flows


def against_brute_force(seeds: range) -> int:
    refused = 0
    for seed in seeds:
        source = random.Random(seed)
        ports = source.randint(4, 9)
        middles = 2 if ports > 4 and source.random() < 0.8 else 3
        most = {1: 5, 2: 4, 3: 3}[levels(ports)] if middles == 3 else {1: 6, 2: 5, 3: 4}[levels(ports)]
        flows = random_flows(source, ports, most, 3)
        expected = brute_force(flows, ports, middles)
        assert routed(middles, ports, flows) == expected, seed
        refused += not expected
    return refused


def test_brute_force() -> None:
    assert against_brute_force(range(200)) > 5


@pytest.mark.slow
def test_brute_force_on_two_thousand() -> None:
    assert against_brute_force(range(2000)) > 50


@pytest.mark.parametrize("ports", [16, 33, 64, 100, 128])
def test_large_random_workloads_walk(ports: int) -> None:
    source = random.Random(ports)
    for _ in range(3):
        places = list(range(ports))
        source.shuffle(places)
        flows = [
            SwitchFlow(inputs=tuple(one), outputs=tuple(one)) for one in (places[k : k + 4] for k in range(0, ports, 4))
        ]
        assert isinstance(routed(3, ports, flows), bool)


@pytest.mark.parametrize("seed", range(30))
def test_unicast_permutations_route_with_two_middles(seed: int) -> None:
    source = random.Random(seed)
    ports = source.randint(2, 40)
    targets = list(range(ports))
    source.shuffle(targets)
    assert routed(2, ports, [SwitchFlow(inputs=(a,), outputs=(b,)) for a, b in enumerate(targets)])


@pytest.mark.parametrize("seed", range(20))
def test_unicast_arrives_in_any_order_with_three_middles(seed: int) -> None:
    """Flows come and go; each new one finds a word without moving those that are there."""
    source = random.Random(seed)
    ports = source.randint(4, 16)
    every = list(itertools.product(range(3), repeat=levels(ports)))
    there: dict[tuple[int, int], tuple[int, ...]] = {}
    for _ in range(60):
        free_in = [p for p in range(ports) if all(p != a for a, _ in there)]
        free_out = [p for p in range(ports) if all(p != b for _, b in there)]
        if not free_in or (there and source.random() < 0.3):
            del there[source.choice(list(there))]
            continue
        new = source.choice(free_in), source.choice(free_out)
        flows = [SwitchFlow(inputs=(a,), outputs=(b,)) for a, b in (*there, new)]
        mine = len(there)
        pairs = [(a, level) for a, b, level in conflicts(flows, ports) if b == mine]
        words = list(there.values())
        there[new] = next(word for word in every if all(words[a][:level] != word[:level] for a, level in pairs))


@pytest.mark.parametrize("ports", [4, 7, 12, 13, 20])
def test_groups_always_route_with_enough_middles_and_not_with_fewer(ports: int) -> None:
    middles = {4: 2, 7: 3, 12: 4, 13: 4, 20: 5}[ports]
    # The worst case: a clique of groups, every two of which share one input micro-switch.
    pairs = list(itertools.combinations(range(middles), 2))
    members: dict[int, list[int]] = {k: [] for k in range(middles)}
    for block, (a, b) in enumerate(pairs):
        members[a].append(2 * block)
        members[b].append(2 * block + 1)
    flows = [SwitchFlow(inputs=tuple(one), outputs=tuple(one)) for one in members.values()]
    assert routed(middles, ports, flows)
    if middles > 2:
        assert not routed(middles - 1, ports, flows)


@pytest.mark.parametrize("ports", [5, 8, 12])
def test_every_strategy_routes_on_fred_3_in_every_order(ports: int) -> None:
    cases = Prover(3, ports, budget()).cases(ORDERS)
    assert {case.verdict for case in cases} == {"routes"}


def test_fred_2_first_fails_at_six_ports() -> None:
    for ports in (2, 3, 4, 5):
        assert all(case.verdict == "routes" for case in Prover(2, ports, budget()).cases(["mp-pp-dp"]))
    failing = [case for case in Prover(2, 6, budget()).cases(["mp-pp-dp"]) if case.verdict == "conflicts"]
    # Both make the same flows: {0,3} {1,4} {2,5}.
    assert [(str(case.strategy), case.phase) for case in failing] == [("MP1-DP2-PP3", "dp"), ("MP3-DP2-PP1", "dp")]
    assert failing[0].core == (0, 1, 2)


@pytest.mark.slow
def test_all_strategies_up_to_24_ports() -> None:
    failing = cases = 0
    for ports in range(2, 25):
        prover = Prover(2, ports, budget())
        for case in prover.cases(["mp-pp-dp"], explain=False):
            if case.phase == "dp":
                cases += 1
                failing += case.verdict == "conflicts"
            else:
                assert case.verdict == "routes"
        assert all(case.verdict == "routes" for case in Prover(3, ports, budget()).cases(ORDERS))
    assert (failing, cases) == (367, 1060)


def test_compound_collectives_run_in_steps() -> None:
    groups = [(0, 1, 2), (3, 4)]
    for pattern, count in (("reduce-scatter", 3), ("all-gather", 3), ("scatter", 2), ("gather", 2), ("all-to-all", 2)):
        steps = steps_of(pattern, groups)
        assert len(steps) == count
        for step in steps:
            assert routed(2, 8, step)


def test_altered_plans_are_refused() -> None:
    import msgspec

    plan = solve(2, 8, "0-2;3,4;5-7")
    assert check(plan)[1] == []
    changes: list[dict[str, Any]] = [
        {"words": ((0, 0), (0, 0), (0, 0))},
        {"words": ((0, 0), (0,), (0, 0))},
        {"words": (None, *plan.words[1:])},
        {"middles": 3},
        {"rounds": (0, 1, 0)},
        {"origins": (0, 1, 1)},
        {"flows": (*plan.flows[:2], SwitchFlow(inputs=(5, 6), outputs=(5, 6)))},
        {"moves": ((0, 1), (1, 0))},
        {"certificate": msgspec.structs.replace(plan.certificate, status=Status.FEASIBLE)},
        {"certificate": msgspec.structs.replace(plan.certificate, keys=(msgspec.structs.replace(plan.certificate.keys[0], value=Fraction(1)),))},
    ]  # fmt: skip
    for change in changes:
        assert check(msgspec.structs.replace(plan, **change))[1], change
