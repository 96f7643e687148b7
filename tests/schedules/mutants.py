"""Seeded mutations of a schedule, by the families a checker must tell apart.

``mutants(text, seed, count)`` takes the families that apply to the file in turn, in an order and with choices that the
seed decides. Waits are kept by reference, so that a step that is moved, added or dropped leaves the others' waits at
the steps they meant. Families 1 to 29 change MSCCL XML, family 30 MSCCL++ plans.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

FAMILIES = {
    1: "swap two adjacent steps",
    2: "drop a send",
    3: "drop a receive",
    4: "drop a send and its receive",
    5: "repeat a reduction",
    6: "lose a contribution: rrc to r, rrs to rcs, re to cpy",
    7: "count one twice: r to rrc, rcs to rrcs, cpy to re",
    8: "offset one off",
    9: "offset out of bounds",
    10: "one more chunk on one side",
    11: "remove a dependency",
    12: "depend one step too early",
    13: "clear hasdep",
    14: "cyclic dependency",
    15: "receive first on both peers",
    16: "change a channel or a peer",
    17: "two thread blocks on one connection",
    18: "move a step to a new thread block without waits",
    19: "alias scratch",
    20: "swap sends in a connection",
    21: "lose a forward",
    22: "relabel the collective, flip in place, double nchunksperloop, drop a thread block",
    23: "duplicate thread block, self peer, bad step number",
    24: "more bytes than the connections hold",
    25: "exceed a limit of a runtime",
    26: "dialect: nop chain, trailing nop, fused counts, depid",
    27: "reorder reductions on one rank",
    28: "use other links",
    29: "unreadable or not loadable text",
    30: "MSCCL++ plan",
}
ALWAYS_FAIL = (2, 3, 5, 6, 9, 14, 15, 16, 17, 21)
"""Families that leave no schedule right when it is minimal, as our samples are: no work whose result nobody needs."""
NEVER_FAIL = (25, 27, 28)
"""Families that change what a runtime accepts, how sums round, or which links are used; not what is computed."""


@dataclass(frozen=True)
class Mutant:
    """A changed file. ``line`` is the line of the changed step in the new text, where there is one."""

    family: int
    name: str
    text: str
    line: int | None
    equivalent_possible: bool


@dataclass(eq=False)
class Step:
    """A step; ``target`` is the step it waits for, which ``deps`` names once written."""

    attributes: dict[str, str]
    target: Step | None = None

    @property
    def kind(self) -> str:
        """The type."""
        return self.attributes["type"]

    def number(self, name: str) -> int:
        """An integer attribute."""
        return int(self.attributes[name])

    def set(self, **values: Any) -> Step:
        """Change attributes."""
        self.attributes.update({name: str(value) for name, value in values.items()})
        return self

    def copy(self) -> Step:
        """The same step again, without its waits, and not waited for."""
        return Step(dict(self.attributes)).set(hasdep=0, depid=-1, deps=-1)


@dataclass(eq=False)
class Block:
    """A thread block."""

    attributes: dict[str, str]
    steps: list[Step] = field(default_factory=list)

    @property
    def send(self) -> int:
        """The peer it sends to, or -1."""
        return int(self.attributes["send"])

    @property
    def recv(self) -> int:
        """The peer it receives from, or -1."""
        return int(self.attributes["recv"])

    @property
    def channel(self) -> int:
        """Its channel."""
        return int(self.attributes["chan"])


@dataclass(eq=False)
class Gpu:
    """A rank."""

    attributes: dict[str, str]
    blocks: list[Block] = field(default_factory=list)

    def size(self, name: str) -> int:
        """Declared chunks of a buffer."""
        return int(self.attributes[f"{name}_chunks"])


class Schedule:
    """The whole file, parsed for changing."""

    def __init__(self, text: str) -> None:
        algo = ET.fromstring(text)
        self.attributes = dict(algo.attrib)
        self.gpus: list[Gpu] = []
        for gpu_element in algo.findall("gpu"):
            gpu = Gpu(dict(gpu_element.attrib))
            for block_element in gpu_element.findall("tb"):
                steps = [Step(dict(element.attrib)) for element in block_element.findall("step")]
                gpu.blocks.append(Block(dict(block_element.attrib), steps))
            for block in gpu.blocks:
                for step in block.steps:
                    depid, deps = step.number("depid"), step.number("deps")
                    if 0 <= depid < len(gpu.blocks) and 0 <= deps < len(gpu.blocks[depid].steps):
                        step.target = gpu.blocks[depid].steps[deps]
            self.gpus.append(gpu)

    def text(self, mark: Step | Block | None = None) -> tuple[str, int | None]:
        """The file, waits renumbered, and the line of the marked element."""
        lines = [element("algo", self.attributes, "", ">")]
        line = None
        for gpu in self.gpus:
            place = {step: (k, s) for k, block in enumerate(gpu.blocks) for s, step in enumerate(block.steps)}
            lines.append(element("gpu", gpu.attributes, "  ", ">"))
            for k, block in enumerate(gpu.blocks):
                ids = block.attributes if "forced" in block.attributes else {**block.attributes, "id": str(k)}
                lines.append(element("tb", {n: v for n, v in ids.items() if n != "forced"}, "    ", ">"))
                if block is mark:
                    line = len(lines)
                for s, step in enumerate(block.steps):
                    attributes = dict(step.attributes)
                    if "forced" not in attributes:
                        attributes["s"] = str(s)
                    attributes.pop("forced", None)
                    if step.target is not None:
                        depid, deps = place.get(step.target, (step.number("depid"), step.number("deps")))
                        attributes.update(depid=str(depid), deps=str(deps))
                    lines.append(element("step", attributes, "      ", "/>"))
                    if step is mark:
                        line = len(lines)
                lines.append("    </tb>")
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""]), line

    def steps(self, *kinds: str) -> list[tuple[Gpu, Block, Step]]:
        """All steps of these types."""
        return [(g, b, s) for g in self.gpus for b in g.blocks for s in b.steps if s.kind in kinds]

    def ends(self, gpu: Gpu, block: Block) -> Block | None:
        """The thread block that receives what a block sends."""
        rank = self.gpus.index(gpu)
        if not 0 <= block.send < len(self.gpus):
            return None
        for other in self.gpus[block.send].blocks:
            if (other.recv, other.channel) == (rank, block.channel):
                return other
        return None

    def buffer_size(self, gpu: Gpu, name: str) -> int:
        """Chunks that can be used: in place, what the two names of one buffer declare together."""
        if name == "s":
            return gpu.size(name)
        if self.attributes.get("inplace") == "1" and self.attributes["coll"] in ("allreduce", "alltoall", "broadcast"):
            return max(gpu.size("i"), gpu.size("o"))
        return gpu.size(name)


def element(tag: str, attributes: dict[str, str], indent: str, end: str) -> str:
    """One start tag."""
    return f"{indent}<{tag} " + " ".join(f'{name}="{value}"' for name, value in attributes.items()) + end


SENDS = {"s", "rcs", "rrs", "rrcs"}
RECEIVES = {"r", "rcs", "rrs", "rrc", "rrcs"}
READS = {"s", "rrs", "rrc", "rrcs", "cpy", "re"}
STORES = {"r", "rcs", "rrc", "rrcs", "cpy", "re"}
Result = tuple[str, "Step | Block | None", bool] | None
Change = Callable[[Schedule, random.Random], Result]


def drop(block: Block, step: Step, gpu: Gpu) -> None:
    """Remove a step, with the nops before it; who waited for it waits for the step before."""
    k = block.steps.index(step)
    while k and block.steps[k - 1].kind == "nop":
        k -= 1
        block.steps.pop(k)
    block.steps.remove(step)
    for other in gpu.blocks:
        for waiting in other.steps:
            if waiting.target is step:
                waiting.target = block.steps[k - 1] if k else None
                if waiting.target is None:
                    waiting.set(deps=0)
                else:
                    waiting.target.set(hasdep=1)


def pick(rng: random.Random, choices: list[Any]) -> Any:
    """One of them, or None."""
    return rng.choice(choices) if choices else None


def swap_adjacent(m: Schedule, rng: random.Random) -> Result:
    """Family 1."""
    places = [
        (b, k)
        for g in m.gpus
        for b in g.blocks
        for k in range(len(b.steps) - 1)
        if "nop" not in (b.steps[k].kind, b.steps[k + 1].kind)
    ]
    if not places:
        return None
    block, k = rng.choice(places)
    first, second = block.steps[k : k + 2]
    block.steps[k : k + 2] = [second, first]
    # waits stay where they were: a step after a chain of nops must keep one
    first.target, second.target = second.target, first.target
    for name in ("depid", "deps"):
        first.attributes[name], second.attributes[name] = second.attributes[name], first.attributes[name]
    return f"swap {first.kind} and {second.kind}", second, True


def drop_send(m: Schedule, rng: random.Random) -> Result:
    """Family 2: a whole send, or the sending half of a step."""
    choice = pick(rng, m.steps("s", "rcs", "rrcs"))
    if choice is None:
        return None
    gpu, block, step = choice
    if step.kind == "s":
        drop(block, step, gpu)
        return "drop s", block, False
    before = step.kind
    step.set(type={"rcs": "r", "rrcs": "rrc"}[before])
    return f"{before} to {step.kind}", step, False


def drop_receive(m: Schedule, rng: random.Random) -> Result:
    """Family 3."""
    choice = pick(rng, m.steps("r", "rrc"))
    if choice is None:
        return None
    gpu, block, step = choice
    drop(block, step, gpu)
    return f"drop {step.kind}", block, False


def drop_pair(m: Schedule, rng: random.Random) -> Result:
    """Family 4: the n-th send and the n-th receive of a connection."""
    choices = []
    for gpu, block, step in m.steps("s"):
        other = m.ends(gpu, block)
        if other is None:
            continue
        n = [s for s in block.steps if s.kind in SENDS].index(step)
        receives = [s for s in other.steps if s.kind in RECEIVES]
        if n < len(receives) and receives[n].kind in ("r", "rrc"):
            choices.append((gpu, block, step, other, receives[n]))
    if not choices:
        return None
    gpu, block, step, other, receive = rng.choice(choices)
    drop(block, step, gpu)
    drop(other, receive, m.gpus[block.send])
    return f"drop s and its {receive.kind}", block, True


def repeat_reduction(m: Schedule, rng: random.Random) -> Result:
    """Family 5: reduce once more from the same place, or send and reduce once more."""
    choice = pick(rng, m.steps("re", "rrc", "rrcs", "rrs"))
    if choice is None:
        return None
    gpu, block, step = choice
    k = block.steps.index(step)
    if step.kind == "re":
        again = step.copy()
        block.steps.insert(k + 1, again)
        again.attributes["hasdep"], step.attributes["hasdep"] = step.attributes["hasdep"], "0"
        for other in gpu.blocks:
            for waiting in other.steps:
                if waiting.target is step:
                    waiting.target = again
        return "repeat re", again, False
    # what this step adds of its own is added again, by a copy of it onto itself beforehand
    source = {name: step.attributes[name] for name in ("srcbuf", "srcoff")}
    twice = step.copy().set(type="re", dstbuf=source["srcbuf"], dstoff=source["srcoff"], depid=step.attributes["depid"])
    twice.target, twice.attributes["deps"] = step.target, step.attributes["deps"]
    step.target = None
    step.set(depid=-1, deps=-1)
    block.steps.insert(k, twice)
    return f"add twice what {step.kind} adds", twice, False


def lose_contribution(m: Schedule, rng: random.Random) -> Result:
    """Family 6."""
    changes = {"rrc": "r", "rrs": "rcs", "re": "cpy", "rrcs": "rcs"}
    choice = pick(rng, m.steps(*changes))
    if choice is None:
        return None
    _, _, step = choice
    before = step.kind
    step.set(type=changes[before])
    if before in ("rrs",):
        step.set(dstbuf=step.attributes["srcbuf"], dstoff=step.attributes["srcoff"])
    return f"{before} to {step.kind}", step, False


def count_twice(m: Schedule, rng: random.Random) -> Result:
    """Family 7: add what the target holds."""
    changes = {"r": "rrc", "rcs": "rrcs", "cpy": "re"}
    choice = pick(rng, m.steps(*changes))
    if choice is None:
        return None
    _, _, step = choice
    before = step.kind
    step.set(type=changes[before])
    if before != "cpy":
        step.set(srcbuf=step.attributes["dstbuf"], srcoff=step.attributes["dstoff"])
    return f"{before} to {step.kind}", step, False


def sides(step: Step) -> list[tuple[str, str]]:
    """The attributes of the sides a step uses: (buffer, offset)."""
    used = []
    if step.kind in READS:
        used.append(("srcbuf", "srcoff"))
    if step.kind in STORES:
        used.append(("dstbuf", "dstoff"))
    return used


def shift_offset(m: Schedule, rng: random.Random) -> Result:
    """Family 8: one chunk off, inside the buffer."""
    choices = []
    for gpu, _, step in m.steps(*READS, *STORES):
        for buffer, offset in sides(step):
            for delta in (-1, 1):
                first = step.number(offset) + delta
                if 0 <= first <= m.buffer_size(gpu, step.attributes[buffer]) - step.number("cnt"):
                    choices.append((step, offset, first, delta))
    if not choices:
        return None
    step, offset, first, delta = rng.choice(choices)
    step.attributes[offset] = str(first)
    return f"{step.kind}: {offset} {delta:+d}", step, True


def out_of_bounds(m: Schedule, rng: random.Random) -> Result:
    """Family 9: begin at the end, or reach beyond it."""
    choices = [(g, s, side) for g, _, s in m.steps(*READS, *STORES) for side in sides(s)]
    if not choices:
        return None
    gpu, step, (buffer, offset) = rng.choice(choices)
    beyond = m.buffer_size(gpu, step.attributes[buffer])
    physical = int(m.attributes["nchunksperloop"]) if step.attributes[buffer] != "s" else beyond
    step.attributes[offset] = str(max(beyond, physical) + rng.choice((0, 0, 1, 7)))
    if step.number("cnt") > 1 and rng.random() < 0.5:
        step.attributes[offset] = str(max(beyond, physical) - step.number("cnt") + 1)
    return f"{step.kind}: {offset} out of bounds", step, False


def one_more(m: Schedule, rng: random.Random) -> Result:
    """Family 10."""
    choices = []
    for gpu, _, step in m.steps(*SENDS, *RECEIVES):
        ends = [step.number(o) + step.number("cnt") < m.buffer_size(gpu, step.attributes[b]) for b, o in sides(step)]
        if all(ends):
            choices.append(step)
    step = pick(rng, choices)
    if step is None:
        return None
    step.set(cnt=step.number("cnt") + 1)
    return f"{step.kind}: cnt + 1", step, False


def chain(block: Block, step: Step) -> list[Step]:
    """A step's waits: itself and the nops before it."""
    k = block.steps.index(step)
    result = [step]
    while k and block.steps[k - 1].kind == "nop":
        k -= 1
        result.append(block.steps[k])
    return result


