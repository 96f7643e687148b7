"""MSCCL XML as threads for the interleaving executor: what the runtime does, step by step.

Steps run in document order. A step with ``depid`` waits until the flag of that thread block reaches ``deps``; a step with
``hasdep="1"`` publishes its document position. Waits of nops go to the next other step, which must wait for something
itself; trailing nops vanish. Consecutive ``re`` steps into one place are one reduction, with the last one's count. A step
of ``cnt`` chunks is cut into messages, and a connection holds 2 (Simple) or 8 (LL, LL128) of them; a step that receives
and sends waits for data and for space before it moves anything.

Each end of a connection counts messages by itself, so two thread blocks at one end overwrite each other, as on the GPU.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from schedules.interleaving import Buffers, Fault, Scheduler, Unreadable, Values

DEPTH = {"Simple": 2, "LL": 8, "LL128": 8}
MESSAGE_BYTES = {"Simple": 2 << 20, "LL": 32 << 10, "LL128": 576_000}
MAX_COUNT = 71
MAX_FUSED = 16
COLLECTIVES = {
    "reduce", "broadcast", "allreduce", "reducescatter", "allgather", "send", "recv", "gather", "scatter", "alltoall",
    "alltoallv", "custom",
}  # fmt: skip
#          reads the source, receives, stores, sends
KINDS = {
    "s": (True, False, False, True),
    "r": (False, True, True, False),
    "rcs": (False, True, True, True),
    "rrs": (True, True, False, True),
    "rrc": (True, True, True, False),
    "rrcs": (True, True, True, True),
    "cpy": (True, False, True, False),
    "re": (True, False, True, False),
    "nop": (False, False, False, False),
}


@dataclass
class Step:
    """One step that moves data: fused reductions are one, with several sources."""

    kind: str
    where: str
    sources: list[tuple[str, int]]
    target: tuple[str, int]
    count: int
    waits: list[tuple[int, int]]
    publishes: bool
    position: int


@dataclass
class Block:
    """One thread block: its peers (or -1), its channel and its steps."""

    rank: int
    index: int
    send: int
    recv: int
    channel: int
    steps: list[Step] = field(default_factory=list)


def number(element: ET.Element, name: str, default: int | None = None) -> int:
    """An integer attribute."""
    text = element.get(name)
    if text is None:
        if default is None:
            raise Unreadable(f"<{element.tag}> has no {name}")
        return default
    try:
        return int(text)
    except ValueError:
        raise Unreadable(f'<{element.tag} {name}="{text}">: not an integer') from None


def read_block(element: ET.Element, rank: int, blocks: int) -> Block:
    """Apply the parser's rules to one thread block: nops, chains and fused reductions."""
    block = Block(
        rank, number(element, "id"), number(element, "send"), number(element, "recv"), number(element, "chan", 0)
    )
    pending: list[tuple[int, int]] = []
    previous: Step | None = None
    for position, step in enumerate(element.iter("step")):
        where = f"{rank}/{block.index}/{position}"
        kind = step.get("type", "")
        if kind not in KINDS:
            raise Unreadable(f"{where}: unknown step type {kind!r}")
        number(step, "s")
        depid, deps = number(step, "depid"), number(step, "deps")
        publishes = number(step, "hasdep") == 1
        if depid > 127:
            raise Unreadable(f"{where}: depid {depid} does not fit in 8 bits")
        if depid >= 0:
            pending.append((depid, deps))
        if kind == "nop":
            previous = None
            continue
        if depid < 0 and pending:
            raise Unreadable(f"{where}: after nops that wait, a step must itself wait for something")
        source = (step.get("srcbuf", ""), number(step, "srcoff"))
        target = (step.get("dstbuf", ""), number(step, "dstoff"))
        count = number(step, "cnt")
        if (
            kind == "re"
            and previous is not None
            and previous.kind == "re"
            and depid < 0
            and not previous.publishes
            and (previous.target, previous.sources[0][0]) == (target, source[0])
            and len(previous.sources) < MAX_FUSED
        ):
            previous.sources.append(source)
            previous.count, previous.publishes, previous.position = count, publishes, position
            continue
        _, receives, _, sends = KINDS[kind]
        if sends and block.send < 0:
            raise Unreadable(f"{where}: {kind} in a thread block without a peer to send to")
        if receives and block.recv < 0:
            raise Unreadable(f"{where}: {kind} in a thread block without a peer to receive from")
        previous = Step(kind, where, [source], target, count, pending, publishes, position)
        block.steps.append(previous)
        pending = []
    for step in block.steps:
        for other, _ in step.waits:
            if other >= blocks:
                raise Unreadable(f"{step.where}: waits for thread block {other} of {blocks}")
    return block


