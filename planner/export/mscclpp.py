"""Schedules as MSCCL++ plans (version 2): puts and signals over memory channels in a box, over port channels between boxes.

A lane at a rank is a thread block, or several that hand over by semaphores where one is too small. Whatever leaves a block
comes after a barrier of the block, and whatever arrives is used after one.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from fabric_plan.planner.errors import InvalidInput, PlanRejected
from fabric_plan.planner.export.boxes import boxes_of
from fabric_plan.planner.export.drafts import Drafts, Exported, TooLarge, told
from fabric_plan.planner.export.lanes import Item, items_of, lanes_of
from fabric_plan.planner.export.mscclpp_rank import (
    BLOCK_CHANNELS,
    MOST_BLOCKS,
    OP_CHANNELS,
    OPS,
    SEMAPHORES,
    Block,
    Rank,
    here,
    plan_document,
)
from fabric_plan.planner.export.pieces import NAMES, Layout, Message, pieces_of
from fabric_plan.planner.export.steps import Broken

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan

LANES = (8, 16, 32, 64, 128, MOST_BLOCKS)
"""Most lanes that are tried."""

_RESERVED = 8
"""Operations of a block beside its items: hellos, and handing over to the next."""


@dataclass
class Part:
    """A stretch of a lane at a rank, which one thread block runs: groups of items that need nothing of one another."""

    groups: list[list[Item]] = field(default_factory=list)
    number: int = -1
    after: int = -1
    """The semaphore that the part before releases; -1: it is the first."""
    release: int = -1
    """The one that it releases for the next; -1: it is the last."""


def write_mscclpp(plan: SchedulePlan) -> Exported:
    """Return a schedule as an MSCCL++ plan that the executor runs.

    Raises
    ------
    InvalidInput
        When the executor's limits are too small for it, with the limit, the need, and what would fit.
    PlanRejected
        When our own checker refuses the file: a defect here.
    """
    pieces = pieces_of(plan)
    if pieces.through:
        from fabric_plan.planner.export.mscclpp_switch import switch_document

        return _checked(switch_document(plan, pieces))
    drafts = Drafts(plan, pieces.layout, pieces.messages)
    refused: TooLarge | None = None
    for whole in (True, False):
        if not whole:
            drafts.split(set(range(len(drafts.messages))))
        for most in LANES:
            try:
                return _checked(_document(plan, drafts, most))
            except TooLarge as error:
                refused = error
    assert refused is not None
    raise InvalidInput(told(plan, "mscclpp-json", refused))


def _document(plan: SchedulePlan, drafts: Drafts, most: int) -> dict[str, Any]:
    layout = drafts.layout
    while True:
        lane = lanes_of(layout, drafts.messages, most)
        try:
            items, scratch = items_of(layout, drafts.messages, drafts.events, lane)
            break
        except Broken as error:
            drafts.split(error.messages)
    job = plan.problem.jobs[0]
    writer = _Writer(layout, drafts.messages, boxes_of(plan.problem.fabric, job.group))
    ranks = writer.ranks_of(items)
    gpus = [one.document((*_sizes(layout), scratch[one.rank])) for one in ranks]
    name = f"{NAMES[job.pattern]}_{plan.algorithm}_{layout.ranks}".replace("-", "_")
    return plan_document(name, NAMES[job.pattern], gpus, in_place=layout.pattern != "all-to-all")


def _sizes(layout: Layout) -> tuple[int, int]:
    """Return pieces of (input, output), as the executor takes them from the caller."""
    if layout.pattern == "all-gather":
        return layout.each, layout.whole
    return layout.whole, layout.each if layout.pattern == "reduce-scatter" else layout.whole


class _Writer:
    """Makes thread blocks of items; raises TooLarge where the executor has no room."""

    def __init__(self, layout: Layout, messages: Sequence[Message], box: list[int]) -> None:
        self.layout, self.messages, self.box = layout, messages, box
        self.ranks = [Rank(rank) for rank in range(layout.ranks)]
        self.block_of: dict[tuple[int, bool], int] = {}
        """By message and end: the thread block there."""
        self.channel: dict[tuple[str, int, int, int, int], int] = {}
        """By kind, rank, its block, the other rank, its block: the rank's number for the channel."""

    def kind(self, a: int, b: int) -> str:
        """The kind of channel between two ranks."""
        return "memory" if self.box[a] == self.box[b] else "port"

    def ranks_of(self, items: dict[tuple[int, int], list[Item]]) -> list[Rank]:
        """Return all ranks with their thread blocks."""
        parts: list[tuple[int, Part]] = []
        for (rank, _), rows in sorted(items.items()):
            mine = self._parts(rank, rows)
            for k, part in enumerate(mine):
                part.number = len(self.ranks[rank].blocks)
                self.ranks[rank].block()
                if k:
                    part.after = mine[k - 1].release = self.ranks[rank].semaphores
                    self.ranks[rank].semaphores += 1
                parts.append((rank, part))
                for item in itertools.chain(*part.groups):
                    self.block_of[item.message, item.send] = part.number
        worst = max(self.ranks, key=lambda one: one.semaphores)
        if worst.semaphores > SEMAPHORES:
            raise TooLarge("semaphores of a rank", worst.semaphores, SEMAPHORES)
        largest = max(len(one.blocks) for one in self.ranks)
        if largest > MOST_BLOCKS:
            raise TooLarge("thread blocks of a rank", largest, MOST_BLOCKS)
        self._channels()
        hellos: dict[tuple[int, int], list[int]] = defaultdict(list)
        for _, part in parts:
            for item in itertools.chain(*part.groups):
                if item.send and item.hello:
                    hellos[self.messages[item.message].target, self.block_of[item.message, False]].append(item.message)
        for rank, part in parts:
            self._emit(rank, part, hellos[rank, part.number])
        if self.layout.pattern == "all-to-all":
            for one in self.ranks:
                place = one.rank * self.layout.each
                same = [here(buffer, place, self.layout.each) for buffer in "io"]
                one.block().add("copy", src_buff=same[:1], dst_buff=same[1:])
        return self.ranks

    def _parts(self, rank: int, items: list[Item]) -> list[Part]:
        """Cut a lane into groups, and those into parts that fit a thread block."""
        groups: list[list[Item]] = []
        for item in items:
            last = groups[-1] if groups else []
            if last and last[0].send == item.send and len(last) < OP_CHANNELS:
                last.append(item)
            else:
                groups.append([item])
        parts = [Part()]
        used, peers = 0, set[int]()
        for group in groups:
            others = {self._other(item) for item in group}
            ports = sum(self.kind(rank, self._other(item)) == "port" for item in group)
            cost = 8 + ports if group[0].send else 3 + 2 * len(group)
            if parts[-1].groups and (used + cost > OPS - _RESERVED or len(peers | others) > OP_CHANNELS):
                parts.append(Part())
                used, peers = 0, set()
            parts[-1].groups.append(group)
            used += cost
            peers |= others
        return parts

    def _other(self, item: Item) -> int:
        one = self.messages[item.message]
        return one.target if item.send else one.source

    def _channels(self) -> None:
        """Number the channels: one between each two blocks that talk, listed by both ranks in the same order."""
        found: dict[tuple[int, int], set[tuple[int, int]]] = defaultdict(set)
        for number, one in enumerate(self.messages):
            ends = self.block_of[number, True], self.block_of[number, False]
            if one.source > one.target:
                ends = ends[::-1]
            found[min(one.source, one.target), max(one.source, one.target)].add(ends)
        for (a, b), pairs in sorted(found.items()):
            kind = self.kind(a, b)
            for x, y in sorted(pairs):
                for rank, mine, other, its in ((a, x, b, y), (b, y, a, x)):
                    listed = self.ranks[rank].channels[kind]
                    self.channel[kind, rank, mine, other, its] = len(listed)
                    listed.append(other)

    def _local(self, block: Block, rank: int, message: int) -> tuple[str, int]:
        """Return (kind, the block's number) of the channel that a message takes, at one of its ends."""
        one = self.messages[message]
        send = one.source == rank
        other = one.target if send else one.source
        kind = self.kind(rank, other)
        mine, its = self.block_of[message, send], self.block_of[message, not send]
        return kind, block.channel(kind, self.channel[kind, rank, mine, other, its])

    def _emit(self, rank: int, part: Part, hellos: list[int]) -> None:
        block = self.ranks[rank].blocks[part.number]
        stream = _Stream(block)
        stream.sync("rlxsignal", [self._local(block, rank, message) for message in hellos])
        if part.after >= 0:
            stream.acquire(part.after)
        for group in part.groups:
            if group[0].send:
                self._sends(rank, block, stream, group)
            else:
                self._receives(rank, block, stream, group)
        stream.meet()
        if part.release >= 0:
            block.add("sem_release", semaphore_ids=[part.release])
        if block.channels > BLOCK_CHANNELS:
            raise TooLarge("channels of a thread block", block.channels, BLOCK_CHANNELS)
        if len(block.ops) > OPS:
            raise TooLarge("operations of a thread block", len(block.ops), OPS)

    def _sends(self, rank: int, block: Block, stream: _Stream, group: list[Item]) -> None:
        stream.sync("rlxwait", [self._local(block, rank, item.message) for item in group if item.hello])
        stream.meet()
        near: dict[str, list[Item]] = defaultdict(list)
        for item in group:
            if self._local(block, rank, item.message)[0] == "memory":
                near[item.place[0]].append(item)
        for items in near.values():
            block.add("put", **self._ends(block, "memory", items), channel_type="memory")
            stream.dirty = True
        if near:
            stream.meet()
            ready = [self._local(block, rank, item.message) for items in near.values() for item in items]
            stream.sync("signal", ready)
        for item in group:
            kind, number = self._local(block, rank, item.message)
            if kind == "port":
                block.add("pwsf", **self._ends(block, kind, [item]), channel_ids=[number], channel_type=kind)

    def _ends(self, block: Block, kind: str, items: list[Item]) -> dict[str, Any]:
        sources, targets = [], []
        for item in items:
            one = self.messages[item.message]
            sources.append(here(*item.place, one.count))
            targets.append(block.there(kind, one.target, *item.landing, one.count))
        return {"src_buff": sources, "dst_buff": targets}

    def _receives(self, rank: int, block: Block, stream: _Stream, group: list[Item]) -> None:
        stream.sync("wait", [self._local(block, rank, item.message) for item in group])
        touched: set[int] = set()
        for item in group:
            one = self.messages[item.message]
            if item.landing == item.place and item.base is None:
                continue
            if stream.heard or touched & set(one.pieces):
                stream.meet()
                touched = set()
            landed, target = here(*item.landing, one.count), here(*item.place, one.count)
            if item.base is None:
                block.add("copy", src_buff=[landed], dst_buff=[target])
            else:
                sources = [here(*item.base, one.count), landed]
                block.add("re", src_buff=sources, dst_buff=[target], reduce_op="sum")
            stream.dirty = True
            touched |= set(one.pieces)


