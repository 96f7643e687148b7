"""The order in which links send: a list schedule of all chunks' moves, and the transfers that keep to it.

A chunk's moves become ready one after another; a link that is free takes, of those that wait for it, the one whose time has come first: its
chunk's place in the time of all, and its depth in the chunk's tree. Each transfer of the plan needs, besides its data, the one that the list
schedule puts two places before it on its link, so that links which serve first come, first served do so in about this order.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from fabric_plan.models.schedule.jobs.cut import Cut
from fabric_plan.models.schedule.jobs.net import Net
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import Transfers, check_memory

BEHIND = 2
"""How many places before a transfer on its link is the one that it waits for: with one, links would idle for a latency each time."""


@dataclass(frozen=True)
class Style:
    """How times are set.

    Parameters
    ----------
    depth
        Of a chunk's moves, in chunk times a level.
    early
        How much earlier the chunks of a tree end for each of its levels, in chunk times.
    weight
        By how much a job that is of lower priority is put off, as a part of the whole time for each class.
    """

    depth: float = 1.0
    early: float = 1.0
    weight: float = 0.0


@dataclass
class _Moves:
    """All chunks' moves as columns, and the needs of each."""

    move: list[int]
    chunk: list[int]
    job: list[int]
    adds: list[bool]
    needs: list[list[int]]
    due: list[float]


def _moves(problem: ScheduleProblem, net: Net, cut: Cut, seconds: float, style: Style) -> _Moves:
    found = _Moves([], [], [], [], [], [])
    starts = np.cumsum([0, *cut.job_chunks])
    classes = sorted({job.priority for job in problem.jobs})
    for chunk in cut.chunks:
        job = int(starts.searchsorted(chunk.number, side="right")) - 1
        size = float(cut.sizes[job])
        arrived: dict[int, list[int]] = {}
        depths: dict[int, int] = {}
        tree = chunk.tree
        slowest = max(
            size * share / net.fabric.links[link].bandwidth
            for number in (*tree.up, *tree.down)
            for link, share in zip(net.moves[number].links, net.moves[number].shares, strict=True)
        )
        rows: list[tuple[int, bool, int, list[int]]] = []
        base = len(found.move)
        for adds, numbers in ((True, reversed(tree.up)), (False, tree.down)):
            for number in numbers:
                move = net.moves[number]
                depth = depths.get(move.source, 0)
                rows.append((number, adds, depth, list(arrived.get(move.source, ()))))
                here = base + len(rows) - 1
                if adds:
                    arrived.setdefault(move.target, []).append(here)
                else:
                    arrived[move.target] = [here]
                depths[move.target] = max(depths.get(move.target, 0), depth + 1)
        height = max((depth for _, _, depth, _ in rows), default=0) + 1
        release = float(problem.jobs[job].release)
        span = max(0.0, seconds - release - style.early * height * slowest)
        begin = release + chunk.place * span + style.weight * seconds * classes.index(problem.jobs[job].priority)
        for number, adds, depth, needs in rows:
            found.move.append(number)
            found.chunk.append(chunk.number)
            found.job.append(job)
            found.adds.append(adds)
            found.needs.append(needs)
            found.due.append(begin + style.depth * depth * slowest)
    return found


def listed(problem: ScheduleProblem, net: Net, cut: Cut, seconds: float, style: Style) -> Transfers:
    """Return the transfers of a list schedule.

    Parameters
    ----------
    seconds
        What the whole is expected to take.
    """
    moves = _moves(problem, net, cut, seconds, style)
    check_memory(len(moves.move), "pack")
    start = _served(problem, net, cut, moves)
    order = sorted(range(len(start)), key=lambda row: (start[row], moves.due[row], row))
    place = [0] * len(order)
    for rank, row in enumerate(order):
        place[row] = rank
    before: dict[int, list[int]] = {}
    need: list[int] = []
    need_start = [0]
    for rank, row in enumerate(order):
        line = before.setdefault(moves.move[row], [])
        needs = {place[other] for other in moves.needs[row]}
        if len(line) >= BEHIND:
            needs.add(line[-BEHIND])
        line.append(rank)
        need += sorted(needs)
        need_start.append(len(need))
    table = np.array(order, dtype=np.int64)
    holders = np.array(net.holders, dtype=np.int64)
    numbers = np.array(moves.move, dtype=np.int64)[table]
    ends = np.array([(move.source, move.target, move.via) for move in net.moves], dtype=np.int64).reshape(-1, 3)[
        numbers
    ]
    return Transfers(
        holders[ends[:, 0]],
        holders[ends[:, 1]],
        np.array(moves.chunk, dtype=np.int64)[table],
        1,
        np.array(moves.adds, dtype=np.int8)[table],
        ends[:, 2],
        need_start,
        need,
    )


def _served(problem: ScheduleProblem, net: Net, cut: Cut, moves: _Moves) -> list[float]:
    """Return when each move begins, in seconds, when links take what is due first."""
    fabric = problem.seen
    through = fabric.costs.switching == "cut-through"
    sizes = [float(size) for size in cut.sizes]
    paths = [move.path for move in net.moves]
    shares = [move.shares[0] if len(move.path) > 1 else 1.0 for move in net.moves]
    rate = [1 / link.bandwidth for link in fabric.links]
    wait = [float(link.latency) for link in fabric.links]
    rows = len(moves.move)
    missing = [len(needs) for needs in moves.needs]
    after: list[list[int]] = [[] for _ in range(rows)]
    for row, needs in enumerate(moves.needs):
        for other in needs:
            after[other].append(row)
    start = [0.0] * rows
    queues: list[list[tuple[float, int, int]]] = [[] for _ in fabric.links]
    busy = [False] * len(fabric.links)
    # Events: (time, kind, link or row, hop): 0 a link is free, 1 a hop is ready, 2 a move has arrived.
    events: list[tuple[float, int, int, int]] = []
    for row in range(rows):
        if not missing[row]:
            events.append((float(problem.jobs[moves.job[row]].release), 1, row, 0))
    heapq.heapify(events)
    while events:
        now = events[0][0]
        touched: set[int] = set()
        while events and events[0][0] == now:
            _, kind, which, hop = heapq.heappop(events)
            if kind == 0:
                busy[which] = False
                touched.add(which)
            elif kind == 1:
                link = paths[moves.move[which]][hop]
                heapq.heappush(queues[link], (moves.due[which], which, hop))
                touched.add(link)
            else:
                for row in after[which]:
                    missing[row] -= 1
                    if not missing[row]:
                        heapq.heappush(events, (now, 1, row, 0))
        for link in touched:
            if busy[link] or not queues[link]:
                continue
            _, row, hop = heapq.heappop(queues[link])
            busy[link] = True
            number = moves.move[row]
            length = sizes[moves.job[row]] * shares[number] * rate[link]
            heapq.heappush(events, (now + length, 0, link, 0))
            if hop == 0:
                start[row] = now
            if hop + 1 < len(paths[number]):
                heapq.heappush(events, (now + wait[link] + (0.0 if through else length), 1, row, hop + 1))
            else:
                heapq.heappush(events, (now + length + wait[link], 2, row, 0))
    return start
