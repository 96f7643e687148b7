"""The judge of routings: every round walked through the configured switch, and every flow accounted for."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from fabric_plan.planner.errors import InvalidPlan
from fabric_plan.planner.fred import configure, levels, micro_switches
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk, walk_two_level
from fabric_plan.planner.simulator.report import RoutingReport

if TYPE_CHECKING:
    from fabric_plan.planner.plan import RoutingPlan

OBJECTIVES = {
    "nothing": ("blocked", "flows"),
    "block": ("blocked", "flows"),
    "phases": ("phases", "rounds"),
    "move": ("moved", "workers"),
    "middle": ("middles", "networks"),
    "decompose": ("decomposed", "collectives"),
}
"""What is least, by what is allowed: the certificate's key and its unit."""


def check(plan: RoutingPlan) -> tuple[RoutingReport | None, list[str]]:
    """Walk a plan and return (report, violations): no violation means that the plan is valid."""
    faults = _shape_faults(plan) or _flow_faults(plan)
    if faults:
        return None, faults
    if plan.problem.fabric:
        return _two_level(plan)
    states = []
    for turn in range(max(plan.rounds, default=0) + 1):
        served = [k for k in range(len(plan.flows)) if plan.words[k] is not None and plan.rounds[k] == turn]
        flows = [plan.flows[k] for k in served]
        try:
            settings = configure(plan.middles, plan.problem.ports, flows, [plan.words[k] or () for k in served])
        except InvalidPlan as error:
            return None, [f"words: round {turn}: {error}"]
        faults += [f"walk: round {turn}: {fault}" for fault in walk(plan.middles, plan.problem.ports, settings, flows)]
        switches = [one for one in settings if one.side == "base" or min(one.inputs, one.outputs) > 1]
        states.append(dict(sorted(Counter(one.state for one in switches).items())))
    report = RoutingReport(
        micro_switches=micro_switches(plan.middles, plan.problem.ports),
        states=tuple(states),
        bits=configuration_bits(plan.middles, plan.problem.ports),
    )
    faults += _certificate_faults(plan)
    if plan.report is not None and plan.report != report:
        faults.append("report: it does not say what the walk finds")
    return report, faults


def _two_level(plan: RoutingPlan) -> tuple[RoutingReport | None, list[str]]:
    """Walk every round of a routing through the chiplets of a slice."""
    turns = max(plan.rounds, default=0) + 1
    if len(plan.chiplets) != turns:
        return None, [f"chiplets: given for {len(plan.chiplets)} rounds, there are {turns}"]
    states, faults = [], []
    for turn, chiplets in enumerate(plan.chiplets):
        served = [
            flow
            for flow, word, at in zip(plan.flows, plan.words, plan.rounds, strict=True)
            if word is not None and at == turn
        ]
        try:
            faults += [f"walk: round {turn}: {fault}" for fault in walk_two_level(plan.middles, chiplets, served)]
            counted: Counter[str] = Counter()
            for one in chiplets:
                settings = configure(plan.middles, one.ports, one.flows, one.words)
                counted.update(m.state for m in settings if m.side == "base" or min(m.inputs, m.outputs) > 1)
        except InvalidPlan as error:
            return None, [f"words: round {turn}: {error}"]
        states.append(dict(sorted(counted.items())))
    report = RoutingReport(
        micro_switches=sum(micro_switches(plan.middles, one.ports) for one in plan.chiplets[0]),
        states=tuple(states),
        bits=sum(configuration_bits(plan.middles, one.ports) for one in plan.chiplets[0]),
    )
    faults += _certificate_faults(plan)
    if plan.report is not None and plan.report != report:
        faults.append("report: it does not say what the walk finds")
    return report, faults


