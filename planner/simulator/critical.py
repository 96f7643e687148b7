"""The critical path of a timeline: the chain of waits that ends with the last transfer, by kind of cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fabric_plan.planner.simulator.engine import Timeline


@dataclass(frozen=True, slots=True)
class Step:
    """A hop on the critical path: from when it was ready until it had arrived, in ticks."""

    transfer: int
    hop: int
    ready: int
    start: int
    end: int
    arrival: int


def critical_path(timeline: Timeline) -> list[Step]:
    """Return the hops of the critical path, first to last: each became ready when the one before had arrived."""
    program = timeline.program
    if not len(timeline.finish) or (timeline.finish < 0).any():
        return []
    arrival, start, finish = timeline.arrival, timeline.start, timeline.finish
    cut = timeline.service.cut_through
    latency = timeline.timing.latency
    transfer = int(np.argmax(finish))
    steps: list[Step] = []
    while transfer >= 0:
        first, last = int(program.hop_start[transfer]), int(program.hop_start[transfer + 1])
        hop = first + int(np.argmax(arrival[first:last])) if last > first else -1
        begun = _begun(timeline, transfer)
        while hop >= 0:
            parent, link = int(program.hop_parent[hop]), int(program.hop_link[hop])
            end = int(arrival[hop] - latency[link])
            if parent < 0:
                ready = begun
            elif cut:
                ready = int(start[parent] + latency[program.hop_link[parent]])
            else:
                ready = int(arrival[parent])
            steps.append(Step(transfer, hop, ready, int(start[hop]), end, int(arrival[hop])))
            hop = parent
        needs = program.need[program.need_start[transfer] : program.need_start[transfer + 1]]
        before = int(needs[np.argmax(finish[needs])]) if len(needs) else -1
        transfer = before if before >= 0 and int(finish[before]) == begun else -1
    return steps[::-1]


def _begun(timeline: Timeline, transfer: int) -> int:
    program = timeline.program
    needs = program.need[program.need_start[transfer] : program.need_start[transfer + 1]]
    begun = int(timeline.finish[needs].max()) if len(needs) else 0
    release = timeline.timing.release
    return max(begun, int(release[transfer])) if len(release) else begun


def critical_terms(timeline: Timeline, overhead: Sequence[Fraction] | None = None) -> dict[str, int]:
    """Return the critical path by kind of cost, in ticks; they add up to the time of the last transfer.

    ``queueing`` is the wait for a link (or, of a fluid, what sharing it costs), ``reduction`` the receivers' delays,
    ``release`` the wait for a rank that is late. ``overhead`` gives, by link, the part of a hop's bytes that is protocol.
    """
    terms = dict.fromkeys(("release", "queueing", "serialisation", "protocol", "latency", "reduction"), 0)
    steps = critical_path(timeline)
    length = timeline.length
    after = timeline.timing.after
    clock = 0
    for place, step in enumerate(steps):
        link = int(timeline.program.hop_link[step.hop])
        terms["release"] += max(step.ready - clock, 0)
        own = min(int(length[step.hop]), step.end - step.ready)
        follows = place + 1 < len(steps) and steps[place + 1].transfer == step.transfer
        if timeline.service.cut_through and follows:
            # The next hop begins with the head: this one's bytes pass while that one sends.
            terms["queueing"] += step.start - step.ready
            terms["latency"] += int(timeline.timing.latency[link])
            clock = step.start + int(timeline.timing.latency[link])
            continue
        waited = step.end - step.ready - own
        taken = int(own * overhead[link]) if overhead is not None else 0
        terms["queueing"] += waited
        terms["serialisation"] += own - taken
        terms["protocol"] += taken
        terms["latency"] += step.arrival - step.end
        clock = step.arrival
        if not follows and len(after):
            terms["reduction"] += int(after[step.transfer])
            clock += int(after[step.transfer])
    if len(timeline.finish):
        # Transfers without hops at the end, and late ones.
        terms["release"] += int(timeline.finish.max()) - clock
    return {name: value for name, value in terms.items() if value}
