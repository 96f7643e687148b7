"""For which sizes of a chunk the pipelines of an MSCCL++ plan are followed: one unit, two, and until scratch has come round."""

from __future__ import annotations

from fabric_plan.planner.formats.mscclpp_json import Loop, Move, Plan
from fabric_plan.planner.threads.mscclpp import flat, loops_of
from fabric_plan.planner.threads.mscclpp_block import slots_of

MOST_STEPS = 40_000
"""Steps of all pipelines together, unrolled."""


def chunks_of(plan: Plan, pieces: int, size: int | None) -> list[int]:
    """Return bytes of a chunk for which a plan is followed, smallest first; without pipelines one is like the other.

    Parameters
    ----------
    pieces
        Chunks of the collective.
    size
        Bytes of the collective's larger buffer; None: all that the plan's window allows.
    """
    loops = loops_of(plan)
    if not loops:
        return [1]
    least = min(loop.unit for loop in loops)
    most = least * most_units(plan, loops, least)
    if size is not None:
        return [max(1, min(-(-size // pieces), most))]
    found = {least, 2 * least, min(most, least * steady(plan, loops, least))}
    low, high = -(-plan.low // pieces), most if plan.high is None else plan.high // pieces
    inside = sorted(one for one in found if low <= one <= high)
    return inside or [max(1, min(high, max(low, least), most))]


def most_units(plan: Plan, loops: list[Loop], least: int) -> int:
    """Return how many of the smallest units of a chunk can be followed, at least two."""
    each = sum(loop.chunks * max(1, sum(1 for op in loop.body for _ in flat(op))) for loop in loops)
    return max(2, MOST_STEPS // each)


def steady(plan: Plan, loops: list[Loop], least: int) -> int:
    """Return after how many of the smallest units nothing new happens: scratch has come round, semaphores have been used up."""
    most = 2
    depth = max((value for value in plan.semaphores.values()), default=0)
    for loop in loops:
        scratch = {
            ref.rank for op in loop.body for step in flat(op) if isinstance(step, Move) for ref in (*step.sources, *step.targets)
            if ref.buffer == "s"
        }  # fmt: skip
        slots = max((slots_of(plan, rank, loop) for rank in scratch), default=0)
        most = max(most, -(-(max(slots, min(depth, slots or depth)) + 2) * loop.unit // least))
    return most


def comes_round(plan: Plan) -> int | None:
    """Return after how many bytes of a chunk scratch is used again, the least over all pipelines and ranks; None: never."""
    found = [slots_of(plan, rank, loop) * loop.unit for loop in loops_of(plan) for rank in range(plan.ranks)]
    return min((one for one in found if one), default=None)