def remove_wait(m: Schedule, rng: random.Random) -> Result:
    """Family 11: one wait of one step; the chain stays loadable."""
    choices = [(b, s) for _, b, s in m.steps(*READS, *STORES) if s.number("depid") >= 0]
    if not choices:
        return None
    block, step = rng.choice(choices)
    waits = chain(block, step)
    gone = rng.choice(waits)
    if gone is step and len(waits) > 1:
        # the wait of the last nop moves to the step
        gone = waits[1]
        step.target = gone.target
        step.set(depid=gone.attributes["depid"], deps=gone.attributes["deps"])
        block.steps.remove(gone)
    elif gone is step:
        step.target = None
        step.set(depid=-1, deps=-1)
    else:
        block.steps.remove(gone)
    return f"{step.kind}: one wait less", step, True


def too_early(m: Schedule, rng: random.Random) -> Result:
    """Family 12: wait for the step before the right one, which is made to publish."""
    choices = []
    for gpu in m.gpus:
        for block in gpu.blocks:
            for step in block.steps:
                if step.target is None:
                    continue
                owner = next(b for b in gpu.blocks if step.target in b.steps)
                k = owner.steps.index(step.target)
                while k and owner.steps[k - 1].kind == "nop":
                    k -= 1
                if k:
                    choices.append((step, owner.steps[k - 1]))
    if not choices:
        return None
    step, earlier = rng.choice(choices)
    step.target = earlier
    earlier.set(hasdep=1)
    return f"{step.kind}: waits for one step earlier", step, True


