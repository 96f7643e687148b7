"""Reduction and multicast in the switches, as MSCCL++ plans: one rank has a group's pieces loaded and added up, or stored, by the switch.

All ranks meet before, since each one's data must be there, and after, since each one's output must be. They meet in rounds: in
round k a rank hears from the one 2^k before it, so that few channels do for many ranks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.export.mscclpp_rank import MOST_BLOCKS, OPS, Block, Rank, here, plan_document
from fabric_plan.planner.export.pieces import NAMES, Layout, Pieces

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan


def switch_document(plan: SchedulePlan, pieces: Pieces) -> dict[str, Any]:
    """Return the plan of a schedule all of whose transfers run through switches.

    Raises
    ------
    InvalidInput
        When some do not, or a rank has more pieces to see to than its thread blocks hold.
    """
    layout, ranks = pieces.layout, pieces.layout.ranks
    if pieces.messages:
        direct = pieces.messages[0].transfer
        raise InvalidInput(
            f"mscclpp-json: transfer {direct} goes from rank to rank beside those through switches: choose another planner"
        )
    made = [Rank(rank) for rank in range(ranks)]
    buffer = "o" if layout.pattern == "all-gather" else "i"
    everyone = tuple(range(ranks))
    work: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for first, count, rank in _shares(layout):
        work[rank].append({"index": first, "size": count})
    for one in made:
        mine = work[one.rank]
        cuts = [mine[k : k + OPS - 3] for k in range(0, len(mine), OPS - 3)]
        if len(cuts) >= MOST_BLOCKS:
            raise InvalidInput(
                f"mscclpp-json: {len(mine):,} pieces for the switch at a rank, its thread blocks hold {(MOST_BLOCKS - 1) * (OPS - 3):,}: "
                "use fewer chunks"
            )
        groups = [(buffer, everyone)]
        if layout.pattern in ("reduce", "reduce-scatter"):
            groups.append((buffer, (one.rank,)))
        if cuts:
            one.groups += groups
        block = one.block()
        _meet(made, one, block, "rlxsignal", "rlxwait")
        for number in (0, 1):
            block.add("barrier", barrier_id=number, num_threadblocks=1 + len(cuts))
        _meet(made, one, block, "signal", "wait")
        for cut in cuts:
            _work(one.block(), layout, cut, buffer, 1 + len(cuts))
    outputs = layout.each if layout.pattern == "reduce-scatter" else layout.whole
    inputs = layout.each if layout.pattern == "all-gather" else layout.whole
    gpus = [one.document((inputs, outputs, 0)) for one in made]
    name = f"{NAMES[layout.pattern]}_{plan.algorithm}_{ranks}".replace("-", "_")
    return plan_document(name, NAMES[layout.pattern], gpus, in_place=True)


def _shares(layout: Layout) -> list[tuple[int, int, int]]:
    """Return (first piece, how many, the rank that sees to them): the owner, or each rank in turn."""
    if layout.pattern == "all-reduce":
        return [(piece, 1, piece % layout.ranks) for piece in range(layout.pieces)]
    return [(piece, 1, piece // layout.each) for piece in range(layout.pieces)]


def _work(block: Block, layout: Layout, cut: list[dict[str, Any]], buffer: str, blocks: int) -> None:
    block.add("barrier", barrier_id=0, num_threadblocks=blocks)
    whole = block.channel("switch", 0)
    for one in cut:
        if layout.pattern in ("all-gather", "broadcast"):
            source, target = here(buffer, one["index"], one["size"]), {"switch_channel_id": whole, **one}
            block.add("gstore", src_buff=[source], dst_buff=[target], channel_type="switch")
            continue
        number = block.channel("switch", 1) if layout.pattern in ("reduce", "reduce-scatter") else whole
        ends = {"src_buff": [{"switch_channel_id": whole, **one}], "dst_buff": [{"switch_channel_id": number, **one}]}
        block.add("glres", **ends, channel_type="switch", reduce_op="sum")
    block.add("barrier", barrier_id=1, num_threadblocks=blocks)


def _meet(made: list[Rank], one: Rank, block: Block, signal: str, wait: str) -> None:
    """Have a rank meet all others, in as many rounds as its number of ranks has bits."""
    ranks = len(made)
    listed = one.channels["memory"]
    step = 1
    while step < ranks:
        ends = (one.rank + step) % ranks, (one.rank - step) % ranks
        for end in ends:
            if end not in listed:
                listed.append(end)
        block.add(signal, channel_ids=[block.channel("memory", listed.index(ends[0]))], channel_type="memory")
        block.add(wait, channel_ids=[block.channel("memory", listed.index(ends[1]))], channel_type="memory")
        step *= 2
    block.add("nop")