class _Stream:
    """What a thread block has done since its last barrier."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.dirty = False
        self.heard = False

    def meet(self) -> None:
        """A barrier of the block, if anything came since the last."""
        if self.dirty or self.heard:
            self.block.add("nop")
        self.dirty = self.heard = False

    def acquire(self, semaphore: int) -> None:
        """Wait for the part before."""
        self.block.add("sem_acquire", semaphore_ids=[semaphore])
        self.heard = True

    def sync(self, name: str, channels: list[tuple[str, int]]) -> None:
        """Signal or wait on channels (kind, number), as often as each is named."""
        for kind in ("memory", "port"):
            rest = [number for one, number in channels if one == kind]
            # Proxies know no relaxed signals.
            called = name.removeprefix("rlx") if kind == "port" else name
            while rest:
                ids: list[int] = []
                later: list[int] = []
                for number in rest:
                    (later if number in ids or len(ids) == OP_CHANNELS else ids).append(number)
                self.block.add(called, channel_ids=ids, channel_type=kind)
                if called.endswith("wait"):
                    self.heard = True
                rest = later


def _checked(document: dict[str, Any]) -> Exported:
    """Return the file of a plan that our own checker accepts."""
    from fabric_plan.planner.threads.check_mscclpp import check

    data = msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"
    verdict = check(data, root=0).verdict
    if verdict.verdict != "valid":
        found = tuple(one.message for one in verdict.findings if one.severity == "error") or (verdict.verdict,)
        raise PlanRejected(f"mscclpp-json: the checker refuses the file: {found[0]}", found)
    return Exported(data)