def clear_flag(m: Schedule, rng: random.Random) -> Result:
    """Family 13: a step that somebody waits for does not publish."""
    awaited = {s.target for g in m.gpus for b in g.blocks for s in b.steps if s.target is not None}
    step = pick(rng, [s for _, _, s in m.steps(*READS, *STORES) if s in awaited])
    if step is None:
        return None
    step.set(hasdep=0)
    return f"{step.kind}: hasdep 0", step, True


def cycle(m: Schedule, rng: random.Random) -> Result:
    """Family 14: what a step waits for is made to wait for that step."""
    choices = []
    for gpu in m.gpus:
        for block in gpu.blocks:
            for step in block.steps:
                if step.target is None or step.kind == "nop":
                    continue
                owner = next(b for b in gpu.blocks if step.target in b.steps)
                firsts = [s for s in owner.steps[: owner.steps.index(step.target) + 1] if s.kind != "nop"]
                # a reduction in the middle of a fused run would only end the run
                choices += [(owner, s, step) for s in firsts if owner is not block]
    if not choices:
        return None
    owner, first, step = rng.choice(choices)
    if first.target is None:
        first.target = step
        first.set(depid=0, deps=0)
    else:
        nop = first.copy().set(type="nop", cnt=0, srcoff=-1, dstoff=-1, depid=0, deps=0)
        nop.target = step
        owner.steps.insert(owner.steps.index(first), nop)
    step.set(hasdep=1)
    return f"{first.kind} and {step.kind} wait for each other", first, False


