"""The judge of placements: link loads and phase times from the transfers themselves, and every rule of a valid plan."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from fabric_plan.planner.collective import ring_steps
from fabric_plan.planner.errors import InvalidPlan
from fabric_plan.planner.fred import configure
from fabric_plan.planner.problem import Demand, PlacementProblem
from fabric_plan.planner.simulator import engine, lowering
from fabric_plan.planner.simulator.fred_walk import walk, walk_two_level
from fabric_plan.planner.simulator.report import PhaseReport, PlacementReport
from fabric_plan.planner.simulator.service import Service
from fabric_plan.planner.switch_flows import parse_switch, placed_phases

if TYPE_CHECKING:
    from fabric_plan.planner.plan import PlacementPlan

MAX_TIMED_HOPS = 2_000_000
"""Phases with more hops than this get loads but no simulated time."""


def check(plan: PlacementPlan) -> tuple[PlacementReport | None, list[str]]:
    """Simulate a plan and return (report, violations): no violation means that the plan is valid.

    The report is None when the seats themselves are wrong, so that nothing can be simulated.
    """
    faults = [*seat_faults(plan), *ring_faults(plan)]
    if faults:
        return None, faults
    report = simulate(plan.problem, plan.seats, plan.rings)
    faults += [*certificate_faults(plan, report), *switch_faults(plan)]
    if plan.report is not None:
        faults += report_faults(plan.report, report)
    return report, faults


def seat_faults(plan: PlacementPlan) -> list[str]:
    """Every worker has one seat, the seat exists, and no two workers share it."""
    problem = plan.problem
    strategy, count = problem.strategy, len(problem.fabric.seats)
    faults = []
    if len(plan.seats) != strategy.workers:
        faults.append(f"seats: {len(plan.seats)} given for the {strategy.workers} workers of {strategy}")
    taken: dict[int, int] = {}
    for worker, seat in enumerate(plan.seats[: strategy.workers]):
        if not 0 <= seat < count:
            faults.append(
                f"seats: worker {strategy.name(worker)} sits on seat {seat}, which {problem.fabric.name} does not have (0 to {count - 1})"
            )
        elif seat in taken:
            faults.append(
                f"seats: workers {strategy.name(taken[seat])} and {strategy.name(worker)} both sit on seat {seat}"
            )
        else:
            taken[seat] = worker
    return faults


def ring_faults(plan: PlacementPlan) -> list[str]:
    """Rings are given exactly for the demands whose order is free, and each lists its group's members once."""
    strategy = plan.problem.strategy
    free = {demand.dimension for demand in plan.problem.demands if demand.order == "free"}
    faults = [f"rings: {name} has a ring order, but its order is not free" for name in plan.rings if name not in free]
    for name in sorted(free):
        if name not in plan.rings:
            faults.append(f"rings: {name} is free, but no ring order is given")
            continue
        groups = strategy.groups(name)
        if len(plan.rings[name]) != len(groups):
            faults.append(f"rings: {name} has {len(groups)} groups, {len(plan.rings[name])} orders are given")
        for index, (ring, group) in enumerate(zip(plan.rings[name], groups, strict=False)):
            if sorted(ring) != sorted(group):
                faults.append(
                    f"rings: {name} group {index}: the order {list(ring)} does not list its members {list(group)} once each"
                )
    return faults


def switch_faults(plan: PlacementPlan) -> list[str]:
    """Every phase, walked through the fabric's FRED switch, arrives; on other fabrics there is nothing to walk."""
    switch = plan.problem.fabric.switch
    if not switch:
        return ["switched: the fabric has no FRED switch"] if plan.switched else []
    phases = placed_phases(plan.problem, plan.seats)
    names = [name for name, _ in phases]
    if [one.name for one in plan.switched] != names:
        return [
            f"switched: {switch} must be given a routing for each of {', '.join(names) or 'no phases'}, in that order"
        ]
    faults = []
    for one, (name, flows) in zip(plan.switched, phases, strict=True):
        try:
            if switch == "fred-20":
                wrong = walk_two_level(3, one.chiplets, flows)
            elif len(one.words) != len(flows):
                wrong = [f"{len(one.words)} words for {len(flows)} flows"]
            else:
                middles, ports = parse_switch(switch)
                wrong = walk(middles, ports, configure(middles, ports, flows, one.words), flows)
        except InvalidPlan as error:
            wrong = [str(error)]
        faults += [f"switched: phase {name}: {fault}" for fault in wrong[:3]]
    return faults


