"""Flows of a FRED switch from what people have: groups of ports, flow files, strategies, and collectives of Table 2."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec

from fabric_plan.planner.errors import InvalidInput, InvalidProblem, suggest
from fabric_plan.planner.fred_two_level import ENDS
from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import PlacementProblem, RoutingProblem, SwitchFlow, WayOut

ORDERS = tuple("-".join(one) for one in itertools.permutations(("mp", "pp", "dp")))

PHASES = ("mp", "pp", "dp")
"""Of a training job, the most urgent first (FRED paper, section 5.4)."""

COMPOUND = ("reduce-scatter", "all-gather", "scatter", "gather", "all-to-all")
"""Collectives that run as serial steps, each of simple flows (FRED paper, table 2)."""


def parse_switch(text: str) -> tuple[int, int]:
    """Return (middle networks, ports) of ``fred3:12``."""
    match = re.fullmatch(r"fred([0-9]{1,4}):([0-9]{1,7})", text.strip().lower())
    if match is None:
        raise InvalidInput(f"switch {text!r}: expected fredM:P, as in fred3:12")
    middles, ports = int(match[1]), int(match[2])
    if middles < 2 or ports < 2:
        raise InvalidInput(f"switch {text!r}: it needs at least 2 middle networks and 2 ports")
    if ports > 65_536:
        raise InvalidInput(f"switch {text!r}: more than 65,536 ports cannot be handled here")
    return middles, ports


def switch_problem(name: str, flows: Sequence[SwitchFlow], allow: WayOut = "nothing") -> RoutingProblem:
    """Return the problem of flows on ``fred3:12``, or on the two-level fabric ``fred-20``."""
    if name.strip().lower() == "fred-20":
        return RoutingProblem(middles=3, ports=ENDS, flows=tuple(flows), allow=allow, fabric="fred-20")
    middles, ports = parse_switch(name)
    return RoutingProblem(middles=middles, ports=ports, flows=tuple(flows), allow=allow)


def parse_groups(text: str) -> list[SwitchFlow]:
    """Return the all-reduces of ``0-2;3,4``, or flows as in ``0-2>4;3>0,1``."""
    found = []
    for part in text.split(";"):
        left, arrow, right = part.partition(">")
        inputs = _ports(left, part)
        found.append(SwitchFlow(inputs=inputs, outputs=_ports(right, part) if arrow else inputs))
    return found


def _ports(text: str, part: str) -> tuple[int, ...]:
    ports: list[int] = []
    for piece in text.split(","):
        match = re.fullmatch(r"\s*([0-9]{1,6})(?:\s*-\s*([0-9]{1,6}))?\s*", piece, re.ASCII)
        if match is None:
            raise InvalidInput(f"groups: cannot read {part.strip()!r}: expected ports, as in 0-2;3,4 or 0-2>4")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise InvalidInput(f"groups: {piece.strip()!r} runs backwards")
        ports += range(first, last + 1)
    return tuple(ports)


class FlowFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A file of flows: each with inputs and outputs, or a group that all-reduces; optionally the switch."""

    flows: list[FlowEntry]
    switch: str | None = None


class FlowEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A flow as the file has it: ``group`` alone, or ``inputs`` and ``outputs``."""

    group: list[int] | None = None
    inputs: list[int] | None = None
    outputs: list[int] | None = None


def parse_flows(data: bytes, where: str) -> tuple[str | None, list[SwitchFlow]]:
    """Return (the switch if it is named, flows) of a file ``{"switch": "fred3:12", "flows": [{"group": [0, 1]}, ...]}``.

    Raises
    ------
    InvalidInput
        Naming the file and the flow that is wrong.
    """
    try:
        file = msgspec.json.decode(data, type=FlowFile)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(f"{where}: not a flow file: {error}") from None
    found = []
    for index, entry in enumerate(file.flows):
        sides = (entry.group, entry.group) if entry.group is not None else (entry.inputs, entry.outputs)
        if None in sides or (entry.group is not None and (entry.inputs is not None or entry.outputs is not None)):
            raise InvalidInput(f"{where}: flows[{index}]: expected a group, or inputs and outputs")
        try:
            found.append(SwitchFlow(inputs=tuple(sides[0] or ()), outputs=tuple(sides[1] or ())))
        except InvalidProblem as error:
            raise InvalidInput(f"{where}: flows[{index}]: {error}") from None
    return file.switch, found


def strategy_flows(
    strategy: Strategy, phase: str, *, order: str = "mp-pp-dp", multicast: bool = False
) -> list[SwitchFlow]:
    """Return the flows of a phase, with workers on consecutive ports in an order (the first dimension fastest).

    ``mp`` and ``dp`` groups all-reduce; in ``pp`` each worker sends to its counterpart in the next stage, or, multicast,
    the one with MP digit 0 to the whole MP group of the next stage (FRED paper, sections 5.3 and 8.1).
    """
    if order not in ORDERS:
        raise InvalidInput(
            f"unknown order {order!r}{suggest(order, list(ORDERS))}: expected one of {', '.join(ORDERS)}"
        )
    others = [name for name in strategy.dimensions if name not in ("mp", "dp", "pp") and strategy.size(name) > 1]
    if others:
        raise InvalidInput(f"strategy {strategy}: FRED's phases are mp, dp and pp, not {', '.join(others)}")
    port = [0] * strategy.workers
    for place, worker in enumerate(strategy.order(order.split("-"))):
        port[worker] = place
    if phase in ("mp", "dp"):
        groups = strategy.groups(phase) if strategy.size(phase) > 1 else []
        sides = [tuple(port[worker] for worker in group) for group in groups]
        return [SwitchFlow(inputs=side, outputs=side) for side in sides]
    if phase != "pp":
        raise InvalidInput(f"unknown phase {phase!r}: expected mp, dp or pp")
    if strategy.size("pp") < 2:
        return []
    pairs = [pair for group in strategy.groups("pp") for pair in itertools.pairwise(group)]
    return [flow for a, b in pairs for flow in _sent(strategy, a, b, port, multicast)]


def placed_phases(problem: PlacementProblem, seats: Sequence[int]) -> list[tuple[str, list[SwitchFlow]]]:
    """Return what a placement sends through its fabric's switch, configuration by configuration: (name, flows).

    All-reduces are reduced and copied in the switch; other collectives run in serial steps; a pipeline's gradients go back in a
    configuration of their own. Seats are ports.
    """
    found: list[tuple[str, list[SwitchFlow]]] = []
    strategy = problem.strategy
    for demand in problem.demands:
        groups = [[seats[worker] for worker in group] for group in strategy.groups(demand.dimension)]
        if demand.pattern == "all-reduce":
            sides = [tuple(group) for group in groups]
            found.append((demand.dimension, [SwitchFlow(inputs=side, outputs=side) for side in sides]))
        elif demand.pattern != "point-to-point":
            steps = steps_of(demand.pattern, groups)
            found += [(f"{demand.dimension}.{number}", step) for number, step in enumerate(steps)]
        else:
            multicast = demand.algorithm == "multicast"
            forward, back = [], []
            for group in strategy.groups(demand.dimension):
                for a, b in itertools.pairwise(group):
                    forward += _sent(strategy, a, b, seats, multicast)
                    back += _sent(strategy, b, a, seats, multicast)
            found.append((demand.dimension, forward))
            if demand.direction == "both":
                found.append((f"{demand.dimension}.back", back))
    return found


def _sent(strategy: Strategy, a: int, b: int, seats: Sequence[int], multicast: bool) -> list[SwitchFlow]:
    """Return what worker a sends to worker b of the next stage: alone, or, from MP digit 0, to b's whole MP group."""
    if not multicast or strategy.size("mp") < 2:
        return [SwitchFlow(inputs=(seats[a],), outputs=(seats[b],))]
    if strategy.digit(a, "mp"):
        return []
    peers = [b + k * strategy.stride("mp") for k in range(strategy.size("mp"))]
    return [SwitchFlow(inputs=(seats[a],), outputs=tuple(seats[one] for one in peers))]


def steps_of(pattern: str, groups: Sequence[Sequence[int]]) -> list[list[SwitchFlow]]:
    """Return the serial steps of a compound collective that runs in several groups at once (FRED paper, table 2).

    Reduce-scatter: in step k everyone's part for member k is reduced to it. All-gather: in step k member k's part goes to all.
    Scatter and gather: member 0 sends to, or receives from, one member a step. All-to-all: in step k member i sends to i + k.
    """
    if pattern not in COMPOUND:
        raise InvalidInput(f"{pattern!r} does not run in steps: expected one of {', '.join(COMPOUND)}")
    steps: list[list[SwitchFlow]] = []
    for k in range(max((len(group) for group in groups), default=0)):
        step = []
        for group in groups:
            if k >= len(group) or (pattern in ("scatter", "gather", "all-to-all") and k == 0):
                continue
            members = tuple(group)
            if pattern == "reduce-scatter":
                step.append(SwitchFlow(inputs=members, outputs=(members[k],)))
            elif pattern == "all-gather":
                step.append(SwitchFlow(inputs=(members[k],), outputs=members))
            elif pattern == "scatter":
                step.append(SwitchFlow(inputs=(members[0],), outputs=(members[k],)))
            elif pattern == "gather":
                step.append(SwitchFlow(inputs=(members[k],), outputs=(members[0],)))
            else:
                size = len(members)
                step += [SwitchFlow(inputs=(members[i],), outputs=(members[(i + k) % size],)) for i in range(size)]
        if step:
            steps.append(step)
    return steps


def flow_name(flow: SwitchFlow) -> str:
    """Return a flow as people write it: {0,1,2}, or {0,1} -> {4}."""
    inputs, outputs = (",".join(map(str, sorted(side))) for side in (flow.inputs, flow.outputs))
    return f"{{{inputs}}}" if inputs == outputs else f"{{{inputs}}} -> {{{outputs}}}"