def receive_first(m: Schedule, rng: random.Random) -> Result:
    """Family 15: along a cycle of connections, the first send goes behind the receive after it."""

    def first_send(block: Block) -> int | None:
        real = [k for k, s in enumerate(block.steps) if s.kind != "nop"]
        for k, n in itertools.pairwise(real):
            if block.steps[k].kind in RECEIVES:
                return None
            if block.steps[k].kind == "s":
                good = n == k + 1 and block.steps[n].kind in RECEIVES and block.steps[k].number("depid") < 0
                return k if good else None
        return None

    choices = []
    for rank, gpu in enumerate(m.gpus):
        for start in gpu.blocks:
            seen, at, block = [], rank, start
            while block is not None and block.send >= 0 and first_send(block) is not None and block not in seen:
                seen.append(block)
                at, block = block.send, m.ends(m.gpus[at], block)
            if block is start and seen:
                choices.append(seen)
    blocks = pick(rng, choices)
    if blocks is None:
        return None
    for block in blocks:
        k = first_send(block)
        assert k is not None
        block.steps[k], block.steps[k + 1] = block.steps[k + 1], block.steps[k]
    return f"{len(blocks)} thread blocks in a cycle receive first", blocks[0], False


def other_connection(m: Schedule, rng: random.Random) -> Result:
    """Family 16: one end of a connection moves to a channel or a peer that has no other end."""
    used = [(g, b, side) for g in m.gpus for b in g.blocks for side in ("send", "recv") if int(b.attributes[side]) >= 0]
    if not used:
        return None
    gpu, block, side = rng.choice(used)
    rank, ranks = m.gpus.index(gpu), len(m.gpus)
    others = [
        p
        for p in range(ranks)
        if p not in (rank, int(block.attributes[side]))
        and not any(
            (b.recv if side == "send" else b.send, b.channel) == (rank, block.channel) for b in m.gpus[p].blocks
        )
    ]
    if others and rng.random() < 0.5:
        block.attributes[side] = str(rng.choice(others))
        return f"{side} another peer", block, False
    block.attributes["chan"] = str(int(m.attributes["nchannels"]))
    m.attributes["nchannels"] = str(int(m.attributes["nchannels"]) + 1)
    return "another channel", block, False


