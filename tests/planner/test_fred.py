"""FRED's recursive switch: counts, configurations, and the walk that trusts nobody."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fabric_plan.planner.errors import InvalidPlan
from fabric_plan.planner.fred import Micro, configure, conflicts, levels, micro_switches, multiplexers
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk


def groups(*ports: tuple[int, ...]) -> list[SwitchFlow]:
    return [SwitchFlow(inputs=one, outputs=one) for one in ports]


def random_flows(source: random.Random, ports: int, most: int = 4, size: int = 3) -> list[SwitchFlow]:
    """Flows with inputs of their own and outputs of their own."""
    inputs, outputs = list(range(ports)), list(range(ports))
    source.shuffle(inputs)
    source.shuffle(outputs)
    flows = []
    while inputs and outputs and len(flows) < most:
        a, b = source.randint(1, min(size, len(inputs))), source.randint(1, min(size, len(outputs)))
        flows.append(SwitchFlow(inputs=tuple(inputs[:a]), outputs=tuple(outputs[:b])))
        inputs, outputs = inputs[a:], outputs[b:]
    return flows


def meeting_level(a: SwitchFlow, b: SwitchFlow, ports: int) -> int | None:
    """The first level at which two flows share an input or an output micro-switch; None: at no level with a letter."""
    for level in range(1, levels(ports) + 1):
        for mine, theirs in ((a.inputs, b.inputs), (a.outputs, b.outputs)):
            if {port >> level for port in mine} & {port >> level for port in theirs}:
                return level
    return None


@pytest.mark.parametrize(
    ("middles", "ports", "expected"),
    [
        (2, 8, 20), (2, 12, 40), (2, 16, 56), (2, 128, 832), (3, 8, 29), (3, 10, 67), (3, 11, 73), (3, 12, 75),
        (3, 16, 103), (3, 128, 3389), (4, 8, 40), (4, 12, 132),
    ],
)  # fmt: skip
def test_micro_switches(middles: int, ports: int, expected: int) -> None:
    assert micro_switches(middles, ports) == expected
    settings = configure(middles, ports, [], [])
    switches = [one for one in settings if one.side == "base" or min(one.inputs, one.outputs) > 1]
    assert len(switches) == expected
    assert len(settings) - len(switches) == multiplexers(middles, ports)
    assert {one.state for one in settings} == {"idle"}


def test_levels() -> None:
    assert [levels(ports) for ports in (2, 3, 4, 5, 8, 11, 12, 16, 128)] == [0, 1, 1, 2, 2, 3, 3, 3, 6]


@pytest.mark.parametrize("seed", range(40))
def test_words_that_differ_where_flows_meet_are_those_that_work(seed: int) -> None:
    """The rule of the words against the walk: each random assignment is right by both or wrong by both."""
    source = random.Random(seed)
    right = 0
    for _ in range(50):
        ports, middles = source.randint(2, 12), source.randint(2, 3)
        flows = random_flows(source, ports)
        words = [tuple(source.randrange(middles) for _ in range(levels(ports))) for _ in flows]
        pairs = conflicts(flows, ports)
        assert {(a, b): level for a, b, level in pairs} == {
            (a, b): level
            for a in range(len(flows))
            for b in range(a + 1, len(flows))
            if (level := meeting_level(flows[a], flows[b], ports)) is not None
        }
        fine = all(words[a][:level] != words[b][:level] for a, b, level in pairs)
        try:
            works = walk(middles, ports, configure(middles, ports, flows, words), flows) == []
        except InvalidPlan:
            works = False
        assert fine == works
        right += fine
    assert right


def test_states_of_micro_switches() -> None:
    """Port 0 and 1 add up; their sum goes to ports 2 and 3."""
    flow = SwitchFlow(inputs=(0, 1), outputs=(2, 3))
    states = {(one.path, one.side, one.index): one.state for one in configure(2, 4, [flow], [(1,)])}
    assert states[(), "in", 0] == "reduce"
    assert states[(), "out", 1] == "distribute"
    assert states[(1,), "base", 0] == "cross"
    assert states[(0,), "base", 0] == "idle"
    assert {one.state for one in configure(2, 2, groups((0, 1)), [()])} == {"reduce-distribute"}


@pytest.mark.parametrize("words", [[(0,), (0, 0)], [(0, 2), (0, 0)], [(0, -1), (0, 0)], [(0, 0), (0, 0, 0)]])
def test_words_of_the_wrong_form(words: list[tuple[int, ...]]) -> None:
    flows = groups((0, 1), (2, 3))
    with pytest.raises(InvalidPlan, match="must have 2 letters from 0 to 1"):
        configure(2, 8, flows, words)


def test_two_flows_on_a_wire_are_named() -> None:
    with pytest.raises(InvalidPlan, match="flows 0 and 1 both take middle network 0 at in micro-switch 1"):
        configure(2, 8, groups((0, 2), (3, 5)), [(0, 0), (0, 1)])


@pytest.mark.parametrize("seed", range(60))
def test_the_walk_finds_every_change(seed: int) -> None:
    """Turn one busy micro-switch to anything else: some output is wrong, or something is dropped."""
    source = random.Random(seed)
    flows = groups((0, 1, 5), (2, 3), (4, 7, 9, 10), (6, 8))
    ports, middles = 11, 3
    while True:
        words = [tuple(source.randrange(middles) for _ in range(levels(ports))) for _ in flows]
        if all(words[a][:level] != words[b][:level] for a, b, level in conflicts(flows, ports)):
            break
    settings = configure(middles, ports, flows, words)
    assert walk(middles, ports, settings, flows) == []
    place = source.choice([k for k, one in enumerate(settings) if one.connections])
    one = settings[place]
    kind = source.randrange(3)
    if kind == 0:
        changed: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = one.connections[1:]
    elif kind == 1:
        (inputs, outputs), *rest = one.connections
        changed = ((inputs, tuple((port + 1) % one.outputs for port in outputs)), *rest)
    else:
        (inputs, outputs), *rest = one.connections
        changed = ((tuple((port + 1) % one.inputs for port in inputs), outputs), *rest)
    if {(frozenset(a), frozenset(b)) for a, b in changed} == {(frozenset(a), frozenset(b)) for a, b in one.connections}:
        return  # one wire or two on both sides: turned into itself
    settings[place] = replace(one, connections=changed)
    assert walk(middles, ports, settings, flows)


def test_the_walk_wants_each_micro_switch_once() -> None:
    flows = groups((0, 3))
    settings = configure(2, 4, flows, [(0,)])
    assert "configured twice" in walk(2, 4, [*settings, settings[0]], flows)[0]
    assert any("not configured" in fault for fault in walk(2, 4, settings[1:], flows))
    odd = [replace(settings[0], outputs=5), *settings[1:]]
    assert any("it should be 2 x 2" in fault for fault in walk(2, 4, odd, flows))
    assert isinstance(settings[0], Micro)