@dataclass
class XmlProgram:
    """All thread blocks of one algorithm."""

    collective: str
    ranks: int
    chunks: int
    protocol: str
    placements: tuple[bool, ...]
    blocks: list[Block]
    declared: dict[tuple[int, str], int]
    compiled: dict[Any, list[list[tuple[Any, ...]]]] = field(default_factory=dict)

    def messages(self, scheduler: Scheduler, size_bytes: int | None) -> int:
        """How many chunks go into one message at most."""
        if size_bytes is None:
            return scheduler.rng.choice((MAX_COUNT, MAX_COUNT, 1, 1, 2, 3))
        chunk_bytes = max(1, -(-size_bytes // self.chunks))
        return max(1, min(MAX_COUNT, MESSAGE_BYTES[self.protocol] // chunk_bytes))

    def locations(self, buffers: Buffers, rank: int, place: tuple[str, int], count: int, step: Step) -> range:
        """Where a step reads or writes; in place, a buffer reaches as far as what it shares locations with."""
        name, offset = place
        if name not in ("i", "o", "s"):
            raise Unreadable(f"{step.where}: unknown buffer {name!r}")
        size = self.declared[rank, name]
        if buffers.in_place and name != "s":
            if buffers.size[rank, "i"] == buffers.size[rank, "o"]:
                size = max(self.declared[rank, "i"], self.declared[rank, "o"])
            else:
                size = max(size, buffers.size[rank, name])
        size = min(size, buffers.size[rank, name])
        if offset < 0 or offset + count > size:
            raise Fault(f"{step.where}: {step.kind} uses {name}[{offset}:{offset + count}], buffer has {size}")
        start = buffers.base[rank, name] + offset
        return range(start, start + count)

    def compile(self, buffers: Buffers, allowed: int) -> list[list[tuple[Any, ...]]]:
        """Every block as (waits, flag or None, messages) with memory locations."""
        key = (buffers.in_place, allowed)
        if key in self.compiled:
            return self.compiled[key]
        flags = {(block.rank, block.index): k for k, block in enumerate(self.blocks)}
        code: list[list[tuple[Any, ...]]] = []
        for block in self.blocks:
            steps: list[tuple[Any, ...]] = []
            for step in block.steps:
                reads, receives, stores, sends = KINDS[step.kind]
                sources = []
                if reads:
                    sources = [self.locations(buffers, block.rank, s, step.count, step) for s in step.sources]
                target = self.locations(buffers, block.rank, step.target, step.count, step) if stores else None
                if step.kind == "re":
                    assert target is not None
                    sources.insert(0, target)
                parts = []
                for first in range(0, step.count, allowed):
                    piece = slice(first, first + allowed)
                    cut = tuple(source[piece] for source in sources)
                    count = min(allowed, step.count - first)
                    parts.append((receives, sends, cut, None if target is None else target[piece], count))
                waits = tuple((flags[block.rank, other], value) for other, value in step.waits)
                steps.append((waits, step.position if step.publishes else None, tuple(parts)))
            code.append(steps)
        self.compiled[key] = code
        return code

    def start(
        self, scheduler: Scheduler, values: Values, *, in_place: bool, size_bytes: int | None
    ) -> tuple[Buffers, list[Any], Callable[[], str]]:
        """Add one thread per block."""
        scratch = [self.declared[rank, "s"] for rank in range(self.ranks)]
        buffers = Buffers.layout(self.collective, self.ranks, self.chunks, scratch, in_place)
        memory = buffers.fill(values)
        code = self.compile(buffers, self.messages(scheduler, size_bytes))
        lost = values.poison("part of a message")
        flags = [-1] * len(self.blocks)
        keys = [f"a flag of g{block.rank} tb{block.index}" for block in self.blocks]
        links: dict[tuple[int, int, int], Link] = {}
        depth = DEPTH[self.protocol] if size_bytes is not None else None
        for k, block in enumerate(self.blocks):
            out = (block.rank, block.send, block.channel)
            into = (block.recv, block.rank, block.channel)
            for peer, key in ((block.send, out), (block.recv, into)):
                if peer >= 0:
                    links.setdefault(key, Link(key, depth))
            name = f"g{block.rank} tb{block.index}"
            ends = links.get(into), links.get(out)
            scheduler.add(thread(memory, code[k], flags, keys, k, *ends, scheduler.wake, lost), name)

        def left_over() -> str:
            for link in links.values():
                if link.sent != link.received:
                    a, b, channel = link.key
                    return f"connection {a}->{b} channel {channel}: {link.sent} sends, {link.received} receives"
            return ""

        return buffers, memory, left_over


class Link:
    """A connection: slots, and the two counters its ends publish. Without a depth it has a slot for every message."""

    def __init__(self, key: tuple[int, int, int], depth: int | None) -> None:
        self.key = key
        self.depth = depth or 1 << 60
        self.slots: dict[int, Any] = {}
        self.tail = self.head = 0
        self.sent = self.received = 0
        self.data_key = f"data on {key[0]}->{key[1]} channel {key[2]}"
        self.space_key = f"space on {key[0]}->{key[1]} channel {key[2]}"


def thread(
    memory: list[Any],
    code: list[tuple[Any, ...]],
    flags: list[int],
    keys: list[str],
    me: int,
    into: Link | None,
    out: Link | None,
    wake: Callable[[Any], None],
    lost: Any,
) -> Iterator[Any]:
    """One thread block: yields after each memory action, or the key it waits for."""
    taken = sent = 0
    for waits, published, messages in code:
        for flag, value in waits:
            while flags[flag] < value:
                yield keys[flag]
        for receives, sends, sources, target, count in messages:
            while True:
                if receives and into.tail <= taken:
                    yield into.data_key
                elif sends and sent - out.head >= out.depth:
                    yield out.space_key
                else:
                    break
            if receives:
                data = list(into.slots.get(taken % into.depth, ())[:count])
                data += [lost] * (count - len(data))
                yield None
            if sources:
                first = sources[0]
                if receives:
                    for k in range(count):
                        data[k] = data[k] + memory[first[k]]
                        yield None
                else:
                    data = []
                    for location in first:
                        data.append(memory[location])
                        yield None
                    for source in sources[1:]:
                        for k in range(count):
                            data[k] = data[k] + memory[source[k]]
                            yield None
            if target is not None:
                for k in range(count):
                    memory[target[k]] = data[k]
                    yield None
            if sends:
                out.slots[sent % out.depth] = data
                sent += 1
                out.sent += 1
                out.tail = sent
                wake(out.data_key)
                yield None
            if receives:
                taken += 1
                into.received += 1
                into.head = taken
                wake(into.space_key)
                yield None
        if published is not None:
            flags[me] = published
            wake(keys[me])
            yield None


def read_xml(text: str) -> XmlProgram:
    """Parse the file; comments and unknown elements are ignored."""
    try:
        algo = ET.fromstring(text)
    except ET.ParseError as error:
        raise Unreadable(f"not well-formed: {error}") from None
    if algo.tag != "algo":
        raise Unreadable(f"<{algo.tag}>: expected <algo>")
    ranks, chunks = number(algo, "ngpus"), number(algo, "nchunksperloop")
    collective = algo.get("coll", "").replace("reduce_scatter", "reducescatter")
    if collective not in COLLECTIVES:
        raise Unreadable(f"unknown collective {collective!r}")
    protocol = algo.get("proto", "")
    if protocol not in DEPTH:
        raise Unreadable(f"unknown protocol {protocol!r}")
    if ranks < 1 or chunks < 1:
        raise Unreadable(f"ngpus={ranks}, nchunksperloop={chunks}: expected positive numbers")
    if collective in ("allgather", "gather", "reducescatter", "scatter", "alltoall") and chunks % ranks:
        raise Unreadable(f"nchunksperloop={chunks} is no multiple of ngpus={ranks}")
    channels = number(algo, "nchannels")
    inside, outside = number(algo, "inplace", 0) == 1, number(algo, "outofplace", 0) == 1
    placements = tuple(p for p, allowed in ((True, inside), (False, outside or not inside)) if allowed)
    gpus = algo.findall("gpu")
    if [number(gpu, "id") for gpu in gpus] != list(range(ranks)):
        raise Unreadable(f"{len(gpus)} gpus in some order: expected ids 0 to {ranks - 1}")
    blocks: list[Block] = []
    declared: dict[tuple[int, str], int] = {}
    for rank, gpu in enumerate(gpus):
        for name in "ios":
            declared[rank, name] = number(gpu, f"{name}_chunks")
        elements = gpu.findall("tb")
        own = [read_block(element, rank, len(elements)) for element in elements]
        if sorted(block.index for block in own) != list(range(len(own))):
            raise Unreadable(f"gpu {rank}: thread block ids are not 0 to {len(own) - 1}, each once")
        for block in own:
            where = f"{rank}/{block.index}"
            if rank in (block.send, block.recv):
                raise Unreadable(f"{where}: its peer is its own rank")
            if block.send >= ranks or block.recv >= ranks:
                raise Unreadable(f"{where}: no rank {max(block.send, block.recv)}")
            if not 0 <= block.channel < channels:
                raise Unreadable(f"{where}: channel {block.channel} of {channels}")
        blocks += own
    return XmlProgram(collective, ranks, chunks, protocol, placements, blocks, declared)