def split_connection(m: Schedule, rng: random.Random) -> Result:
    """Family 17: the last send of a connection moves to a second thread block."""
    choices = [
        (g, b)
        for g in m.gpus
        for b in g.blocks
        if sum(s.kind in SENDS for s in b.steps) > 1 and m.ends(g, b) is not None
    ]
    choices = [(g, b) for g, b in choices if [s for s in b.steps if s.kind in SENDS][-1].kind == "s"]
    if choices:
        gpu, block = rng.choice(choices)
        step = [s for s in block.steps if s.kind in SENDS][-1]
        waits = chain(block, step)[::-1]
        for s in waits:
            block.steps.remove(s)
        new = Block({**block.attributes, "recv": "-1"}, waits)
        gpu.blocks.append(new)
        return "a second thread block sends", new, False
    choices = [(g, b) for g in m.gpus for b in g.blocks if b.send >= 0 and any(s.kind in SENDS for s in b.steps)]
    if not choices:
        return None
    gpu, block = rng.choice(choices)
    step = next(s for s in block.steps if s.kind in SENDS)
    source = ("srcbuf", "srcoff") if step.kind in READS else ("dstbuf", "dstoff")
    again = step.copy().set(type="s", srcbuf=step.attributes[source[0]], srcoff=step.attributes[source[1]])
    new = Block({**block.attributes, "recv": "-1"}, [again])
    gpu.blocks.append(new)
    end = m.ends(gpu, block)
    if end is not None:
        last = max(k for k, s in enumerate(end.steps) if s.kind in RECEIVES)
        extra = end.steps[last].copy()
        if extra.kind in ("r", "rrc"):
            end.steps.insert(last + 1, extra.set(type="r"))
    return "a second thread block sends the same again", new, False


def move_away(m: Schedule, rng: random.Random) -> Result:
    """Family 18."""
    choice = pick(rng, m.steps("re", "cpy"))
    if choice is None:
        return None
    gpu, block, step = choice
    for wait in chain(block, step)[1:]:
        block.steps.remove(wait)
    block.steps.remove(step)
    step.target = None
    step.set(depid=-1, deps=-1)
    gpu.blocks.append(Block({**block.attributes, "send": "-1", "recv": "-1"}, [step]))
    return f"{step.kind} in a thread block of its own", step, True


def alias_scratch(m: Schedule, rng: random.Random) -> Result:
    """Family 19: all uses of one scratch place on a rank move to another."""
    choices = []
    for gpu in m.gpus:
        uses: dict[int, list[tuple[Step, str]]] = {}
        for block in gpu.blocks:
            for step in block.steps:
                for buffer, offset in sides(step):
                    if step.attributes[buffer] == "s":
                        uses.setdefault(step.number(offset), []).append((step, offset))
        for old in uses:
            for new in uses:
                widest = max(step.number("cnt") for step, _ in uses[old])
                if new != old and new + widest <= gpu.size("s"):
                    choices.append((uses[old], old, new))
    if not choices:
        return None
    places, old, new = rng.choice(choices)
    for step, offset in places:
        step.attributes[offset] = str(new)
    return f"scratch {old} becomes {new}", places[0][0], True


def swap_sends(m: Schedule, rng: random.Random) -> Result:
    """Family 20: two sends of a thread block exchange what they send."""
    choices = []
    for gpu in m.gpus:
        for block in gpu.blocks:
            sends = [s for s in block.steps if s.kind == "s"]
            for k, a in enumerate(sends):
                for b in sends[k + 1 :]:
                    if (a.attributes["srcbuf"], a.attributes["srcoff"]) != (
                        b.attributes["srcbuf"],
                        b.attributes["srcoff"],
                    ):
                        choices.append((a, b))
    if not choices:
        return None
    a, b = rng.choice(choices)
    for name in ("srcbuf", "srcoff", "cnt"):
        a.attributes[name], b.attributes[name] = b.attributes[name], a.attributes[name]
    return "two sends exchange their chunks", a, True


def lose_forward(m: Schedule, rng: random.Random) -> Result:
    """Family 21."""
    changes = {"rcs": "r", "rrcs": "rrc", "rrs": "rrc"}
    choice = pick(rng, m.steps(*changes))
    if choice is None:
        return None
    _, _, step = choice
    before = step.kind
    step.set(type=changes[before])
    return f"{before} to {step.kind}", step, False


def relabel(m: Schedule, rng: random.Random) -> Result:
    """Family 22."""
    algo = m.attributes
    which = rng.choice(("collective", "inplace", "double", "drop"))
    if which == "collective":
        before = algo["coll"].replace("_", "")
        others = {
            "allreduce": ("allgather", "alltoall", "broadcast"),
            "allgather": ("allreduce", "alltoall", "broadcast"),
            "reducescatter": ("allreduce", "alltoall", "allgather"),
            "alltoall": ("allreduce", "allgather"),
            "broadcast": ("allreduce", "alltoall"),
        }.get(before)
        if others is None:
            return None
        algo["coll"] = rng.choice(others)
        return f"{before} becomes {algo['coll']}", None, False
    if which == "inplace":
        inside = algo.get("inplace") == "1"
        algo.update(inplace=str(int(not inside)), outofplace=str(int(inside)))
        return "flip in place", None, True
    if which == "double":
        algo["nchunksperloop"] = str(2 * int(algo["nchunksperloop"]))
        return "double nchunksperloop", None, False
    gpu = rng.choice(m.gpus)
    if not gpu.blocks:
        return None
    block = rng.choice(gpu.blocks)
    gpu.blocks.remove(block)
    return "drop a thread block", None, False