def configuration_bits(middles: int, ports: int) -> int:
    """Return bits that set every micro-switch of Fred_m(P).

    Each outer wire of a micro-switch takes one middle network or none, and two wires that take the same one are joined; a
    Fred_m(2) has one of the ways in which two inputs meet two outputs.
    """
    if ports <= 2:
        return 4  # each output: which of the two inputs it adds up
    blocks, odd = divmod(ports, 2)
    wire = math.ceil(math.log2(middles + 1))
    return 2 * (2 * blocks + odd) * wire + middles * configuration_bits(middles, (ports + 1) // 2)


def _shape_faults(plan: RoutingPlan) -> list[str]:
    problem, count = plan.problem, len(plan.flows)
    if not len(plan.origins) == len(plan.words) == len(plan.rounds) == count:
        return ["flows: each needs an origin, a word and a round"]
    if plan.middles < 2 or (plan.middles != problem.middles and problem.allow != "middle"):
        return [f"middles: {plan.middles} are used, the problem has {problem.middles}"]
    if any(one < 0 for one in plan.rounds) or (any(plan.rounds) and problem.allow != "phases"):
        return ["rounds: flows may take turns only where phases are allowed"]
    if any(not 0 <= one < len(problem.flows) for one in plan.origins):
        return ["origins: a flow comes from none of the problem's"]
    if any(word is None for word in plan.words) and problem.allow != "block":
        return ["words: flows may be left out only where blocking is allowed"]
    if plan.moves and problem.allow != "move":
        return ["moves: workers may move only where that is allowed"]
    if plan.chiplets and not problem.fabric:
        return ["chiplets: one switch has none"]
    depth = 0 if problem.fabric else levels(problem.ports)
    for index, word in enumerate(plan.words):
        if word is not None and (len(word) != depth or any(not 0 <= one < plan.middles for one in word)):
            return [f"words: flow {index}: {list(word)} must have {depth} letters from 0 to {plan.middles - 1}"]
    return []


def _flow_faults(plan: RoutingPlan) -> list[str]:
    problem = plan.problem
    moved = dict(plan.moves)
    if len(moved) != len(plan.moves) or sorted(moved) != sorted(moved.values()):
        return ["moves: they must be an exchange of ports"]
    if any(not 0 <= port < problem.ports for port in moved) or any(a == b for a, b in plan.moves):
        return ["moves: each must lead from one port of the switch to another"]
    for index, flow in enumerate(problem.flows):
        parts = [plan.flows[k] for k, origin in enumerate(plan.origins) if origin == index]
        placed = _moved(flow, moved)
        if len(parts) == 1 and _same(parts[0], placed):
            continue
        if problem.allow == "decompose" and set(flow.inputs) == set(flow.outputs) and _is_ring(parts, flow):
            continue
        return [f"flows: flow {index} of the problem is not what is routed for it"]
    return []


def _moved(flow: SwitchFlow, moved: dict[int, int]) -> SwitchFlow:
    inputs, outputs = (tuple(moved.get(port, port) for port in side) for side in (flow.inputs, flow.outputs))
    return SwitchFlow(inputs=inputs, outputs=outputs)


def _same(a: SwitchFlow, b: SwitchFlow) -> bool:
    return set(a.inputs) == set(b.inputs) and set(a.outputs) == set(b.outputs)


def _is_ring(parts: list[SwitchFlow], flow: SwitchFlow) -> bool:
    """Whether unicast flows lead once around all ports of a collective."""
    after = {part.inputs[0]: part.outputs[0] for part in parts if len(part.inputs) == len(part.outputs) == 1}
    if len(after) != len(parts) or set(after) != set(flow.inputs):
        return False
    at, seen = flow.inputs[0], 0
    while seen < len(after):
        at, seen = after.get(at, -1), seen + 1
        if at == flow.inputs[0]:
            break
    return seen == len(after) and at == flow.inputs[0]


def value_of(plan: RoutingPlan) -> int:
    """Return what the plan's key counts."""
    allow = plan.problem.allow
    if allow == "phases":
        return max(plan.rounds, default=-1) + 1
    if allow == "move":
        used = {port for flow in plan.problem.flows for port in (*flow.inputs, *flow.outputs)}
        return sum(1 for port, _ in plan.moves if port in used)
    if allow == "middle":
        return plan.middles
    if allow == "decompose":
        return sum(1 for count in Counter(plan.origins).values() if count > 1)
    return sum(1 for word in plan.words if word is None)


def _certificate_faults(plan: RoutingPlan) -> list[str]:
    name, unit = OBJECTIVES[plan.problem.allow]
    certificate = plan.certificate
    if len(certificate.keys) != 1 or (certificate.keys[0].name, certificate.keys[0].unit) != (name, unit):
        return [f"certificate: it must have the one key {name} in {unit}"]
    key = certificate.keys[0]
    value = Fraction(value_of(plan))
    faults = []
    if key.value != value:
        faults.append(f"certificate: {name} is stated as {key.value}, it is {value}")
    if key.bound is not None and key.bound > value:
        faults.append(f"certificate: the bound {key.bound} on {name} is above its value {value}, so it is false")
    if (certificate.status == "optimal") != key.closed:
        faults.append(f"certificate: status {certificate.status.value}, but not so by its bound")
    return faults
