"""Running programs: the engine that fits, and what it found.

All engines give the same finish times; they differ in speed. ``sweep`` is one pass over programs whose own order is the
order of service; ``events`` goes event by event, first come, first served; ``queued`` keeps a queue a link, for
priorities, buffers and outages; ``fair`` shares links as a fluid. Small problems run in plain Python, large ones
compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link
from fabric_plan.planner.simulator.compiled import FROM_HOPS, compiled
from fabric_plan.planner.simulator.program import MAX_HOPS, Ints, Program, Timing, timing
from fabric_plan.planner.simulator.service import Service

ENGINES = ("auto", "sweep", "events", "queued", "fair")

_CACHED_TIMES = 1 << 12


@dataclass(eq=False)
class Timeline:
    """When things happened, in ticks of 1/``ticks_per_second`` s; -1 for what never happens.

    Parameters
    ----------
    error
        Largest relative rounding error of a duration; 0 where all are exact.
    finish
        By transfer.
    start, arrival
        By hop: when it began to cross its link, and when its last byte was across.
    busy
        By link: how long it was sending.
    engine
        The one that ran.
    unsent
        By hop: what was left to send when nothing more happened, in ticks; None where everything was sent.
    """

    program: Program
    timing: Timing
    service: Service
    finish: Ints
    start: Ints
    tail: Ints
    engine: str
    unsent: Ints | None = None

    @property
    def ticks_per_second(self) -> int:
        """Ticks in a second."""
        return self.timing.per_second

    @property
    def error(self) -> float:
        """Largest relative rounding error of a duration; shares of a fluid are doubles.

        A tie that rounding breaks may be served in the other order: times then differ by more than this.
        """
        return max(self.timing.error, 1e-9) if self.engine == "fair" else self.timing.error

    @cached_property
    def length(self) -> Ints:
        """By hop: for how long it needs its link alone."""
        lengths: Ints = self.timing.size * self.timing.rate[self.program.hop_link]
        return lengths

    @cached_property
    def arrival(self) -> Ints:
        """By hop: when its last byte is across."""
        if len(self.tail):
            return self.tail
        return np.where(self.start < 0, -1, self.start + self.length + self.timing.latency[self.program.hop_link])

    @cached_property
    def busy(self) -> Ints:
        """By link: ticks in which it sends something."""
        total = np.zeros(len(self.timing.rate), dtype=np.int64)
        sent = self.length if self.unsent is None else self.length - self.unsent
        np.add.at(total, self.program.hop_link, np.where(self.start < 0, 0, sent))
        return total

    @property
    def stuck(self) -> Ints:
        """The transfers that never finish."""
        return np.flatnonzero(self.finish < 0)

    @property
    def seconds(self) -> Fraction:
        """When the last of the transfers that finish has finished."""
        last = int(self.finish.max()) if len(self.finish) else 0
        return Fraction(max(last, 0), self.ticks_per_second)


def run(
    program: Program,
    links: Sequence[Link],
    service: Service | None = None,
    *,
    engine: str = "auto",
    compile: bool | None = None,
) -> Timeline:
    """Simulate ``program`` on ``links``.

    Parameters
    ----------
    engine
        ``auto`` picks the quickest; the others are for tests and measurements.
    compile
        Whether to compile; None decides by size.

    Raises
    ------
    InvalidInput
        When a row of the program is wrong, when dependencies form a cycle (it is named), or when the engine asked for
        cannot run this program.
    """
    service = service or Service()
    if program.hops >= MAX_HOPS:
        raise InvalidInput(f"{program.hops:,} hops are more than are simulated here (at most {MAX_HOPS - 1:,})")
    program.check(len(links))
    for what, named in (("buffers", service.buffers), ("outages", service.outages)):
        for link in named:
            if not 0 <= link < len(links):
                raise InvalidInput(f"{what}: link {link} does not exist: links go from 0 to {len(links) - 1}")
    points = [time for window in service.outages.values() for time in window if time is not None]
    ticks = timing(program, links, points)
    prioritised = (
        program.priority is not None and bool(len(program)) and program.priority.min() < program.priority.max()
    )
    chosen = engine
    if engine == "auto":
        special = prioritised or service.buffers or service.outages
        chosen = "fair" if service.discipline == "fair" else "queued" if special else "sweep"
    _check_choice(chosen, service, bool(prioritised))
    large = program.hops >= FROM_HOPS if compile is None else compile
    if chosen == "sweep":
        swept = _sweep(program, ticks, service, large)
        if swept is not None:
            return swept
        if engine == "sweep":
            raise InvalidInput("engine sweep: links do not serve in the order of numbers here: use events")
        chosen = "events"
    if chosen == "events":
        found = (_events_compiled if large else _events_plain)(program, ticks, service)
    elif chosen == "queued":
        from fabric_plan.planner.simulator.queued import run_queued

        found = run_queued(program, ticks, service, links, compile)
    else:
        from fabric_plan.planner.simulator.fair import run_fair

        found = run_fair(program, ticks, service, links, compile)
    if len(found.stuck):
        cycle = dependency_cycle(program)
        if cycle:
            raise InvalidInput(f"dependencies form a cycle: transfers {_named(cycle)} wait for one another")
    return found


def _check_choice(chosen: str, service: Service, prioritised: bool) -> None:
    if chosen not in ENGINES:
        raise InvalidInput(f"unknown engine {chosen!r}: expected one of {', '.join(ENGINES)}")
    if (chosen == "fair") != (service.discipline == "fair"):
        raise InvalidInput(f"engine {chosen} does not serve {service.discipline}")
    if chosen in ("sweep", "events") and (prioritised or service.buffers or service.outages):
        raise InvalidInput(f"engine {chosen} knows no priorities, buffers or outages: use queued")
    if prioritised and chosen == "queued" and (service.cut_through or service.buffers):
        raise InvalidInput("priorities preempt: they are simulated store-and-forward and without buffers")


def _named(cycle: Sequence[int]) -> str:
    shown = [str(one) for one in cycle[:8]]
    return ", ".join(shown) + (f", ... ({len(cycle)} in all)" if len(cycle) > len(shown) else "")


def dependency_cycle(program: Program) -> list[int]:
    """Return transfers each of which needs the next, and the last the first; empty where needs form no cycle."""
    state = bytearray(len(program))  # 1: on the path, 2: done
    starts, needs = program.need_start.tolist(), program.need.tolist()
    for root in range(len(program)):
        if state[root]:
            continue
        state[root] = 1
        path, place = [root], [starts[root]]
        while path:
            at = path[-1]
            if place[-1] == starts[at + 1]:
                state[at] = 2
                path.pop()
                place.pop()
                continue
            before = needs[place[-1]]
            place[-1] += 1
            if state[before] == 1:
                return path[path.index(before) :]
            if state[before] == 0:
                state[before] = 1
                path.append(before)
                place.append(starts[before])
    return []


def _sweep(program: Program, ticks: Timing, service: Service, large: bool) -> Timeline | None:
    from fabric_plan.planner.simulator.sweep import sweep

    tails = program.hops if service.cut_through else 0
    inputs: list[Any] = [
        program.hop_start,
        program.hop_link,
        program.hop_parent,
        ticks.size,
        ticks.rate,
        ticks.latency,
        program.need_start,
        program.need,
        ticks.release,
        ticks.after,
    ]
    links = len(ticks.rate)
    if large:
        start, tail, finish = _empty(program.hops), _empty(tails), _empty(len(program))
        free, came = np.zeros(links, np.int64), np.zeros(links, np.int64)
        if not compiled(sweep)(*inputs, service.cut_through, start, tail, finish, free, came):
            return None
        return Timeline(program, ticks, service, finish, start, tail, "sweep")
    starts, tails_, finishes = [0] * program.hops, [0] * tails, [0] * len(program)
    lists: list[Any] = [column.tolist() for column in inputs]
    kernel: Callable[..., bool] = sweep
    if not kernel(*lists, service.cut_through, starts, tails_, finishes, [0] * links, [0] * links):
        return None
    return Timeline(program, ticks, service, _array(finishes), _array(starts), _array(tails_), "sweep")


def _empty(size: int) -> Ints:
    return np.empty(size, dtype=np.int64)


def _array(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _events_plain(program: Program, ticks: Timing, service: Service) -> Timeline:
    from fabric_plan.planner.simulator.events import events_plain

    starts, needs = program.need_start.tolist(), program.need.tolist()
    parents = program.hop_parent.tolist()
    dependents: list[list[int]] = [[] for _ in range(len(program))]
    for transfer in range(len(program)):
        for k in range(starts[transfer], starts[transfer + 1]):
            dependents[needs[k]].append(transfer)
    children: list[list[int]] | None = None
    if program.relayed:
        children = [[] for _ in parents]
        for hop, parent in enumerate(parents):
            if parent >= 0:
                children[parent].append(hop)
    start, tail, finish = [-1] * program.hops, [-1] * program.hops, [-1] * len(program)
    events_plain(
        program.hop_start.tolist(),
        program.hop_link.tolist(),
        children,
        parents,
        ticks.size.tolist(),
        ticks.rate.tolist(),
        ticks.latency.tolist(),
        np.diff(program.need_start).tolist(),
        dependents,
        ticks.release.tolist(),
        ticks.after.tolist(),
        service.cut_through,
        start,
        tail,
        finish,
        [0] * len(ticks.rate),
    )
    return Timeline(program, ticks, service, _array(finish), _array(start), _array(tail), "events")


def dependents_of(program: Program, large: bool = True) -> tuple[Ints, Ints]:
    """Return (starts, transfers): for each transfer those that need it, in compressed rows."""
    counts = np.bincount(program.need, minlength=len(program)) if len(program.need) else np.zeros(len(program), int)
    starts = np.zeros(len(program) + 1, dtype=np.int32)
    np.cumsum(counts, out=starts[1:])
    who = np.empty(len(program.need), dtype=np.int32)
    (compiled(_fill_dependents) if large else _fill_dependents)(
        program.need_start, program.need, starts[:-1].copy(), who
    )
    return starts, who


def _fill_dependents(need_start: Any, need: Any, place: Any, who: Any) -> None:
    for transfer in range(len(need_start) - 1):
        for k in range(need_start[transfer], need_start[transfer + 1]):
            before = need[k]
            who[place[before]] = transfer
            place[before] += 1


def _chain_children(hop_parent: Any, child: Any, sibling: Any) -> None:
    for hop in range(len(hop_parent) - 1, -1, -1):
        parent = hop_parent[hop]
        if parent >= 0:
            sibling[hop] = child[parent]
            child[parent] = hop


def children_of(program: Program, large: bool = True) -> tuple[Ints, Ints]:
    """Return (first child, next sibling) of each hop, -1 for none."""
    child = np.full(program.hops, -1, dtype=np.int32)
    sibling = np.full(program.hops, -1, dtype=np.int32)
    (compiled(_chain_children) if large else _chain_children)(program.hop_parent, child, sibling)
    return child, sibling


def _events_compiled(program: Program, ticks: Timing, service: Service) -> Timeline:
    from fabric_plan.planner.simulator.events_compiled import events

    hops, transfers, links = program.hops, len(program), len(ticks.rate)
    dependent_start, dependent = dependents_of(program)
    nothing = np.zeros(0, dtype=np.int32)
    child, sibling = children_of(program) if program.relayed else (nothing, nothing)
    spread = np.diff(program.hop_start)
    single = hops == transfers and bool((spread == 1).all())
    owner = nothing if single else np.repeat(np.arange(transfers, dtype=np.int32), spread)
    codes = 2 * hops + 2 * transfers if service.cut_through or len(ticks.release) or len(ticks.after) else hops
    most = codes + 1
    start, finish = np.full(hops, -1, np.int64), np.full(transfers, -1, np.int64)
    tail = np.full(hops if service.cut_through else 0, -1, np.int64)
    events(
        program.hop_start,
        program.hop_link,
        program.hop_parent,
        ticks.size,
        ticks.rate,
        ticks.latency,
        program.relayed,
        child,
        sibling,
        np.diff(program.need_start),
        dependent_start,
        dependent,
        ticks.release,
        ticks.after,
        service.cut_through,
        owner,
        nothing if single else spread.astype(np.int32),
        start,
        tail,
        finish,
        np.zeros(links, np.int64),
        np.zeros(links, np.int64),
        np.zeros(links, np.int32),
        np.empty(codes, np.int32),
        np.empty((most, 2), np.int32),
        np.empty(most, np.int32),
        _empty(most),
        np.empty(most, np.int32),
        np.full(_CACHED_TIMES, -1, np.int64),
        np.zeros(_CACHED_TIMES, np.int32),
        np.empty(hops + 1, np.int32),
        np.empty(transfers + 1, np.int32),
        np.zeros(3, np.int64),
    )
    return Timeline(program, ticks, service, finish, start, tail, "events")