def structure(m: Schedule, rng: random.Random) -> Result:
    """Family 23."""
    gpu = rng.choice(m.gpus)
    if not gpu.blocks:
        return None
    which = rng.choice(("duplicate", "self", "number"))
    block = rng.choice(gpu.blocks)
    if which == "duplicate":
        if len(gpu.blocks) < 2:
            return None
        other = rng.choice([b for b in gpu.blocks if b is not block])
        block.attributes.update(forced="1", id=str(gpu.blocks.index(other)))
        return "duplicate thread block id", block, False
    if which == "self":
        side = "send" if block.send >= 0 else "recv"
        block.attributes[side] = str(m.gpus.index(gpu))
        return "own rank as peer", block, False
    if not block.steps:
        return None
    step = rng.choice(block.steps)
    step.set(forced=1, s=step.number("s") + rng.choice((1, 2, 1000)))
    return "bad step number", step, True


def overflow(m: Schedule, rng: random.Random) -> Result:
    """Family 24: no window of sizes, and the protocol with the fewest messages in flight."""
    m.attributes.update(proto="Simple", minBytes="0", maxBytes="0")
    return "Simple, any size", None, True


def exceed_limit(m: Schedule, rng: random.Random) -> Result:
    """Family 25: nops at the end of a block, idle thread blocks, or a channel number."""
    which = rng.choice(("steps", "blocks", "channel"))
    gpu = rng.choice(m.gpus)
    if which == "channel":
        new = 128
        for g in m.gpus:
            for block in g.blocks:
                if block.channel == 0:
                    block.attributes["chan"] = str(new)
        m.attributes["nchannels"] = str(new + 1)
        return "channel 128", None, True
    if which == "blocks":
        while len(gpu.blocks) <= 216:
            gpu.blocks.append(Block({"id": "0", "send": "-1", "recv": "-1", "chan": "0"}))
        return "217 thread blocks", gpu.blocks[-1], True
    if not gpu.blocks or not gpu.blocks[0].steps:
        return None
    block = gpu.blocks[0]
    while len(block.steps) <= 256:
        block.steps.append(block.steps[0].copy().set(type="nop", cnt=0, srcoff=-1, dstoff=-1))
    return "257 steps", block.steps[-1], True


def dialect(m: Schedule, rng: random.Random) -> Result:
    """Family 26."""
    which = rng.choice(("chain", "trailing", "fused", "depid"))
    if which == "fused":
        choices = []
        for gpu, block, step in m.steps("re"):
            k = block.steps.index(step)
            following = block.steps[k + 1] if k + 1 < len(block.steps) else None
            room = all(
                step.number(o) + step.number("cnt") < m.buffer_size(gpu, step.attributes[b]) for b, o in sides(step)
            )
            if following is not None and following.kind == "re" and following.number("depid") < 0 and room:
                choices.append(step)
        step = pick(rng, choices)
        if step is None:
            return None
        step.set(cnt=step.number("cnt") + 1)
        return "fused re with another count", step, True
    choices = [(b, s) for _, b, s in m.steps(*READS, *STORES)]
    if not choices:
        return None
    block, step = rng.choice(choices)
    nop = step.copy().set(type="nop", cnt=0, srcoff=-1, dstoff=-1)
    if which == "trailing":
        gpu = next(g for g in m.gpus if block in g.blocks)
        others = [b for b in gpu.blocks if b is not block and b.steps]
        if not others:
            return None
        nop.target = rng.choice(others).steps[-1]
        block.steps.append(nop.set(depid=0, deps=0))
        return "trailing nop", nop, True
    if which == "depid":
        step.target = None
        step.set(depid=128, deps=0)
        return "depid 128", step, False
    others = [(b, s) for b, s in choices if s.number("depid") < 0]
    if not others:
        return None
    block, step = rng.choice(others)
    gpu = next(g for g in m.gpus if block in g.blocks)
    nop = step.copy().set(type="nop", cnt=0, srcoff=-1, dstoff=-1, depid=0, deps=0)
    nop.target = rng.choice(gpu.blocks[0].steps) if gpu.blocks[0].steps else step
    block.steps.insert(block.steps.index(step), nop)
    return "nop chain without a wait of its own", nop, False


def reorder_reductions(m: Schedule, rng: random.Random) -> Result:
    """Family 27: two fused reductions exchange their sources."""
    choices = []
    for _, block, step in m.steps("re"):
        k = block.steps.index(step)
        following = block.steps[k + 1] if k + 1 < len(block.steps) else None
        same = ("dstbuf", "dstoff", "cnt", "srcbuf")
        if (
            following is not None
            and following.kind == "re"
            and following.number("depid") < 0
            and step.number("hasdep") == 0
            and all(step.attributes[n] == following.attributes[n] for n in same)
        ):
            choices.append((step, following))
    if not choices:
        return None
    first, second = rng.choice(choices)
    first.attributes["srcoff"], second.attributes["srcoff"] = second.attributes["srcoff"], first.attributes["srcoff"]
    return "two reductions in the other order", first, True


