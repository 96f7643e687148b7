"""Who holds which contribution: does every rank end with exactly what the collective promises, each part once?

Contributions are random 64-bit numbers, one for each rank and chunk, and sums are taken modulo 2^64, so that a wrong
result passes with probability below 2^-60. Small schedules are followed for every order that their needs allow: a
transfer sends what its source holds by the transfers that it needs, directly or not, and writes that replace must be
ordered. Larger ones are followed in steps, all transfers of equal depth at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fabric_plan.planner.collective import conditions
from fabric_plan.planner.simulator.compiled import FROM_HOPS, compiled

if TYPE_CHECKING:
    from fabric_plan.planner.problem import Job
    from fabric_plan.planner.schedule import SchedulePlan

EVERY_ORDER = 4_000
"""Most transfers whose every order is followed; ancestors take a bit for each pair."""

MAX_STATE = 1 << 27
"""Most slots (nodes x chunks) that are followed."""

EVERY, STEPS, NOT = "every order", "in steps", "not followed (too large)"


@dataclass(frozen=True)
class Found:
    """The violations, and how far the data was followed."""

    faults: list[str]
    depth_of_check: str


def check(plan: SchedulePlan) -> Found:
    """Follow the data of a schedule."""
    faults = _row_faults(plan)
    if faults:
        return Found(faults, NOT)
    transfers = plan.transfers
    depth = np.zeros(len(transfers), dtype=np.int32)
    large = len(transfers) >= FROM_HOPS
    kernel: Any = compiled(_depths) if large else _depths
    columns = (transfers.need_start, transfers.need)
    if large:
        ordered = kernel(*columns, depth)
    else:
        depths = depth.tolist()
        ordered = kernel(*(column.tolist() for column in columns), depths)
        depth = np.array(depths, dtype=np.int32)
    if not ordered:
        return Found(["transfers: each may need only transfers with smaller numbers"], NOT)
    if len(plan.problem.fabric.nodes) * len(plan.shards) > MAX_STATE:
        return Found([], NOT)
    if len(transfers) <= EVERY_ORDER and int(transfers.count.sum()) <= 40 * EVERY_ORDER:
        return Found(_every_order(plan), EVERY)
    return Found(_in_steps(plan, depth), STEPS)


def _row_faults(plan: SchedulePlan) -> list[str]:
    transfers, chunks = plan.transfers, len(plan.shards)
    nodes = len(plan.problem.fabric.nodes)
    if not chunks:
        return ["shards: there must be at least one chunk"]
    starts = plan.job_starts
    for number, job in enumerate(plan.problem.jobs):
        fault = _shard_fault(job, plan.shards[starts[number] : starts[number + 1]])
        if fault:
            return [f"shards: {_of(plan, number)}{fault}"]
    if not len(transfers):
        return []
    for name, column in (("source", transfers.source), ("target", transfers.target)):
        if column.min() < 0 or column.max() >= nodes:
            row = int(np.flatnonzero((column < 0) | (column >= nodes))[0])
            return [f"transfers: {name} of transfer {row} is node {column[row]}, which does not exist"]
    kinds = np.array([node.kind == "npu" for node in plan.problem.fabric.nodes])
    if plan.problem.fabric.costs.in_network is not None:
        kinds |= np.array([node.kind == "switch" for node in plan.problem.fabric.nodes])
    idle = ~(kinds[transfers.source] & kinds[transfers.target])
    if idle.any():
        row = int(np.flatnonzero(idle)[0])
        ends = int(transfers.source[row]), int(transfers.target[row])
        name = next(plan.problem.fabric.nodes[node].name for node in ends if not kinds[node])
        return [f"transfers: transfer {row} begins or ends at {name}, which neither reduces nor copies"]
    wrong = (transfers.first < 0) | (transfers.count < 0) | (transfers.first + transfers.count > chunks)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        return [f"transfers: transfer {row} carries chunks that do not exist: they go from 0 to {chunks - 1}"]
    mixed = (transfers.count > 0) & (transfers.first + transfers.count > starts[plan.job_of(transfers) + 1])
    if mixed.any():
        return [f"transfers: transfer {int(np.flatnonzero(mixed)[0])} carries chunks of more than one job"]
    needs = transfers.need
    if len(needs) and (needs.min() < 0 or needs.max() >= len(transfers)):
        return ["transfers: a needed transfer does not exist"]
    return []


def _of(plan: SchedulePlan, number: int) -> str:
    """Return which job a fault is about, where there are several."""
    return f"job {number} ({plan.problem.jobs[number].label}): " if len(plan.problem.jobs) > 1 else ""


def _shard_fault(job: Job, given: Sequence[int]) -> str:
    """Return what is wrong with the shards that a job's chunks are part of, or nothing."""
    shards = len(job.group) ** 2 if job.pattern == "all-to-all" else len(job.group)
    if min(given) < 0 or max(given) >= shards:
        return f"they must lie between 0 and {shards - 1}"
    if job.pattern in ("all-gather", "reduce-scatter", "all-to-all", "gather", "scatter"):
        counts = np.bincount(given, minlength=shards)
        wanted = counts if job.pattern != "all-to-all" else counts[counts > 0]
        if wanted.min() != wanted.max():
            return "each must be cut into equally many chunks"
    return ""


def _depths(need_start: Any, need: Any, depth: Any) -> bool:
    """Fill the longest chain of needs behind each transfer; False where one needs a later one."""
    for transfer in range(len(depth)):
        most = 0
        for k in range(need_start[transfer], need_start[transfer + 1]):
            if need[k] >= transfer:
                return False
            if depth[need[k]] >= most:
                most = depth[need[k]] + 1
        depth[transfer] = most
    return True


