"""All algorithms of a collective over sizes: times, floors, who wins where, and what each does to the fabric."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import msgspec

from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import ALGORITHMS, chunks_of, draft_of
from fabric_plan.planner.collective import bus_factor
from fabric_plan.planner.comparison import Comparison, Facts, Row
from fabric_plan.planner.errors import InvalidInput, InvalidProblem, PlanRejected
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan
from fabric_plan.planner.simulator import dataflow
from fabric_plan.planner.simulator.dataflow import NOT, Found
from fabric_plan.planner.simulator.report import ScheduleReport
from fabric_plan.planner.simulator.schedule import simulate
from fabric_plan.planner.simulator.service import Service

REQUEST = 256
"""Bytes of a memory request, for the requests that must be under way."""


def facts(fabric: Fabric, pattern: str, group: Sequence[int] | None = None) -> Facts:
    """Return what a fabric offers the ranks of a group (default: all seats)."""
    problem = ScheduleProblem.of(fabric, pattern, 1, group=group)
    ranks = Group(fabric, problem.jobs[0])
    nodes, seats = ranks.nodes.tolist(), problem.jobs[0].group
    out = [sum(fabric.links[link].bandwidth for link in fabric.outgoing[node]) for node in nodes]
    into = [sum(fabric.links[link].bandwidth for link in fabric.incoming[node]) for node in nodes]
    pairs = []
    for seat in seats[1:]:
        paths = fabric.route(seats[0], seat)
        pairs.append(len(paths) * min(fabric.links[link].bandwidth for path in paths for link in path))
    total, latency = sum(out) + sum(into), ranks.latency
    in_flight = min(out) * 2 * latency
    return Facts(
        ranks=len(nodes),
        bandwidth=min(out),
        pair=min(pairs),
        total=total,
        in_switch=2 * total if fabric.costs.in_network is not None else None,
        latency=latency,
        in_flight=in_flight,
        requests=in_flight / REQUEST,
        crossover=len(nodes) * latency * ranks.bandwidth,
    )


def compare(
    fabric: Fabric,
    pattern: str,
    sizes: Sequence[Fraction],
    *,
    group: Sequence[int] | None = None,
    service: Service | None = None,
    on_progress: Callable[[str], None] = lambda note: None,
) -> Comparison:
    """Simulate every algorithm of a collective that suits a fabric at every size.

    Raises
    ------
    InvalidProblem
        When no algorithm suits.
    """
    service = service or Service(switching=fabric.costs.switching)
    known = facts(fabric, pattern, group)
    rows, refused = [], {}
    for name, algorithm in ALGORITHMS.items():
        if pattern not in algorithm.patterns:
            continue
        try:
            rows.append(_row(fabric, pattern, sizes, group, service, name, known, on_progress))
        except InvalidInput as error:
            refused[name] = str(error).removeprefix(f"{name}: ")
    if not rows:
        raise InvalidProblem(f"no algorithm of {pattern} suits {fabric.name}: {'; '.join(refused.values())}")
    alone = [size / known.bandwidth for size in sizes]
    reduces = known.in_switch is not None and pattern in ("all-reduce", "broadcast", "reduce")
    return Comparison(
        fabric=fabric,
        pattern=pattern,
        sizes=tuple(sizes),
        discipline=str(service),
        facts=known,
        endpoint_floor=tuple(time * bus_factor(pattern, known.ranks) for time in alone),
        in_network_floor=tuple(alone) if reduces else None,
        rows=tuple(rows),
        refused=refused,
        crossovers=_crossovers(rows, sizes),
    )


def _row(
    fabric: Fabric,
    pattern: str,
    sizes: Sequence[Fraction],
    group: Sequence[int] | None,
    service: Service,
    name: str,
    known: Facts,
    on_progress: Callable[[str], None],
) -> Row:
    times: list[Fraction | None] = []
    reports: list[ScheduleReport] = []
    draft: SchedulePlan | None = None
    cut = 0
    for size in sizes:
        on_progress(f"{name}, {float(size):.3g} bytes")
        problem = ScheduleProblem.of(fabric, pattern, size, group=group)
        chunks = chunks_of(problem, name)
        if draft is None or chunks != cut:
            draft, cut = draft_of(problem, name), chunks
            _follow(draft, name)
        draft = msgspec.structs.replace(draft, problem=problem)
        reports.append(simulate(draft, service, followed=Found([], NOT)).report)
        times.append(reports[-1].seconds)
    first, last = ({term.name: term.seconds for term in one.terms} for one in (reports[0], reports[-1]))
    by_size = (times[-1] or Fraction(0)) - last.get("latency", Fraction(0)) - last.get("fixed", Fraction(0))
    return Row(
        name=name,
        seconds=tuple(times),
        alphas=first.get("latency", Fraction(0)) / known.latency if known.latency else Fraction(0),
        volume=by_size * known.bandwidth / sizes[-1],
        links=Fraction(len(reports[-1].links), len(fabric.links)),
    )


def _follow(draft: SchedulePlan, name: str) -> None:
    faults = dataflow.check(draft).faults
    if faults:
        raise PlanRejected(f"the simulator refuses {name}: {faults[0]}", tuple(faults))


def _crossovers(rows: Sequence[Row], sizes: Sequence[Fraction]) -> tuple[tuple[Fraction, str, str], ...]:
    """Return where the winner changes: between two sizes times are taken as straight lines."""
    found = []
    times = {row.name: row.seconds for row in rows}
    for (k, low), (_, high) in itertools.pairwise(enumerate(sizes)):
        before = min(times, key=lambda name: times[name][k] or Fraction(0))
        after = min(times, key=lambda name: times[name][k + 1] or Fraction(0))
        if before == after:
            continue
        ahead = (times[after][k] or Fraction(0)) - (times[before][k] or Fraction(0))
        behind = (times[before][k + 1] or Fraction(0)) - (times[after][k + 1] or Fraction(0))
        part = ahead / (ahead + behind) if ahead + behind else Fraction(1, 2)
        found.append((low + part * (high - low), before, after))
    return tuple(found)