def simulate(
    problem: PlacementProblem, seats: Sequence[int], rings: dict[str, tuple[tuple[int, ...], ...]]
) -> PlacementReport:
    """Return loads and times of each phase alone and of all together."""
    return simulate_with(problem, seats, rings, Service())[0]


def simulate_with(
    problem: PlacementProblem,
    seats: Sequence[int],
    rings: dict[str, tuple[tuple[int, ...], ...]],
    service: Service,
) -> tuple[PlacementReport, engine.Timeline | None]:
    """Return the report under a service, and the timeline of all demands together (None where they are too many)."""
    staged = [lowering.stages(problem, demand, seats, rings) for demand in problem.demands]
    found = [
        _phase(problem, demand.dimension, [demand], [group], service)
        for demand, group in zip(problem.demands, staged, strict=True)
    ]
    phases = [phase for phase, _ in found]
    together, timeline = found[0] if len(found) == 1 else _phase(problem, "all", problem.demands, staged, service)
    sized = all(demand.size is not None for demand in problem.demands)
    hops = sum(len(hops) for group in staged for stage in group for hops, _ in stage.hops)
    report = PlacementReport(
        unit="s" if sized and problem.demands else "flows",
        nominal_size=None if sized else lowering.NOMINAL_SIZE,
        discipline=str(service),
        hops=hops,
        phases=tuple(phases),
        together=together,
    )
    return report, timeline


def _phase(
    problem: PlacementProblem,
    name: str,
    demands: Sequence[Demand],
    staged: Sequence[Sequence[lowering.Stage]],
    service: Service,
) -> tuple[PhaseReport, engine.Timeline | None]:
    seconds = timeline = None
    if lowering.hop_count(staged) <= MAX_TIMED_HOPS:
        timeline = engine.run(lowering.program_for(demands, staged), problem.fabric.links, service)
        seconds = None if len(timeline.stuck) else timeline.seconds
    loads = _loads(problem, demands, staged)
    used = sorted(loads)
    phase = PhaseReport(
        name=name,
        max_load=max(loads.values(), default=Fraction(0)),
        seconds=seconds,
        links=tuple(used),
        loads=tuple(loads[link] for link in used),
    )
    return phase, timeline


def _loads(
    problem: PlacementProblem, demands: Sequence[Demand], staged: Sequence[Sequence[lowering.Stage]]
) -> dict[int, Fraction]:
    """Return the load of each link that carries something.

    Without sizes: flows per parallel link. With sizes: the seconds in which the link sends the bytes of all steps of all
    collectives. A striped flow counts in parts.
    """
    links = problem.fabric.links
    loads: dict[int, Fraction] = {}
    for demand, group in zip(demands, staged, strict=True):
        for stage in group:
            amount = Fraction(1) if demand.size is None else demand.size * stage.share * stage.steps
            crossings: dict[tuple[int, int], int] = {}
            for hops, paths in stage.hops:
                for link, _ in hops:
                    crossings[link, paths] = crossings.get((link, paths), 0) + 1
            for (link, paths), count in crossings.items():
                rate = links[link].multiplicity if demand.size is None else links[link].bandwidth
                loads[link] = loads.get(link, Fraction(0)) + count * amount / (paths * rate)
    return loads


def objective_values(
    problem: PlacementProblem,
    report: PlacementReport,
    seats: Sequence[int],
    rings: dict[str, tuple[tuple[int, ...], ...]],
) -> dict[str, Fraction]:
    """Return the values that a certificate may state: the objective, its parts by phase, and the hops."""
    loads = {phase.name: phase.max_load for phase in report.phases}
    waits = {
        demand.dimension: _latency(problem, demand, seats, rings) if problem.objective == "time" else Fraction(0)
        for demand in problem.demands
    }
    if problem.concurrent:
        value = report.together.max_load + max(waits.values(), default=Fraction(0))
    else:
        value = sum((d.weight * (loads[d.dimension] + waits[d.dimension]) for d in problem.demands), Fraction(0))
    parts = {f"{problem.objective}.{name}": loads[name] + waits[name] for name in loads}
    return {problem.objective: value, **parts, "hops": Fraction(report.hops)}