def _scrambled(count: int) -> Any:
    """Return numbers that look random (splitmix64, Steele et al. 2014); numpy's own generators take longer to load."""
    state = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def _contributions(plan: SchedulePlan) -> tuple[Any, Any, Any]:
    """Return (what each node holds at first, what it must hold, whether it must), shape (nodes, chunks)."""
    fabric = plan.problem.fabric
    state = np.zeros((len(fabric.nodes), len(plan.shards)), dtype=np.uint64)
    wanted, asked = np.zeros_like(state), np.zeros(state.shape, dtype=bool)
    # No two contributions of any jobs are alike, so that one job's data never passes for another's.
    drawn = _scrambled(
        sum(len(job.group) * count for job, count in zip(plan.problem.jobs, plan.chunk_counts, strict=True))
    )
    starts = plan.job_starts.tolist()
    for number, job in enumerate(plan.problem.jobs):
        begin, end = starts[number], starts[number + 1]
        chunks = end - begin
        nodes = np.array(fabric.seats)[np.array(job.group)]
        values, drawn = drawn[: len(nodes) * chunks].reshape(len(nodes), chunks), drawn[len(nodes) * chunks :]
        shards = np.array(plan.shards[begin:end])
        has, ends, sums = conditions(job.pattern, np.arange(len(nodes))[:, None], shards[None, :], len(nodes))
        state[nodes, begin:end] = np.where(has, values, 0)
        result = values.sum(axis=0, dtype=np.uint64) if sums else values[has.argmax(axis=0), np.arange(chunks)]
        wanted[nodes, begin:end] = np.where(ends, result, 0)
        asked[nodes, begin:end] = ends
    return state, wanted, asked


def _in_steps(plan: SchedulePlan, depth: Any) -> list[str]:
    transfers, chunks = plan.transfers, len(plan.shards)
    state, wanted, asked = _contributions(plan)
    flat = state.reshape(-1)
    order = np.argsort(depth, kind="stable")
    cuts = np.searchsorted(depth[order], np.arange(int(depth.max(initial=0)) + 2))
    for begin, end in itertools.pairwise(cuts.tolist()):
        rows = order[begin:end]
        count = transfers.count[rows]
        which = np.repeat(rows, count)
        chunk = np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count) + transfers.first[which]
        carried = flat[transfers.source[which].astype(np.int64) * chunks + chunk]
        place = transfers.target[which].astype(np.int64) * chunks + chunk
        adds = transfers.reduce[which] == 1
        flat[place[~adds]] = carried[~adds]
        np.add.at(flat, place[adds], carried[adds])
    return _result_faults(plan, state, wanted, asked)


def _result_faults(plan: SchedulePlan, state: Any, wanted: Any, asked: Any) -> list[str]:
    wrong = asked & (state != wanted)
    if not wrong.any():
        return []
    node, chunk = (int(one) for one in np.argwhere(wrong)[0])
    name = plan.problem.fabric.nodes[node].name
    number = int(plan.job_starts.searchsorted(chunk, side="right")) - 1
    return [
        f"data: {_of(plan, number)}{name} does not end with chunk {chunk} as the {plan.problem.jobs[number].pattern} asks for "
        f"({int(wrong.sum())} slots are wrong)"
    ]


def _every_order(plan: SchedulePlan) -> list[str]:
    transfers, chunks = plan.transfers, len(plan.shards)
    state, wanted, asked = _contributions(plan)
    starts, needs = transfers.need_start.tolist(), transfers.need.tolist()
    source, target = transfers.source.tolist(), transfers.target.tolist()
    first, count, reduces = transfers.first.tolist(), transfers.count.tolist(), transfers.reduce.tolist()
    behind: list[int] = []  # the ancestors of each transfer, as bits
    writes: dict[int, list[int]] = {}
    sent: list[list[int]] = []
    initial = state.reshape(-1).tolist()
    for row in range(len(transfers)):
        bits = 0
        for k in range(starts[row], starts[row + 1]):
            bits |= behind[needs[k]] | 1 << needs[k]
        behind.append(bits)
        carried = []
        for chunk in range(first[row], first[row] + count[row]):
            slot = source[row] * chunks + chunk
            carried.append(_value(initial[slot], writes.get(slot, ()), bits, first, sent, reduces, chunk))
        sent.append(carried)
        for chunk in range(first[row], first[row] + count[row]):
            slot = target[row] * chunks + chunk
            earlier = writes.setdefault(slot, [])
            for other in earlier:
                if not (reduces[row] and reduces[other]) and not bits >> other & 1:
                    name = plan.problem.fabric.nodes[target[row]].name
                    return [
                        f"race: transfers {other} and {row} both write chunk {chunk} at {name}, and neither needs the other"
                    ]
            earlier.append(row)
    everything = (1 << len(transfers)) - 1
    final = list(initial)
    for slot, rows in writes.items():
        final[slot] = _value(initial[slot], rows, everything, first, sent, reduces, slot % chunks)
    return _result_faults(plan, np.array(final, dtype=np.uint64).reshape(state.shape), wanted, asked)


def _value(
    initial: int, writes: Any, bits: int, first: list[int], sent: list[list[int]], reduces: list[int], chunk: int
) -> int:
    value = initial
    for row in writes:
        if bits >> row & 1:
            received = sent[row][chunk - first[row]]
            value = (value + received) % 2**64 if reduces[row] else received
    return value