def other_links(m: Schedule, rng: random.Random) -> Result:
    """Family 28: two ranks of an all-reduce change places, which is right on any fabric that has the links."""
    if m.attributes["coll"] != "allreduce" or len(m.gpus) < 4:
        return None
    a, b = rng.sample(range(len(m.gpus)), 2)
    place = list(range(len(m.gpus)))
    place[a], place[b] = b, a
    m.gpus[a], m.gpus[b] = m.gpus[b], m.gpus[a]
    for rank, gpu in enumerate(m.gpus):
        gpu.attributes["id"] = str(rank)
        for block in gpu.blocks:
            for side in ("send", "recv"):
                peer = int(block.attributes[side])
                if peer >= 0:
                    block.attributes[side] = str(place[peer])
    return f"ranks {a} and {b} change places", None, True


def broken_text(text: str, rng: random.Random) -> tuple[str, str, int | None, bool]:
    """Family 29: (name, text, line, still well-formed)."""
    which = rng.choice(("truncated", "duplicate", "header", "spaces"))
    if which == "truncated":
        return "truncated", text[: rng.randrange(len(text) // 4, len(text) - len("</algo>") - 1)], None, False
    if which == "header":
        return "<?xml header", '<?xml version="1.0"?>\n' + text, 1, True
    lines = text.split("\n")
    k = rng.choice([k for k, line in enumerate(lines) if "<step" in line])
    if which == "duplicate":
        lines[k] = re.sub(r'cnt="\d+"', lambda match: f"{match[0]} {match[0]}", lines[k])
        return "duplicate attribute", "\n".join(lines), k + 1, False
    lines[k] = lines[k].replace(" srcbuf", "  srcbuf")
    return "two spaces", "\n".join(lines), k + 1, True


XML_CHANGES: dict[int, Change] = {
    1: swap_adjacent,
    2: drop_send,
    3: drop_receive,
    4: drop_pair,
    5: repeat_reduction,
    6: lose_contribution,
    7: count_twice,
    8: shift_offset,
    9: out_of_bounds,
    10: one_more,
    11: remove_wait,
    12: too_early,
    13: clear_flag,
    14: cycle,
    15: receive_first,
    16: other_connection,
    17: split_connection,
    18: move_away,
    19: alias_scratch,
    20: swap_sends,
    21: lose_forward,
    22: relabel,
    23: structure,
    24: overflow,
    25: exceed_limit,
    26: dialect,
    27: reorder_reductions,
    28: other_links,
}

# ----------------------------------------------------------------------------------------------------- MSCCL++ plans

PlanResult = tuple[str, bool] | None


def operations(plan: Any, *names: str) -> list[tuple[list[Any], int]]:
    """(list, position) of every operation with one of these names, inside pipelines too."""
    found = []

    def search(ops: list[Any]) -> None:
        for k, op in enumerate(ops):
            if not names or op["name"] in names:
                found.append((ops, k))
            search(op.get("ops", []))

    for gpu in plan["gpus"]:
        for block in gpu["threadblocks"]:
            search(block["ops"])
    return found


def drop_operation(*names: str, possible: bool) -> Callable[[Any, random.Random], PlanResult]:
    """A change that drops one of these operations."""

    def change(plan: Any, rng: random.Random) -> PlanResult:
        choice = pick(rng, operations(plan, *names))
        if choice is None:
            return None
        ops, k = choice
        name = ops.pop(k)["name"]
        return f"drop {name}", possible

    return change


def swap_get(plan: Any, rng: random.Random) -> PlanResult:
    """The source and target offsets of a get change places."""
    choices = [
        ops[k] for ops, k in operations(plan, "get") if ops[k]["src_buff"][0]["index"] != ops[k]["dst_buff"][0]["index"]
    ]
    op = pick(rng, choices)
    if op is None:
        return None
    a, b = op["src_buff"][0], op["dst_buff"][0]
    a["index"], b["index"] = b["index"], a["index"]
    return "swap the offsets of a get", False


def unpaired_port(plan: Any, rng: random.Random) -> PlanResult:
    """One end of a port channel leads to another rank."""
    choices = [
        (gpu, entry, k)
        for gpu in plan["gpus"]
        for entry in gpu["channels"]
        if entry.get("channel_type") == "port" and len(plan["gpus"]) > 2
        for k in range(len(entry["connected_to"]))
    ]
    if not choices:
        return None
    gpu, entry, k = rng.choice(choices)
    entry["connected_to"][k] = rng.choice(
        [r for r in range(len(plan["gpus"])) if r not in (gpu["id"], entry["connected_to"][k])]
    )
    return "unpaired port channel", False


def drop_nop(plan: Any, rng: random.Random) -> PlanResult:
    """A block barrier between a data operation and the signal after it, or between a wait and what follows it."""
    data = ("put", "copy", "re", "res", "rre", "rres", "glres", "gstore", "get", "pws", "pwsf")
    after = [
        (ops, k)
        for ops, k in operations(plan, "nop")
        if k and k + 1 < len(ops) and ops[k - 1]["name"] in data and ops[k + 1]["name"] in ("signal", "sem_release")
    ]
    before = [
        (ops, k)
        for ops, k in operations(plan, "nop")
        if k and k + 1 < len(ops) and ops[k + 1]["name"] in data and ops[k - 1]["name"] in ("wait", "sem_acquire")
    ]
    choice = pick(rng, after + before)
    if choice is None:
        return None
    ops, k = choice
    name = f"drop nop between {ops[k - 1]['name']} and {ops[k + 1]['name']}"
    ops.pop(k)
    return name, True


def semaphore_zero(plan: Any, rng: random.Random) -> PlanResult:
    """No semaphore has its initial value any more on one rank."""
    choices = [s for gpu in plan["gpus"] for s in gpu.get("semaphores", []) if s["init_value"] > 0]
    semaphore = pick(rng, choices)
    if semaphore is None:
        return None
    semaphore["init_value"] = 0
    return "semaphore init 0", False


def barrier_size(plan: Any, rng: random.Random) -> PlanResult:
    """A barrier of one thread block more or less, for all of the blocks that meet there."""
    ids = [(g, ops[k]["barrier_id"]) for g in plan["gpus"] for ops, k in operations({"gpus": [g]}, "barrier")]
    if not ids:
        return None
    gpu, number = rng.choice(ids)
    delta = rng.choice((-1, 1))
    for ops, k in operations({"gpus": [gpu]}, "barrier"):
        if ops[k]["barrier_id"] == number:
            ops[k]["num_threadblocks"] += delta
    return f"barrier size {delta:+d}", delta < 0


def plan_offset(plan: Any, rng: random.Random) -> PlanResult:
    """An offset one off, or out of bounds."""
    choices = [ops[k] for ops, k in operations(plan) if ops[k].get("src_buff") and ops[k].get("dst_buff")]
    op = pick(rng, choices)
    if op is None:
        return None
    entry = rng.choice(op[rng.choice(("src_buff", "dst_buff"))])
    entry["index"] += rng.choice((1, -1, 1000))
    return f"{op['name']}: another offset", True


def relax_signal(plan: Any, rng: random.Random) -> PlanResult:
    """A signal that orders no data."""
    choices = [ops[k] for ops, k in operations(plan, "signal") if ops[k].get("channel_type") == "memory"]
    op = pick(rng, choices)
    if op is None:
        return None
    op["name"] = "rlxsignal"
    return "relaxed signal", True


PLAN_CHANGES: dict[str, Callable[[Any, random.Random], PlanResult]] = {
    "drop signal": drop_operation("signal", possible=False),
    "drop wait": drop_operation("wait", possible=True),
    "swap get offsets": swap_get,
    "unpaired port channel": unpaired_port,
    "drop nop": drop_nop,
    "semaphore init 0": semaphore_zero,
    "barrier size": barrier_size,
    "offset": plan_offset,
    "relax signal": relax_signal,
    "drop data": drop_operation(
        "put", "pws", "pwsf", "get", "copy", "re", "res", "rre", "rres", "ppkt", "rppkt", "upkt", "respkt", "glres",
        possible=False,
    ),
}  # fmt: skip


def plan_mutants(text: str, rng: random.Random, count: int) -> Iterator[Mutant]:
    """Family 30, drawn evenly over its kinds."""
    made = 0
    while made < count:
        kinds = list(PLAN_CHANGES)
        rng.shuffle(kinds)
        before = made
        for kind in kinds:
            plan = json.loads(text)
            result = PLAN_CHANGES[kind](plan, rng)
            if result is None:
                continue
            name, possible = result
            yield Mutant(30, name, json.dumps(plan, indent=1), None, possible)
            made += 1
            if made == count:
                return
        if made == before:
            return


def xml_mutant(text: str, family: int, rng: random.Random) -> Mutant | None:
    """One mutant of a family, or None where it does not apply."""
    if family == 29:
        name, broken, line, possible = broken_text(Schedule(text).text()[0], rng)
        return Mutant(29, name, broken, line, possible)
    schedule = Schedule(text)
    for _ in range(4):
        result = XML_CHANGES[family](schedule, rng)
        if result is not None:
            name, mark, possible = result
            changed, line = schedule.text(mark)
            return Mutant(family, name, changed, line, possible)
    return None


def mutants(text: str, seed: int, count: int, families: tuple[int, ...] | None = None) -> Iterator[Mutant]:
    """``count`` mutants, or fewer where no family applies, each family in turn. The same seed gives the same mutants."""
    rng = random.Random(f"mutants {seed}")
    if text.lstrip().startswith("{"):
        yield from plan_mutants(text, rng, count)
        return
    order = [family for family in families or range(1, 30) if family != 30]
    rng.shuffle(order)
    made = 0
    while made < count and order:
        for family in list(order):
            mutant = xml_mutant(text, family, random.Random(f"{seed} {family} {made}"))
            if mutant is None:
                if family != 22 and family != 23 and family != 26:
                    order.remove(family)
                continue
            yield mutant
            made += 1
            if made == count:
                return
