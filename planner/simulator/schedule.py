"""The judge of schedules: their transfers lowered to hops, timed, and their data followed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from fabric_plan.planner.errors import InvalidInput, InvalidPlan
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.simulator import dataflow, engine
from fabric_plan.planner.simulator.critical import critical_terms
from fabric_plan.planner.simulator.program import Ints, Program
from fabric_plan.planner.simulator.report import ScheduleReport, Term
from fabric_plan.planner.simulator.service import Service

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan


@dataclass(frozen=True, eq=False)
class Simulation:
    """What :func:`simulate` found: the lowered program, its timeline, the fabric that it ran on, and the report."""

    program: Program
    timeline: engine.Timeline
    fabric: Fabric
    report: ScheduleReport


def lower(plan: SchedulePlan, fabric: Fabric, late: Mapping[int, Fraction] | None = None) -> Program:
    """Return the hops of a schedule's transfers on a fabric.

    Parameters
    ----------
    late
        Seconds before which a node sends nothing, by node id.

    Raises
    ------
    InvalidPlan
        Naming the transfer whose ends have no path or whose link does not join them.
    """
    transfers = plan.transfers
    routes = _Routes(fabric)
    nodes = len(fabric.nodes)
    for name, column in (("source", transfers.source), ("target", transfers.target)):
        wrong = np.flatnonzero((column < 0) | (column >= nodes))
        if len(wrong):
            raise InvalidPlan(
                f"transfer {wrong[0]}: its {name} is node {column[wrong[0]]}, which {fabric.name} does not have"
            )
    wrong = np.flatnonzero(transfers.via >= len(fabric.links))
    if len(wrong):
        raise InvalidPlan(f"transfer {wrong[0]}: link {transfers.via[wrong[0]]} is missing from {fabric.name}")
    code = (transfers.source.astype(np.int64) * nodes + transfers.target) * (len(fabric.links) + 1) + transfers.via + 1
    owner_of = plan.job_of(transfers)
    code = code * len(plan.problem.jobs) + owner_of
    kinds, sample, kind = np.unique(code, return_index=True, return_inverse=True)
    kind = kind.reshape(-1)
    found = []
    for row in sample.tolist():
        try:
            ends = int(transfers.source[row]), int(transfers.target[row])
            found.append(routes.between(*ends, int(transfers.via[row])))
        except ValueError as error:
            raise InvalidPlan(f"transfer {row}: {error}") from None
    jobs = owner_of[sample].tolist()
    scale, parts = _sizes(plan, [(job, paths, wire) for job, (_, paths, wire) in zip(jobs, found, strict=True)])
    most = max((part * len(hops) for part, (hops, _, _) in zip(parts, found, strict=True)), default=0)
    if most * int(transfers.count.sum(dtype=np.int64)) >= 2**62:
        raise InvalidInput(
            f"the chunks of {float(max(plan.chunk_bytes)):g} bytes have no unit in which all transfers fit 64 bits: choose a rounder size"
        )
    lengths = np.array([len(hops) for hops, _, _ in found], dtype=np.int64)
    begins = np.zeros(len(kinds) + 1, dtype=np.int64)
    np.cumsum(lengths, out=begins[1:])
    flat_link = np.array([link for hops, _, _ in found for link, _ in hops], dtype=np.int32)
    flat_parent = np.array([parent for hops, _, _ in found for _, parent in hops], dtype=np.int32)
    if len(kinds) and (lengths == 1).all():
        hop_start = np.arange(len(transfers) + 1, dtype=np.int32)
        hop_link = flat_link[kind]
        hop_parent = np.full(len(transfers), -1, dtype=np.int32)
        hop_size = (transfers.count * np.array(parts, dtype=np.int64)[kind]).astype(np.int64)
    else:
        per = lengths[kind] if len(kinds) else np.zeros(0, dtype=np.int64)
        hop_start = np.zeros(len(transfers) + 1, dtype=np.int32)
        np.cumsum(per, out=hop_start[1:])
        owner = np.repeat(np.arange(len(transfers)), per)
        place = np.arange(len(owner)) - hop_start[owner]
        where = (begins[kind[owner]] + place) if len(owner) else np.zeros(0, dtype=np.int64)
        hop_link = flat_link[where]
        parents = flat_parent[where]
        hop_parent = np.where(parents < 0, -1, parents + hop_start[owner]).astype(np.int32)
        hop_size = (transfers.count * np.array(parts, dtype=np.int64)[kind]).astype(np.int64)[owner]
    if len(hop_size) and hop_size.min() <= 0:
        row = int(np.flatnonzero((transfers.count <= 0) & (transfers.source != transfers.target))[0])
        raise InvalidPlan(f"transfer {row}: it carries no chunk")
    clock, release, after = _waits(plan, fabric, owner_of, late or {})
    return Program(
        hop_start=hop_start,
        hop_link=hop_link,
        hop_parent=hop_parent,
        hop_size=hop_size,
        need_start=transfers.need_start,
        need=transfers.need,
        scale=scale,
        clock=clock,
        release=release,
        after=after,
    )


def _sizes(plan: SchedulePlan, kinds: list[tuple[int, int, Fraction]]) -> tuple[int, list[int]]:
    """Return (scale, what a chunk puts on each hop of each kind in whole numbers of 1/scale bytes)."""
    chunks = plan.chunk_bytes
    each = [chunks[job] * wire / paths for job, paths, wire in kinds]
    scale = math.lcm(*(one.denominator for one in each))
    return scale, [int(one * scale) for one in each]


def _waits(
    plan: SchedulePlan, fabric: Fabric, owner: Ints, late: Mapping[int, Fraction]
) -> tuple[int, Ints | None, Ints | None]:
    """Return (clock, release, after) of the program."""
    transfers, gammas = plan.transfers, [fabric.costs.gamma * chunk for chunk in plan.chunk_bytes]
    releases = [job.release for job in plan.problem.jobs]
    clock = math.lcm(*(one.denominator for one in (*gammas, *releases, *late.values())))
    waits = [*releases, *late.values(), max(gammas) * int(transfers.count.sum(dtype=np.int64))]
    if max(waits) * clock >= 2**62:
        raise InvalidInput("the times of release, of late ranks and of reduction have no unit that fits 64 bits")
    release = after = None
    if any(releases) or late:
        by_node = np.zeros(len(fabric.nodes), dtype=np.int64)
        for node, seconds in late.items():
            by_node[node] = int(seconds * clock)
        by_job = np.array([int(one * clock) for one in releases], dtype=np.int64)
        release = np.maximum(by_node[transfers.source], by_job[owner])
    if any(gammas):
        reduces = np.array([node.kind == "npu" for node in fabric.nodes])[transfers.target] & (transfers.reduce == 1)
        each = np.array([int(one * clock) for one in gammas], dtype=np.int64)[owner]
        after = np.where(reduces, transfers.count * each, 0)
    return clock, release, after


class _Routes:
    """The hops between nodes: routes between seats, the links between neighbours."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric = fabric

    def between(self, source: int, target: int, via: int) -> tuple[list[tuple[int, int]], int, Fraction]:
        """Return (hops as pairs of link and parent, number of equal paths, bytes on the wire a byte carried)."""
        fabric = self._fabric
        names = f"{fabric.nodes[source].name} to {fabric.nodes[target].name}"
        if source == target:
            return [], 1, Fraction(1)
        if via >= 0:
            link = fabric.links[via]
            if (link.source, link.target) != (source, target):
                raise ValueError(f"link {via} does not go from {names}")
            return [(via, -1)], 1, self._wire(source, target)
        if source in fabric.seat_of and target in fabric.seat_of:
            paths = fabric.route(fabric.seat_of[source], fabric.seat_of[target])
            hops: list[tuple[int, int]] = []
            for path in paths:
                parent = -1
                for link_id in path:
                    hops.append((link_id, parent))
                    parent = len(hops) - 1
            return hops, len(paths), Fraction(1)
        links = [link for link in fabric.outgoing[source] if fabric.links[link].target == target]
        if not links:
            raise ValueError(f"there is no link from {names}")
        return [(link, -1) for link in links], len(links), self._wire(source, target)

    def _wire(self, source: int, target: int) -> Fraction:
        """What switches reduce or copy takes more of the wire, where the fabric says so."""
        share = self._fabric.costs.in_network
        ends = {self._fabric.nodes[source].kind, self._fabric.nodes[target].kind}
        return 1 / share if share is not None and "switch" in ends else Fraction(1)


