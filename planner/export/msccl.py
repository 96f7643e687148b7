"""Schedules as MSCCL XML: connections, channels and thread blocks, within what the executor takes.

A connection carries at most so many messages that its thread block has room for them; what comes after takes a further
channel. Every file is read by our own checker before anybody else sees it, which also says up to which size the room of
the connections suffices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric_plan.planner.errors import InvalidInput, PlanRejected
from fabric_plan.planner.export.drafts import Drafts, Exported, TooLarge, told
from fabric_plan.planner.export.order import Event
from fabric_plan.planner.export.pieces import NAMES, Message, cut, pieces_of
from fabric_plan.planner.export.steps import Action, Actions, Broken, Connection, actions_of
from fabric_plan.planner.export.waits import waits_of
from fabric_plan.planner.threads.msccl_header import LIMITS

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import SchedulePlan

LIMIT = LIMITS["executor"]
MOST_DEPID = 127
"""Thread blocks that can be waited for are numbered in a signed byte."""

CAPS = (60, 50, 40, 30, 20, 12, 6)
"""Messages of a connection that are tried, most first."""


@dataclass(eq=False)
class Block:
    """A thread block: its connections and actions."""

    receive: Connection | None
    send: Connection | None
    actions: list[Action]

    @property
    def channel(self) -> int:
        """The channel of its connections."""
        ends = self.receive or self.send
        return ends[2] if ends is not None else 0


@dataclass(frozen=True)
class Step:
    """A line of the file: an action or, without one, a nop; what it waits for, as (block, action number)."""

    action: Action | None
    wait: tuple[int, int] | None = None


def write_msccl(plan: SchedulePlan, *, protocol: str = "Simple") -> Exported:
    """Return a schedule as an MSCCL XML file that the executor loads and that is right at every size that it allows.

    Raises
    ------
    InvalidInput
        When the format cannot say it (switches that reduce), or the executor's limits are too small for it: with the limit, the need,
        and what would fit.
    PlanRejected
        When our own checker refuses the file: a defect here.
    """
    pieces = pieces_of(plan)
    if pieces.through:
        raise InvalidInput(
            f"msccl-xml: transfer {pieces.through[0]} begins or ends at a switch, which thread blocks of GPUs cannot say: "
            "export to mscclpp-json"
        )
    messages = [part for one in pieces.messages for part in cut(one, LIMIT.count - 1)]
    drafts = Drafts(plan, pieces.layout, messages)
    refused: TooLarge | None = None
    hanging = ""
    for fuse in (True, False):
        for cap in CAPS:
            try:
                text = _Writer(plan, drafts, cap, fuse=fuse, protocol=protocol)
            except TooLarge as error:
                refused = error
                if error.what != "steps in a thread block":
                    break  # shorter connections need more of all else
                continue
            found = _checked(plan, text)
            if isinstance(found, Exported):
                return found
            hanging = found
            break
    if hanging:
        raise InvalidInput(f"msccl-xml: {hanging}: choose another planner, or mscclpp-json, which has no such messages")
    assert refused is not None
    raise InvalidInput(told(plan, "msccl-xml", refused))


class _Writer:
    """One way to cut a schedule into connections of at most ``cap`` messages; raises TooLarge."""

    def __init__(self, plan: SchedulePlan, drafts: Drafts, cap: int, *, fuse: bool, protocol: str) -> None:
        self.plan, self.layout, self.protocol = plan, drafts.layout, protocol
        while True:
            channel = channels_of(drafts.messages, drafts.events, cap)
            self.channels = max(channel, default=0) + 1
            if self.channels > LIMIT.channels:
                raise TooLarge("channels", self.channels, LIMIT.channels)
            try:
                self.actions = actions_of(drafts.layout, drafts.messages, drafts.events, channel, fuse=fuse)
                break
            except Broken as error:
                drafts.split(error.messages)
        self.gpus = [self._gpu(rank) for rank in range(self.layout.ranks)]

    def _gpu(self, rank: int) -> tuple[list[Block], list[list[Step]]]:
        blocks, block_of = blocks_of(self.actions, rank)
        if len(blocks) > LIMIT.blocks:
            raise TooLarge("thread blocks of a rank", len(blocks), LIMIT.blocks)
        actions = self.actions.of_rank[rank]
        waits = waits_of(actions, block_of)
        steps: list[list[Step]] = [[] for _ in blocks]
        for number, one in enumerate(actions):
            mine = steps[block_of[number]]
            ends = [(block_of[other], other) for other in waits[number]]
            mine += [Step(None, end) for end in ends[:-1]]
            mine.append(Step(one, ends[-1] if ends else None))
            deepest = max((end[0] for end in ends), default=0)
            if deepest > MOST_DEPID:
                raise TooLarge("thread blocks of a rank that others wait for", deepest + 1, MOST_DEPID + 1)
        longest = max(map(len, steps), default=0)
        if longest > LIMIT.steps:
            raise TooLarge("steps in a thread block", longest, LIMIT.steps)
        whole = 1 + self.layout.ranks + len(blocks) + sum(map(len, steps))
        if whole > LIMIT.nodes:
            raise TooLarge("elements of a rank's file", whole, LIMIT.nodes)
        return blocks, steps

    def text(self, least: int, most: int) -> bytes:
        """Return the file for a window of sizes in bytes; ``most`` 0: without limit."""
        layout, job = self.layout, self.plan.problem.jobs[0]
        name = f"{NAMES[job.pattern]}_{self.plan.algorithm}_{layout.ranks}"
        inside = 0 if layout.pattern == "all-to-all" else 1
        head = {
            "name": name.replace("-", "_"),
            "proto": self.protocol,
            "nchannels": self.channels,
            "nchunksperloop": layout.whole,
            "ngpus": layout.ranks,
            "coll": NAMES[job.pattern],
            "inplace": inside,
            "outofplace": 1,
            "minBytes": least,
            "maxBytes": most,
        }
        lines = [_tag("algo", head)]
        for rank, (blocks, steps) in enumerate(self.gpus):
            inputs, outputs = layout.sizes(rank)
            sizes = {"i_chunks": inputs, "o_chunks": outputs, "s_chunks": self.actions.scratch[rank]}
            lines.append("  " + _tag("gpu", {"id": rank, **sizes}))
            self._blocks(lines, blocks, steps)
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""]).encode()

    def _blocks(self, lines: list[str], blocks: list[Block], steps: list[list[Step]]) -> None:
        number = {id(step.action): k for rows in steps for k, step in enumerate(rows) if step.action is not None}
        by_place = {step.action.number: step.action for rows in steps for step in rows if step.action is not None}
        asked = {step.wait[1] for rows in steps for step in rows if step.wait is not None}
        for k, (block, rows) in enumerate(zip(blocks, steps, strict=True)):
            send = block.send[1] if block.send is not None else -1
            recv = block.receive[0] if block.receive is not None else -1
            lines.append("    " + _tag("tb", {"id": k, "send": send, "recv": recv, "chan": block.channel}))
            for s, step in enumerate(rows):
                depid, deps = -1, -1
                if step.wait is not None:
                    depid, deps = step.wait[0], number[id(by_place[step.wait[1]])]
                lines.append("      " + _step(s, step.action, depid, deps, asked))
            lines.append("    </tb>")


def _step(s: int, one: Action | None, depid: int, deps: int, asked: set[int]) -> str:
    if one is None:
        body = {"srcbuf": "i", "srcoff": -1, "dstbuf": "o", "dstoff": -1, "cnt": 0}
        values = {"s": s, "type": "nop", **body, "depid": depid, "deps": deps, "hasdep": 0}
    else:
        source = one.source or one.target
        target = one.target or one.source
        assert source is not None
        assert target is not None
        body = {"srcbuf": source[0], "srcoff": source[1], "dstbuf": target[0], "dstoff": target[1]}
        flag = int(one.number in asked)
        values = {
            "s": s,
            "type": one.kind,
            **body,
            "cnt": len(one.pieces),
            "depid": depid,
            "deps": deps,
            "hasdep": flag,
        }
    return _tag("step", values).replace(">", "/>")


def _tag(name: str, values: dict[str, object]) -> str:
    return f"<{name} " + " ".join(f'{key}="{value}"' for key, value in values.items()) + ">"


def channels_of(messages: Sequence[Message], events: Sequence[Event], cap: int) -> list[int]:
    """Return the channel of each message: one for the first ``cap`` of a pair of ranks, another for the next, and so on.

    A channel has at most as many peers a rank as the executor takes.
    """
    colour: dict[tuple[int, int], int] = {}
    sends: Counter[tuple[int, int]] = Counter()
    receives: Counter[tuple[int, int]] = Counter()
    sent: Counter[tuple[int, int]] = Counter()
    place = [0] * len(messages)
    for event in events:
        if not event.send:
            continue
        one = messages[event.message]
        pair = one.source, one.target
        if pair not in colour:
            k = 0
            while sends[one.source, k] >= LIMIT.peers or receives[one.target, k] >= LIMIT.peers:
                k += 1
            colour[pair] = k
            sends[one.source, k] += 1
            receives[one.target, k] += 1
        place[event.message] = sent[pair] // cap
        sent[pair] += 1
    colours = max(colour.values(), default=0) + 1
    return [colour[one.source, one.target] + colours * part for one, part in zip(messages, place, strict=True)]


def blocks_of(actions: Actions, rank: int) -> tuple[list[Block], list[int]]:
    """Return a rank's thread blocks, and the block of each of its actions.

    Connections that share steps share a block; others have one each, while the executor can still number them.
    """
    mine = actions.of_rank[rank]
    lines_in = dict.fromkeys(one.receive for one in mine if one.receive is not None)
    lines_out = dict.fromkeys(one.send for one in mine if one.send is not None)
    partner: dict[Connection, Connection] = {
        end: actions.joined[end] for end in lines_in if actions.joined.get(end) in lines_out
    }
    if len(lines_in) + len(lines_out) - len(partner) > MOST_DEPID:
        free = [line for line in lines_out if line not in set(partner.values())]
        for end in lines_in:
            if end not in partner:
                fitting = next((line for line in free if line[2] == end[2]), None)
                if fitting is not None:
                    partner[end] = fitting
                    free.remove(fitting)
    blocks: list[Block] = []
    of_in: dict[Connection, int] = {}
    of_out: dict[Connection, int] = {}
    copying = -1
    block_of: list[int] = []
    backwards = {after: before for before, after in partner.items()}
    for one in mine:
        if one.receive is None and one.send is None:
            if copying < 0:
                copying = len(blocks)
                blocks.append(Block(None, None, []))
            number = copying
        else:
            inside: Connection | None = one.receive
            outside: Connection | None = one.send
            if inside is None and outside is not None:
                inside = backwards.get(outside)
            elif outside is None and inside is not None:
                outside = partner.get(inside)
            if inside is not None and inside in of_in:
                number = of_in[inside]
            elif outside is not None and outside in of_out:
                number = of_out[outside]
            else:
                number = len(blocks)
                blocks.append(Block(inside, outside, []))
                if inside is not None:
                    of_in[inside] = number
                if outside is not None:
                    of_out[outside] = number
        blocks[number].actions.append(one)
        block_of.append(number)
    return blocks, block_of


def _checked(plan: SchedulePlan, writer: _Writer) -> Exported | str:
    """Return the file, with a window of sizes in which it ends; or, as a text, that it never ends at any."""
    from fabric_plan.planner.threads.check_msccl import check
    from fabric_plan.planner.units import format_size

    data = writer.text(0, 0)
    verdict = check(data, root=0).verdict
    notes: tuple[str, ...] = ()
    if verdict.hangs_above is not None:
        most = verdict.hangs_above
        data = writer.text(0, most)
        verdict = check(data, root=0).verdict
        notes = (f"it is for sizes up to {format_size(most)} (maxBytes): above, its connections fill up",)
        if plan.problem.jobs[0].size > most:
            notes += (
                f"the plan's own size is {format_size(plan.problem.jobs[0].size)}, for which it will not be selected",
            )
    refusing = [
        one
        for one in verdict.findings
        if one.severity == "error" or (one.severity == "profile" and "executor" in one.profiles)
    ]
    if any(one.code == "hang" for one in refusing):
        return "its messages fill the connections and stop at every size"
    if verdict.verdict != "valid" or refusing:
        told = tuple(one.message for one in refusing) or (verdict.verdict,)
        raise PlanRejected(f"msccl-xml: the checker refuses the file: {told[0]}", told)
    return Exported(data, notes)
