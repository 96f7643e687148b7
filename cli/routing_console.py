"""What commands print about routings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fabric_plan.planner.fred import BASE, Micro, configure
from fabric_plan.planner.result import gap_text
from fabric_plan.planner.switch_flows import flow_name

if TYPE_CHECKING:
    from fabric_plan.planner.plan import RoutingPlan

LIMIT = 40
"""Flows that are listed without ``-v``."""


def describe(plan: RoutingPlan) -> str:
    """Return a routing in one line."""
    problem = plan.problem
    more = "" if problem.allow == "nothing" else f", allowed: {problem.allow}"
    return f"{len(problem.flows)} flows through {problem.switch}{more}"


def print_plan(plan: RoutingPlan, *, verbose: bool) -> None:
    """Print a routing with its certificate, words, and (verbose) every micro-switch."""
    print(describe(plan))
    certificate = plan.certificate
    key = certificate.keys[0]
    proved = {"optimal": "optimal, proved", "feasible": "feasible; the bound leaves a gap"}
    print(f"  status      {proved.get(certificate.status.value, certificate.status.value)}")
    bound = "-" if key.bound is None else str(key.bound)
    print(f"  {key.name:<11} {key.value} {key.unit}, bound {bound}, gap {gap_text(certificate)}")
    if plan.baselines:
        print(f"  protocols   {'; '.join(f'{one.name} {one.note}' for one in plan.baselines)}")
    for line in certificate.proof:
        print(f"  proof       {line}")
    if plan.moves:
        print(f"  moves       {', '.join(f'{a} -> {b}' for a, b in plan.moves)}")
    if plan.middles != plan.problem.middles:
        print(f"  switch      fred{plan.middles}:{plan.problem.ports}, {_price(plan)}")
    for index, (flow, word) in enumerate(zip(plan.flows, plan.words, strict=True)):
        if index == LIMIT and not verbose:
            print(f"  ... {len(plan.flows) - LIMIT} more (-v lists them)")
            break
        told = _words_of(plan, index, word)
        turn = f", round {plan.rounds[index]}" if any(plan.rounds) else ""
        print(f"  flow {plan.origins[index]:<4} {flow_name(flow):<28} {told}{turn}")
    if plan.report is not None:
        for number, states in enumerate(plan.report.states):
            counted = ", ".join(f"{count} {state}" for state, count in states.items())
            title = f"round {number}: " if len(plan.report.states) > 1 else ""
            print(f"Walked: {title}{counted} ({plan.report.micro_switches} micro-switches, {plan.report.bits} bits)")
    if verbose:
        _print_switches(plan)


def _words_of(plan: RoutingPlan, index: int, word: tuple[int, ...] | None) -> str:
    """Return a flow's word, or those in every chiplet that it crosses."""

    def spelled(letters: tuple[int, ...]) -> str:
        return "".join(map(str, letters)) if plan.middles <= 10 else str(list(letters))

    if word is None:
        return "left out"
    if not plan.problem.fabric:
        return f"word {spelled(word)}"
    met = [
        f"{chiplet.name} {spelled(letters)}"
        for chiplet in plan.chiplets[plan.rounds[index]]
        for origin, letters in zip(chiplet.origins, chiplet.words, strict=True)
        if origin == index
    ]
    return ", ".join(met)


def _price(plan: RoutingPlan) -> str:
    from fabric_plan.planner.fred_cost import switch_cost

    before = switch_cost(plan.problem.middles, plan.problem.ports)
    after = switch_cost(plan.middles, plan.problem.ports)
    return (
        f"{after.micro_switches} micro-switches instead of {before.micro_switches}, some "
        f"{float(after.area / before.area - 1) * 100:+.1f} % of area and {float(after.power / before.power - 1) * 100:+.1f} % of power"
    )


def _print_switches(plan: RoutingPlan) -> None:
    for turn in range(max(plan.rounds, default=0) + 1):
        if plan.problem.fabric:
            for chiplet in plan.chiplets[turn]:
                print(f"{chiplet.name}, fred{plan.middles}({chiplet.ports}), round {turn}:")
                _print_states(configure(plan.middles, chiplet.ports, chiplet.flows, chiplet.words))
            continue
        served = [k for k in range(len(plan.flows)) if plan.words[k] is not None and plan.rounds[k] == turn]
        words = [plan.words[k] or () for k in served]
        if any(plan.rounds):
            print(f"Round {turn}:")
        _print_states(configure(plan.middles, plan.problem.ports, [plan.flows[k] for k in served], words))


def _print_states(settings: Sequence[Micro]) -> None:
    for one in settings:
        if one.state == "idle":
            continue
        path = ".".join(map(str, one.path)) or "outermost"
        streams = "; ".join(f"{'+'.join(map(str, a))} to {','.join(map(str, b))}" for a, b in one.connections)
        name = "2x2" if one.side == BASE else f"{one.side} {one.index}"
        print(f"  {path:<12} {name:<8} {one.state:<17} {streams}")