def simulate(
    plan: SchedulePlan,
    service: Service | None = None,
    *,
    late: Mapping[int, Fraction] | None = None,
    fabric: Fabric | None = None,
    followed: dataflow.Found | None = None,
    engine_name: str = "auto",
) -> Simulation:
    """Simulate a schedule.

    Parameters
    ----------
    service
        First come, first served, switched as the fabric says, where none is given.
    late
        Seconds before which a node sends nothing, by node id.
    fabric
        Another fabric of equal nodes than the plan's (slower links, say).
    followed
        What :func:`fabric_plan.planner.simulator.dataflow.check` found, where it is known.
    """
    fabric = fabric.for_size(max(job.size for job in plan.problem.jobs)) if fabric else plan.problem.seen
    service = service or Service(switching=fabric.costs.switching)
    program = lower(plan, fabric, late)
    timeline = engine.run(program, fabric.links, service, engine=engine_name)
    found = followed or dataflow.check(plan)
    return Simulation(
        program, timeline, fabric, _report(plan, fabric, program, timeline, service, found.depth_of_check)
    )


def _report(
    plan: SchedulePlan, fabric: Fabric, program: Program, timeline: engine.Timeline, service: Service, data: str
) -> ScheduleReport:
    ticks = timeline.ticks_per_second
    fixed = fabric.costs.fixed
    terms: list[Term] = []
    seconds = None
    if not len(timeline.stuck):
        seconds = timeline.seconds + fixed
        overhead = np.array([fabric.costs.in_network is not None and fabric.costs.in_network < 1], dtype=bool)
        terms = [
            Term(name=name, seconds=Fraction(value, ticks))
            for name, value in critical_terms(timeline, _overheads(fabric) if overhead.any() else None).items()
        ]
        if fixed:
            terms.append(Term(name="fixed", seconds=fixed))
    carried = np.zeros(len(fabric.links), dtype=np.int64)
    np.add.at(carried, program.hop_link, program.hop_size)
    used = np.flatnonzero(carried).tolist()
    return ScheduleReport(
        seconds=seconds,
        rounding=timeline.error,
        discipline=str(service),
        data=data,
        transfers=len(plan.transfers),
        terms=tuple(terms),
        links=tuple(used),
        busy=tuple(Fraction(int(timeline.busy[link]), ticks) for link in used),
        carried=tuple(Fraction(int(carried[link]), program.scale) for link in used),
        jobs=_finishes(plan, timeline, fixed),
    )