def _latency(
    problem: PlacementProblem, demand: Demand, seats: Sequence[int], rings: dict[str, tuple[tuple[int, ...], ...]]
) -> Fraction:
    """Return steps times the latency of the slowest route of a demand, in seconds, over all its collectives."""
    fabric = problem.fabric
    slowest = Fraction(0)
    for stage in lowering.stages(problem, demand, seats, rings):
        for flow in stage.flows:
            for target in flow.targets:
                for path in fabric.route(flow.source, target):
                    slowest = max(slowest, sum((fabric.links[link].latency for link in path), Fraction(0)))
    steps = ring_steps(demand.pattern, problem.strategy.size(demand.dimension)) if demand.algorithm == "ring" else 1
    return steps * demand.count * slowest


def certificate_faults(plan: PlacementPlan, report: PlacementReport) -> list[str]:
    """Values are what the simulation finds, bounds do not pass them, and the status says what the bounds say."""
    certificate = plan.certificate
    values = objective_values(plan.problem, report, plan.seats, plan.rings)
    faults = []
    if not certificate.keys or certificate.keys[0].name != plan.problem.objective or not certificate.keys[0].asked:
        return [f"certificate: its first key must be the objective, {plan.problem.objective}, and asked for"]
    names = [key.name for key in certificate.keys]
    faults += [f"certificate: {name} is stated twice" for name in sorted({n for n in names if names.count(n) > 1})]
    if certificate.status not in ("optimal", "feasible"):
        faults.append(f"certificate: status {certificate.status.value}, but here is a placement")
    for key in certificate.keys:
        if key.name not in values:
            faults.append(f"certificate: unknown key {key.name!r}")
            continue
        unit = "links" if key.name == "hops" else report.unit
        if key.unit != unit:
            faults.append(f"certificate: {key.name} is stated in {key.unit}, it is in {unit}")
        if key.value != values[key.name]:
            faults.append(f"certificate: {key.name} is stated as {key.value}, the simulation finds {values[key.name]}")
        if key.bound is not None and key.bound > values[key.name]:
            faults.append(
                f"certificate: the bound {key.bound} on {key.name} is above its value {values[key.name]}, so it is false"
            )
    closed = all(key.closed for key in certificate.keys if key.asked)
    if (certificate.status == "optimal") != closed:
        state = "every" if closed else "not every"
        faults.append(f"certificate: status {certificate.status.value}, but {state} bound meets its value")
    return faults


def report_faults(stated: PlacementReport, found: PlacementReport) -> list[str]:
    """A report that came with the plan says the same as the simulation does now."""
    faults = []
    if stated.hops != found.hops:
        faults.append(f"report: {stated.hops} hops are stated, the simulation finds {found.hops}")
    for name in ("unit", "nominal_size", "discipline"):
        said, true = getattr(stated, name), getattr(found, name)
        if said != true:
            faults.append(f"report: {name} {said} is stated, it is {true}")
    if stated.together.name != found.together.name:
        faults.append(f"report: all together is called {stated.together.name!r}, expected {found.together.name!r}")
    pairs = [("together", stated.together, found.together)]
    names = [phase.name for phase in found.phases]
    if [phase.name for phase in stated.phases] != names:
        faults.append(f"report: it must cover the phases {', '.join(names)}")
    else:
        pairs += [(f"phase {a.name}", a, b) for a, b in zip(stated.phases, found.phases, strict=True)]
    for where, said, true in pairs:
        if said.max_load != true.max_load:
            faults.append(
                f"report: {where}: largest load {said.max_load} is stated, the simulation finds {true.max_load}"
            )
        if said.seconds != true.seconds:
            faults.append(f"report: {where}: {said.seconds} s are stated, the simulation finds {true.seconds} s")
        wrong = dict(zip(said.links, said.loads, strict=False))
        right = dict(zip(true.links, true.loads, strict=True))
        for link in sorted(wrong.keys() | right.keys()):
            if wrong.get(link) != right.get(link):
                faults.append(
                    f"report: {where}: link {link} is said to carry {wrong.get(link, 0)}, it carries {right.get(link, 0)}"
                )
                break
    if not faults and stated != found:
        faults.append("report: its columns are not those that the simulation fills")
    return faults
