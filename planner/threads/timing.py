"""How long a program takes on a fabric: its messages as transfers, everything else in no time.

A step that sends hands its message over when all that it waits for is there and its connection has room, that is, when the message so many
before it has been taken; the thread goes on then. A step that receives ends when its message has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.plan import Certificate, Status
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan, Transfers, check_memory
from fabric_plan.planner.simulator.dataflow import Found
from fabric_plan.planner.simulator.disturb import Disturbance
from fabric_plan.planner.simulator.schedule import Simulation, simulate
from fabric_plan.planner.simulator.service import Service
from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.order import Messages
from fabric_plan.planner.threads.program import Program

PATTERNS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
}


def problem_of(collective: Collective, fabric: Fabric, size: Fraction) -> ScheduleProblem:
    """Return the problem that a program solves on a fabric; rank k sits on seat k."""
    pattern = PATTERNS.get(collective.name, "all-reduce")
    return ScheduleProblem.of(fabric, pattern, size, group=range(collective.ranks))


def _pairs(program: Program) -> list[tuple[int, int]]:
    """Return (source rank, target rank) of all that crosses the fabric."""
    return sorted({(a, b) for a, b, _ in program.connections} | set(program.remote.values()))


def missing_links(program: Program, fabric: Fabric) -> list[str]:
    """Return connections whose ranks have no path on a fabric."""
    found = []
    for source, target in _pairs(program):
        try:
            fabric.route(source, target)
        except (InvalidInput, ValueError) as error:
            found.append(f"rank {source} -> {target} has no path in {fabric.name}: {error}")
    return found


def relayed(program: Program, fabric: Fabric) -> list[str]:
    """Return connections whose messages other NPUs of a fabric have to pass on: no link and no switch joins their ranks."""
    seats = set(fabric.seats)
    found = []
    for source, target in _pairs(program):
        path = fabric.route(source, target)[0]
        between = [fabric.links[link].target for link in path[:-1]]
        passing = [node for node in between if node in seats]
        if passing:
            names = ", ".join(fabric.nodes[node].name for node in passing)
            found.append(
                f"rank {source} -> {target} has no link of its own in {fabric.name}: {names} would have to pass it on"
            )
    return found


def fits(collective: Collective, fabric: Fabric, where: str) -> None:
    """Refuse more ranks than a fabric has seats.

    Raises
    ------
    InvalidInput
        When there are.
    """
    if collective.ranks > len(fabric.seats):
        raise InvalidInput(
            f"{where}: the schedule has {collective.ranks} ranks, fabric {fabric.name} only {len(fabric.seats)} NPUs"
        )


@dataclass(frozen=True)
class Timed:
    """A program as the plan that was simulated, and what came out."""

    plan: SchedulePlan
    simulation: Simulation


def timed(
    program: Program,
    messages: Messages,
    collective: Collective,
    fabric: Fabric,
    size: Fraction,
    depth: int | None,
    service: Service | None = None,
    trouble: Disturbance | None = None,
) -> Timed:
    """Simulate a program on a fabric.

    Parameters
    ----------
    size
        Bytes of the collective's larger buffer.
    depth
        Messages that a connection holds; None: no limit.
    service, trouble
        How links serve, and what is wrong with them; None: as the fabric says, and nothing.
    """
    problem = problem_of(collective, fabric, size)
    pieces = collective.pieces * (collective.ranks if problem.jobs[0].pattern == "all-to-all" else 1)
    plan = SchedulePlan(
        problem=problem,
        algorithm="program",
        shards=(0,) * pieces,
        transfers=_transfers(program, messages, fabric, depth),
        certificate=Certificate(status=Status.FEASIBLE, keys=()),
    )
    service = service or Service(switching=fabric.for_size(size).costs.switching)
    late, on = (trouble.late, trouble.slowed(fabric.for_size(size))) if trouble is not None else (None, None)
    return Timed(plan, simulate(plan, service, late=late, fabric=on, followed=Found([], "as the program says")))


def _transfers(program: Program, messages: Messages, fabric: Fabric, depth: int | None) -> Transfers:
    """Return two transfers for each operation: itself, which crosses nothing, and the message that it sends."""
    count = len(program)
    check_memory(2 * count, "program")
    seats = np.array(fabric.seats, dtype=np.int32)
    ranks = np.array([one.rank for one in program.threads], dtype=np.int32)[
        np.frombuffer(program.thread, dtype=np.int32)
    ]
    send = np.frombuffer(program.send, dtype=np.int32)
    sending = np.flatnonzero(send >= 0)
    message = np.full(count, -1, dtype=np.int64)
    message[sending] = count + np.arange(len(sending))
    ends = np.array([(a, b) for a, b, _ in program.connections], dtype=np.int32).reshape(-1, 2)
    come, go = ranks.copy(), ranks.copy()
    for op, (a, b) in program.remote.items():
        come[op], go[op] = a, b
    source = np.concatenate([seats[come], seats[ends[send[sending], 0]]])
    target = np.concatenate([seats[go], seats[ends[send[sending], 1]]])
    chunks = np.frombuffer(program.count, dtype=np.int32)
    columns = np.concatenate([chunks, chunks[sending]])
    # Who needs whom, as pairs (transfer, transfer that must have finished).
    thread = np.frombuffer(program.thread, dtype=np.int32)
    chained = np.flatnonzero(thread[1:] == thread[:-1]) + 1
    pairs = [(chained, chained - 1), (message[sending], sending)]
    if len(program.wait):
        starts = np.frombuffer(program.wait_start, dtype=np.int32)
        pairs.append((np.repeat(np.arange(count), np.diff(starts)), np.frombuffer(program.wait, dtype=np.int32)))
    sender = np.frombuffer(messages.sender, dtype=np.int32)
    taking = np.flatnonzero(sender >= 0)
    pairs.append((taking, message[sender[taking]]))
    if depth is not None:
        for out, back in zip(messages.sends, messages.receives, strict=True):
            if len(out) > depth:
                pairs.append((np.array(out[depth:]), np.array(back[: len(out) - depth])))
    rows = np.concatenate([np.asarray(a, dtype=np.int64) for a, _ in pairs])
    needs = np.concatenate([np.asarray(b, dtype=np.int64) for _, b in pairs])
    place = np.argsort(rows, kind="stable")
    start = np.zeros(len(source) + 1, dtype=np.int64)
    np.cumsum(np.bincount(rows, minlength=len(source)), out=start[1:])
    nothing = np.zeros(len(source), dtype=np.int32)
    return Transfers(source, target, nothing, columns, nothing, nothing - 1, start, needs[place])