def _finishes(plan: SchedulePlan, timeline: engine.Timeline, fixed: Fraction) -> tuple[Fraction | None, ...]:
    """Return when each job's last transfer has finished, where there are several jobs; a job with none is done when it is released."""
    jobs = plan.problem.jobs
    if len(jobs) == 1:
        return ()
    owner = plan.job_of(plan.transfers)
    found: list[Fraction | None] = []
    for number, job in enumerate(jobs):
        mine = timeline.finish[owner == number]
        if len(mine) and mine.min() < 0:
            found.append(None)
        else:
            last = Fraction(int(mine.max()), timeline.ticks_per_second) if len(mine) else job.release
            found.append(last + fixed)
    return tuple(found)


def _overheads(fabric: Fabric) -> list[Fraction]:
    """Return by link the part of the wire that protocol takes when a switch reduces or copies."""
    share = fabric.costs.in_network or Fraction(1)
    kinds = [
        fabric.nodes[link.source].kind == "switch" or fabric.nodes[link.target].kind == "switch"
        for link in fabric.links
    ]
    return [1 - share if switch else Fraction(0) for switch in kinds]


def check(plan: SchedulePlan) -> tuple[ScheduleReport | None, list[str]]:
    """Simulate a plan and return (report, violations): no violation means that the plan is valid."""
    found = dataflow.check(plan)
    if found.faults:
        return None, found.faults
    try:
        simulated = simulate(plan, followed=found)
    except InvalidInput as error:
        return None, [f"transfers: {error}"]
    report = simulated.report
    faults = []
    if report.seconds is None:
        faults.append(f"transfers: {len(simulated.timeline.stuck)} never finish")
        return report, faults
    faults += _certificate_faults(plan, report.seconds)
    if plan.report is not None and plan.report != report:
        faults.append("report: it does not say what the simulation finds")
    return report, faults


def _certificate_faults(plan: SchedulePlan, seconds: Fraction) -> list[str]:
    certificate = plan.certificate
    keys = [key for key in certificate.keys if key.name == "time"]
    if len(keys) != 1 or certificate.keys[0].name != "time" or not keys[0].asked or keys[0].unit != "s":
        return ["certificate: its first key must be the time in s, and asked for"]
    key = keys[0]
    faults = []
    if key.value != seconds:
        faults.append(f"certificate: {float(key.value)} s are stated, the simulation finds {float(seconds)} s")
    if key.bound is not None and key.bound > seconds:
        faults.append(f"certificate: the bound {float(key.bound)} s is above the time {float(seconds)} s: it is false")
    closed = all(one.closed for one in certificate.keys if one.asked)
    if (certificate.status == "optimal") != closed:
        faults.append(f"certificate: status {certificate.status.value}, but not so by its bounds")
    return faults
