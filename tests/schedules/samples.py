"""Small schedules of our own as MSCCL XML and as MSCCL++ plans (version 2): right ones, and wrong ones by construction.

``XmlAlgorithm`` places steps and looks after the dialect: waits by reference, nop chains, ``hasdep`` and numbering.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

# ------------------------------------------------------------------------------------------------- MSCCL XML, builder


@dataclass(eq=False)
class XmlStep:
    """One step; ``after`` are steps of other thread blocks of the same rank that must be done before it."""

    kind: str
    source: tuple[str, int]
    target: tuple[str, int]
    count: int
    after: list[XmlStep]
    block: XmlBlock
    position: int = -1
    awaited: bool = False


@dataclass(eq=False)
class XmlBlock:
    """One thread block."""

    send: int
    recv: int
    channel: int
    index: int = -1
    steps: list[XmlStep] = field(default_factory=list)

    def add(
        self,
        kind: str,
        source: tuple[str, int] | None = None,
        target: tuple[str, int] | None = None,
        count: int = 1,
        after: Iterable[XmlStep] = (),
    ) -> XmlStep:
        """Append a step; the side that is not used repeats the other."""
        place = source or target or ("i", -1)
        waits = [step for step in dict.fromkeys(after) if step.block is not self]
        step = XmlStep(kind, source or place, target or place, count, waits, self)
        self.steps.append(step)
        return step


class XmlAlgorithm:
    """An algorithm under construction."""

    def __init__(
        self,
        collective: str,
        ranks: int,
        chunks: int,
        *,
        protocol: str = "Simple",
        in_place: bool = True,
        scratch: int = 0,
    ) -> None:
        self.collective, self.ranks, self.chunks = collective, ranks, chunks
        self.protocol, self.in_place, self.scratch = protocol, in_place, scratch
        self.blocks: list[list[XmlBlock]] = [[] for _ in range(ranks)]
        self.max_bytes = 0

    def block(self, rank: int, send: int = -1, recv: int = -1, channel: int = 0) -> XmlBlock:
        """A new thread block."""
        block = XmlBlock(send, recv, channel, len(self.blocks[rank]))
        self.blocks[rank].append(block)
        return block

    def find(self, rank: int, send: int, recv: int, channel: int = 0) -> XmlBlock:
        """The thread block with these peers, made if there is none."""
        for block in self.blocks[rank]:
            if (block.send, block.recv, block.channel) == (send, recv, channel):
                return block
        return self.block(rank, send, recv, channel)

    def text(self) -> str:
        """The file."""
        part = self.chunks // self.ranks
        inputs, outputs = {"allgather": (part, self.chunks), "reducescatter": (self.chunks, part)}.get(
            self.collective, (self.chunks, self.chunks)
        )
        channels = 1 + max((b.channel for blocks in self.blocks for b in blocks), default=0)
        lines = [
            f'<algo name="sample" proto="{self.protocol}" nchannels="{channels}" nchunksperloop="{self.chunks}" '
            f'ngpus="{self.ranks}" coll="{self.collective}" inplace="{int(self.in_place)}" '
            f'outofplace="{int(not self.in_place)}" minBytes="0" maxBytes="{self.max_bytes}">'
        ]
        for rank, blocks in enumerate(self.blocks):
            lines.append(f'  <gpu id="{rank}" i_chunks="{inputs}" o_chunks="{outputs}" s_chunks="{self.scratch}">')
            for block in blocks:
                position = 0
                for step in block.steps:
                    position += max(0, len(step.after) - 1)
                    step.position = position
                    position += 1
                    for other in step.after:
                        other.awaited = True
            for block in blocks:
                lines.append(
                    f'    <tb id="{block.index}" send="{block.send}" recv="{block.recv}" chan="{block.channel}">'
                )
                for step in block.steps:
                    lines += step_lines(step)
                lines.append("    </tb>")
            lines.append("  </gpu>")
        return "\n".join([*lines, "</algo>", ""])


def step_lines(step: XmlStep) -> list[str]:
    """The nops of a step that waits for several others, and the step."""
    waits = [(other.block.index, other.position) for other in step.after] or [(-1, -1)]
    lines = []
    for k, (depid, deps) in enumerate(waits):
        last = k == len(waits) - 1
        kind, source, target, count = (
            (step.kind, step.source, step.target, step.count) if last else ("nop", ("i", -1), ("o", -1), 0)
        )
        lines.append(
            f'      <step s="{step.position - len(waits) + 1 + k}" type="{kind}" srcbuf="{source[0]}" '
            f'srcoff="{source[1]}" dstbuf="{target[0]}" dstoff="{target[1]}" cnt="{count}" depid="{depid}" '
            f'deps="{deps}" hasdep="{int(last and step.awaited)}"/>'
        )
    return lines


# ------------------------------------------------------------------------------------------------ MSCCL XML, right ones


def ring_all_reduce(
    ranks: int, *, channels: int = 1, instances: int = 1, protocol: str = "Simple", in_place: bool = True
) -> str:
    """Each ring reduces and then passes on one chunk per rank."""
    rings = channels * instances
    algorithm = XmlAlgorithm("allreduce", ranks, ranks * rings, protocol=protocol, in_place=in_place)
    out = "i" if in_place else "o"
    for rank in range(ranks):
        for ring in range(rings):
            block = algorithm.block(rank, (rank + 1) % ranks, (rank - 1) % ranks, ring)
            chunk = [(rank - k) % ranks * rings + ring for k in range(2 * ranks)]
            block.add("s", ("i", chunk[0]))
            for k in range(1, ranks - 1):
                block.add("rrs", ("i", chunk[k]))
            block.add("rrcs", ("i", chunk[ranks - 1]), (out, chunk[ranks - 1]))
            for k in range(ranks, 2 * ranks - 2):
                block.add("rcs", (out, chunk[k]), (out, chunk[k]))
            block.add("r", None, (out, chunk[2 * ranks - 2]))
    return algorithm.text()


def all_pairs_all_reduce(
    ranks: int, *, instances: int = 1, protocol: str = "LL", in_place: bool = True, per_owner: int | None = None
) -> str:
    """Every rank sends to each owner's scratch; owners reduce, and send the sums to everyone."""
    width = per_owner or ranks
    out = "i" if in_place else "o"
    chunks = ranks * width * instances
    algorithm = XmlAlgorithm(
        "allreduce", ranks, chunks, protocol=protocol, in_place=in_place, scratch=(ranks - 1) * width * instances
    )
    for rank in range(ranks):
        others = [p for p in range(ranks) if p != rank]
        for instance in range(instances):
            first = instance * ranks * width
            room = instance * (ranks - 1) * width
            own = first + rank * width
            blocks = [algorithm.block(rank, p, p, instance) for p in others]
            arrived = []
            for k, (peer, block) in enumerate(zip(others, blocks, strict=True)):
                slot = room + width * (rank if rank < peer else rank - 1)
                block.add("s", ("i", first + peer * width), ("s", slot), width)
                arrived.append(block.add("r", ("i", own), ("s", room + width * k), width))
            reduced = []
            for j in range(width):
                block = blocks[j % len(blocks)]
                if not in_place:
                    block.add("cpy", ("i", own + j), ("o", own + j))
                for k in range(ranks - 1):
                    last = block.add("re", ("s", room + width * k + j), (out, own + j), after=arrived if k == 0 else ())
                reduced.append(last)
            ends = {step.block: step for step in reduced}
            for peer, block in zip(others, blocks, strict=True):
                block.add("s", (out, own), (out, own), width, after=ends.values())
                block.add("r", None, (out, first + peer * width), width)
    return algorithm.text()


def ring_all_gather(ranks: int, *, per_rank: int = 1, protocol: str = "Simple", in_place: bool = True) -> str:
    """Each rank passes on what it got; out of place, its own part is copied first."""
    algorithm = XmlAlgorithm("allgather", ranks, ranks * per_rank, protocol=protocol, in_place=in_place)
    for rank in range(ranks):
        block = algorithm.block(rank, (rank + 1) % ranks, (rank - 1) % ranks)
        part = [(rank - k) % ranks * per_rank for k in range(ranks)]
        if in_place:
            block.add("s", ("o", part[0]), ("o", part[0]), per_rank)
        else:
            block.add("cpy", ("i", 0), ("o", part[0]), per_rank)
            block.add("s", ("i", 0), ("o", part[0]), per_rank)
        for k in range(1, ranks - 1):
            block.add("rcs", None, ("o", part[k]), per_rank)
        block.add("r", None, ("o", part[ranks - 1]), per_rank)
    return algorithm.text()


def recursive_doubling_all_gather(ranks: int, *, protocol: str = "Simple") -> str:
    """In place; the pairs exchange 1, 2, 4, ... chunks. Each round sends before it receives, so it hangs above a size."""
    algorithm = XmlAlgorithm("allgather", ranks, ranks, protocol=protocol)
    for rank in range(ranks):
        got: list[XmlStep] = []
        width = 1
        while width < ranks:
            peer = rank ^ width
            block = algorithm.block(rank, peer, peer)
            mine, theirs = rank // width * width, peer // width * width
            block.add("s", ("o", mine), ("o", mine), width, after=got)
            got.append(block.add("r", None, ("o", theirs), width))
            width *= 2
    return algorithm.text()


def all_pairs_reduce_scatter(ranks: int, *, per_rank: int = 1, protocol: str = "LL", in_place: bool = True) -> str:
    """Every rank sends to each owner's scratch, and reduces its own part."""
    algorithm = XmlAlgorithm(
        "reducescatter", ranks, ranks * per_rank, protocol=protocol, in_place=in_place, scratch=(ranks - 1) * per_rank
    )
    for rank in range(ranks):
        others = [p for p in range(ranks) if p != rank]
        arrived = []
        for k, peer in enumerate(others):
            block = algorithm.block(rank, peer, peer)
            block.add("s", ("i", peer * per_rank), None, per_rank)
            arrived.append(block.add("r", None, ("s", k * per_rank), per_rank))
        block = algorithm.block(rank)
        target = ("i", rank * per_rank) if in_place else ("o", 0)
        if not in_place:
            block.add("cpy", ("i", rank * per_rank), target, per_rank)
        for k in range(ranks - 1):
            block.add("re", ("s", k * per_rank), target, per_rank, after=arrived if k == 0 else ())
    return algorithm.text()


def all_to_all(ranks: int, *, per_pair: int = 1, protocol: str = "LL", in_place: bool = False) -> str:
    """Direct; in place, what arrives goes through scratch and is stored once the slot has been sent."""
    algorithm = XmlAlgorithm(
        "alltoall", ranks, ranks * per_pair, protocol=protocol, in_place=in_place, scratch=ranks * per_pair
    )
    for rank in range(ranks):
        if not in_place:
            own = rank * per_pair
            algorithm.block(rank).add("cpy", ("i", own), ("o", own), per_pair)
        for peer in range(ranks):
            if peer == rank:
                continue
            block = algorithm.block(rank, peer, peer)
            slot = peer * per_pair
            block.add("s", ("i", slot), ("o", rank * per_pair), per_pair)
            if in_place:
                block.add("r", None, ("s", slot), per_pair)
                block.add("cpy", ("s", slot), ("i", slot), per_pair)
            else:
                block.add("r", None, ("o", slot), per_pair)
    return algorithm.text()


def broadcast_chain(ranks: int, *, chunks: int = 2, protocol: str = "Simple", in_place: bool = True) -> str:
    """Rank 0 is the root; every rank hands on each chunk."""
    algorithm = XmlAlgorithm("broadcast", ranks, chunks, protocol=protocol, in_place=in_place)
    for rank in range(ranks):
        last = rank == ranks - 1
        block = algorithm.block(rank, -1 if last else rank + 1, rank - 1)
        for chunk in range(chunks):
            place = ("i" if in_place else "o", chunk)
            if rank == 0:
                block.add("s", ("i", chunk), place)
                if not in_place:
                    block.add("cpy", ("i", chunk), place)
            else:
                block.add("r" if last else "rcs", None, place)
    return algorithm.text()


def hierarchical_all_reduce(
    nodes: int, local: int, *, protocol: str = "Simple", in_place: bool = True, channels: int = 1
) -> str:
    """Reduce-scatter inside each node, all-pairs exchange between nodes, all-gather inside each node."""
    out = "i" if in_place else "o"
    width = channels
    chunks = local * width
    slots = (local - 1 + nodes - 1) * width
    algorithm = XmlAlgorithm("allreduce", nodes * local, chunks, protocol=protocol, in_place=in_place, scratch=slots)
    for rank in range(nodes * local):
        node, place = divmod(rank, local)
        near = [node * local + k for k in range(local) if k != place]
        far = [k * local + place for k in range(nodes) if k != node]
        for c in range(channels):
            own = place * width + c
            base = slots // channels * c
            arrived = []
            for k, peer in enumerate(near):
                block = algorithm.find(rank, peer, peer, c)
                block.add("s", ("i", peer % local * width + c))
                arrived.append(block.add("r", None, ("s", base + k)))
            worker = algorithm.block(rank, channel=c)
            if not in_place:
                worker.add("cpy", ("i", own), (out, own))
            part = None
            for k in range(local - 1):
                part = worker.add("re", ("s", base + k), (out, own), after=arrived if k == 0 else ())
            came, sent = [], []
            for k, peer in enumerate(far):
                block = algorithm.find(rank, peer, peer, c)
                sent.append(block.add("s", (out, own), after=[part] if part else []))
                came.append(block.add("r", None, ("s", base + local - 1 + k)))
            total = part
            for k in range(nodes - 1):
                # no reduction before the partial sum has been sent to every node
                total = worker.add(
                    "re", ("s", base + local - 1 + k), (out, own), after=[*sent, *came] if k == 0 else ()
                )
            for peer in near:
                block = algorithm.find(rank, peer, peer, c)
                block.add("s", (out, own), after=[total] if total else [])
                block.add("r", None, (out, peer % local * width + c))
    return algorithm.text()


# ------------------------------------------------------------------------------------------------ MSCCL XML, wrong ones


def shared_connection(ranks: int = 2) -> str:
    """Two thread blocks of rank 0 send on one connection."""
    algorithm = XmlAlgorithm("broadcast", ranks, 2)
    algorithm.block(0, 1, -1).add("s", ("i", 0))
    algorithm.block(0, 1, -1).add("s", ("i", 1))
    block = algorithm.block(1, -1, 0)
    block.add("r", None, ("i", 0))
    block.add("r", None, ("i", 1))
    return algorithm.text()


def fused_unequal_counts() -> str:
    """Two fused reductions of 2 and 1 chunks: the runtime takes the last count, so one chunk is not reduced."""
    algorithm = XmlAlgorithm("allreduce", 3, 2, protocol="LL", scratch=4)
    for rank in range(3):
        others = [p for p in range(3) if p != rank]
        arrived, blocks = [], []
        for k, peer in enumerate(others):
            block = algorithm.block(rank, peer, peer)
            block.add("s", ("i", 0), None, 2)
            arrived.append(block.add("r", None, ("s", 2 * k), 2))
            blocks.append(block)
        worker = algorithm.block(rank)
        worker.add("re", ("s", 0), ("i", 0), 2, after=arrived)
        worker.add("re", ("s", 2), ("i", 0), 1)
        worker.add("re", ("s", 3), ("i", 1), 1)
    return algorithm.text()


def circular_receive(ranks: int = 3) -> str:
    """An all-gather ring in which every rank receives before it sends."""
    algorithm = XmlAlgorithm("allgather", ranks, ranks)
    for rank in range(ranks):
        block = algorithm.block(rank, (rank + 1) % ranks, (rank - 1) % ranks)
        for k in range(1, ranks):
            block.add("r", None, ("o", (rank - k) % ranks))
            block.add("s", ("o", (rank - k + 1) % ranks))
    return algorithm.text()


def nop_chain_without_wait() -> str:
    """A nop that waits, before a step that waits for nothing itself: the parser refuses the file."""
    text = all_pairs_all_reduce(4)
    lines = text.split("\n")
    for k, line in enumerate(lines):
        if 'type="nop"' in line:
            head, _, tail = lines[k + 1].partition(' depid="')
            lines[k + 1] = f'{head} depid="-1" deps="-1" hasdep="{tail.split(chr(34))[4]}"/>'
            return "\n".join(lines)
    raise AssertionError("the sample has a chain of nops")


def hang_above_a_size() -> str:
    """Two ranks exchange 4 chunks, each sending all before it receives: Simple holds 2 messages of at most 2 MiB."""
    algorithm = XmlAlgorithm("alltoall", 2, 8, in_place=True, scratch=4)
    for rank in range(2):
        peer = 1 - rank
        block = algorithm.block(rank, peer, peer)
        block.add("s", ("i", 4 * peer), None, 4)
        block.add("r", None, ("s", 0), 4)
        block.add("cpy", ("s", 0), ("i", 4 * peer), 4)
    return algorithm.text()


HANGS_ABOVE_BYTES = 8 << 20
"""The largest size at which ``hang_above_a_size`` ends: 8 chunks of 1 MiB, two to a message."""

# ----------------------------------------------------------------------------------------------------- MSCCL++ plans


class Plan:
    """A plan under construction: channels and remote buffers are numbered as they are first used."""

    def __init__(
        self,
        collective: str,
        ranks: int,
        chunks: tuple[int, int, int],
        *,
        protocol: str = "Simple",
        in_place: bool = True,
        **more: Any,
    ) -> None:
        self.top = {
            "name": "sample",
            "collective": collective,
            "protocol": protocol,
            "inplace": in_place,
            "reuse_resources": False,
            "num_threads_per_block": 1024,
            "use_double_scratch_buffer": protocol == "LL",
            "buffer_alignment": 16,
            "min_message_size": 0,
            "max_message_size": 2**64 - 1,
            **more,
        }
        self.gpus = [PlanGpu(rank, chunks) for rank in range(ranks)]

    def text(self) -> str:
        """The file."""
        top = {**self.top, "gpus": [gpu.data() for gpu in self.gpus]}
        return json.dumps(top, indent=1)


class PlanGpu:
    """One rank of a plan."""

    def __init__(self, rank: int, chunks: tuple[int, int, int]) -> None:
        self.rank, self.chunks = rank, chunks
        self.peers: dict[str, list[int]] = {}
        self.switches: list[dict[str, Any]] = []
        self.remote: list[dict[str, Any]] = []
        self.semaphores: list[int] = []
        self.blocks: list[PlanBlock] = []

    def block(self) -> PlanBlock:
        """A new thread block."""
        block = PlanBlock(self, len(self.blocks))
        self.blocks.append(block)
        return block

    def data(self) -> dict[str, Any]:
        """As in the file."""
        channels: list[dict[str, Any]] = [
            {"channel_type": kind, "connected_to": peers} for kind, peers in self.peers.items()
        ]
        return {
            "id": self.rank,
            "input_chunks": self.chunks[0],
            "output_chunks": self.chunks[1],
            "scratch_chunks": self.chunks[2],
            "threadblocks": [block.data() for block in self.blocks],
            "channels": channels + self.switches,
            "remote_buffers": self.remote,
            "semaphores": [{"init_value": value} for value in self.semaphores],
        }


class PlanBlock:
    """One thread block of a plan."""

    def __init__(self, gpu: PlanGpu, index: int) -> None:
        self.gpu, self.index = gpu, index
        self.channels: dict[str, list[int]] = {}
        self.buffers: dict[str, list[int]] = {}
        self.ops: list[dict[str, Any]] = []

    def channel(self, peer: int, kind: str = "memory") -> int:
        """A new channel to a peer, by its number in this block."""
        peers = self.gpu.peers.setdefault(kind, [])
        peers.append(peer)
        own = self.channels.setdefault(kind, [])
        own.append(len(peers) - 1)
        return len(own) - 1

    def switch(self, buffer: str, ranks: list[int]) -> int:
        """A new switch channel."""
        own = self.channels.setdefault("switch", [])
        own.append(len(self.gpu.switches))
        group = {"size": len(ranks), "ranks": ranks}
        self.gpu.switches.append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": [group]})
        return len(own) - 1

    def remote(self, peer: int, buffer: str, index: int, size: int = 1, kind: str = "memory") -> dict[str, Any]:
        """A range of a peer's buffer."""
        entry = {"rank": peer, "type": buffer, "access_channel_types": [kind]}
        if entry not in self.gpu.remote:
            self.gpu.remote.append(entry)
        own = self.buffers.setdefault(kind, [])
        number = self.gpu.remote.index(entry)
        if number not in own:
            own.append(number)
        return {"buffer_id": own.index(number), "index": index, "size": size}

    def add(self, name: str, **more: Any) -> PlanBlock:
        """Append an operation."""
        self.ops.append({"name": name, **more})
        return self

    def sync(self, name: str, channels: list[int], kind: str = "memory") -> PlanBlock:
        """Append a signal, a wait or a flush."""
        return self.add(name, channel_ids=channels, channel_type=kind)

    def data(self) -> dict[str, Any]:
        """As in the file."""
        return {
            "id": self.index,
            "ops": self.ops,
            "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in self.channels.items()],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": ids} for kind, ids in self.buffers.items()
            ],
        }


def here(buffer: str, index: int, size: int = 1) -> dict[str, Any]:
    """A range of a local buffer."""
    return {"type": buffer, "index": index, "size": size}


def memory_all_reduce(ranks: int = 3) -> str:
    """All pairs on memory channels: read and reduce the own chunk from every peer, write it back to all."""
    plan = Plan("allreduce", ranks, (ranks, ranks, 0))
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        block = gpu.block()
        channels = [block.channel(p) for p in others]
        refs = [block.remote(p, "i", gpu.rank) for p in others]
        block.sync("signal", channels).sync("wait", channels).add("nop")
        own = here("i", gpu.rank)
        block.add("rres", src_buff=[own, *refs], dst_buff=[own, *refs], channel_type="memory", reduce_op="sum")
        block.add("nop").sync("signal", channels).sync("wait", channels)
    return plan.text()


def scratch_all_reduce(ranks: int = 3) -> str:
    """All pairs through scratch, a thread block per peer, and named barriers between the phases."""
    plan = Plan("allreduce", ranks, (ranks, ranks, ranks))
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        for k, peer in enumerate(others):
            block = gpu.block()
            channel = block.channel(peer)
            block.add(
                "put",
                src_buff=[here("i", peer)],
                dst_buff=[block.remote(peer, "s", gpu.rank)],
                channel_type="memory",
            )
            block.add("nop").sync("signal", [channel]).sync("wait", [channel])
            block.add("barrier", barrier_id=0, num_threadblocks=len(others))
            if k == 0:
                own = here("i", gpu.rank)
                parts = [here("s", p) for p in others]
                block.add("re", src_buff=[own, *parts], dst_buff=[own], reduce_op="sum")
            block.add("barrier", barrier_id=1, num_threadblocks=len(others))
            block.add(
                "put",
                src_buff=[here("i", gpu.rank)],
                dst_buff=[block.remote(peer, "i", gpu.rank)],
                channel_type="memory",
            )
            block.add("nop").sync("signal", [channel]).sync("wait", [channel])
    return plan.text()


def port_all_gather(ranks: int = 3, *, with_flush: bool = True) -> str:
    """Every rank puts its part to all others on port channels, in place."""
    plan = Plan("allgather", ranks, (1, ranks, 0))
    for gpu in plan.gpus:
        block = gpu.block()
        others = [p for p in range(ranks) if p != gpu.rank]
        channels = [block.channel(p, "port") for p in others]
        block.sync("signal", channels, "port").sync("wait", channels, "port").add("nop")
        for channel, peer in zip(channels, others, strict=True):
            target = block.remote(peer, "o", gpu.rank, kind="port")
            block.add(
                "put", src_buff=[here("o", gpu.rank)], dst_buff=[target], channel_ids=[channel], channel_type="port"
            )
        block.sync("signal", channels, "port")
        if with_flush:
            block.sync("flush", channels, "port")
        block.sync("wait", channels, "port").add("nop")
    return plan.text()


def port_ring_all_gather(ranks: int = 4) -> str:
    """A ring of puts with signal, out of place, each rank handing on what it got."""
    plan = Plan("allgather", ranks, (1, ranks, 0), in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        right, left = (gpu.rank + 1) % ranks, (gpu.rank - 1) % ranks
        out = block.channel(right, "port")
        into = out if left == right else block.channel(left, "port")
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)]).add("nop")
        for k in range(ranks - 1):
            part = (gpu.rank - k) % ranks
            target = block.remote(right, "o", part, kind="port")
            block.add(
                "pwsf" if k == ranks - 2 else "pws",
                src_buff=[here("o", part)],
                dst_buff=[target],
                channel_ids=[out],
                channel_type="port",
            )
            block.sync("wait", [into], "port").add("nop")
    return plan.text()


def packet_all_reduce(ranks: int = 3) -> str:
    """LL packets: send the parts to their owners, reduce there, send the sums on as packets."""
    plan = Plan("allreduce", ranks, (ranks, ranks, 2 * ranks), protocol="LL")
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        first, second = gpu.block(), gpu.block()
        for peer in others:
            first.add(
                "ppkt",
                src_buff=[here("i", peer)],
                dst_buff=[first.remote(peer, "s", gpu.rank)],
                channel_type="memory",
            )
        own = here("i", gpu.rank)
        first.add(
            "respkt",
            src_buff=[own, *(here("s", p) for p in others)],
            dst_buff=[own, *(first.remote(p, "s", ranks + gpu.rank) for p in others)],
            channel_type="memory",
            reduce_op="sum",
        )
        for peer in others:
            second.add("upkt", src_buff=[here("s", ranks + peer)], dst_buff=[here("i", peer)])
    return plan.text()


def packet_relay_broadcast(ranks: int = 3) -> str:
    """LL packets handed on along a chain, read and put again without being unpacked first."""
    plan = Plan("broadcast", ranks, (1, 1, 1), protocol="LL")
    for gpu in plan.gpus:
        block = gpu.block()
        if gpu.rank == 0:
            block.add("ppkt", src_buff=[here("i", 0)], dst_buff=[block.remote(1, "s", 0)], channel_type="memory")
            continue
        if gpu.rank < ranks - 1:
            target = block.remote(gpu.rank + 1, "s", 0)
            block.add("rppkt", src_buff=[here("s", 0)], dst_buff=[target], channel_type="memory")
        block.add("upkt", src_buff=[here("s", 0)], dst_buff=[here("i", 0)])
    return plan.text()


def switch_all_reduce(ranks: int = 3) -> str:
    """NVLS: each rank has the switch reduce its chunk and store the sum everywhere."""
    plan = Plan("allreduce", ranks, (ranks, ranks, 0))
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        block = gpu.block()
        channels = [block.channel(p) for p in others]
        number = block.switch("i", list(range(ranks)))
        chunk = {"switch_channel_id": number, "index": gpu.rank, "size": 1}
        block.sync("rlxsignal", channels).sync("rlxwait", channels).add("nop")
        block.add("glres", src_buff=[chunk], dst_buff=[chunk], channel_type="switch", reduce_op="sum")
        block.add("nop").sync("signal", channels).sync("wait", channels)
    return plan.text()


def group_reduce(ranks: int = 2, group: int = 2) -> str:
    """All-reduce in which a group of thread blocks shares every operation, each on its slice."""
    plan = Plan("allreduce", ranks, (ranks, ranks, ranks * ranks))
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        for k in range(group):
            block = gpu.block()
            part = {"tb_id": k, "tbg_size": group}
            channels = [block.channel(p) for p in others]
            for peer in others:
                block.add(
                    "put",
                    src_buff=[here("i", peer)],
                    dst_buff=[block.remote(peer, "s", gpu.rank)],
                    channel_type="memory",
                    tbg_info=part,
                )
            block.add("nop").sync("signal", channels).sync("wait", channels).add("nop")
            own = here("i", gpu.rank)
            block.add(
                "res",
                src_buff=[own, *(here("s", p) for p in others)],
                dst_buff=[own, *(block.remote(p, "i", gpu.rank) for p in others)],
                channel_type="memory",
                reduce_op="sum",
                tbg_info=part,
            )
            block.add("nop").sync("signal", channels).sync("wait", channels)
    return plan.text()


def pipeline_all_reduce(ranks: int = 2, *, unit_bytes: int = 1 << 19, depth: int = 1) -> str:
    """Three thread blocks per rank in a software pipeline: copy to scratch, reduce in the switch, copy back."""
    plan = Plan("allreduce", ranks, (ranks, ranks, ranks), reuse_resources=True)
    context = {"unit_size": unit_bytes, "num_chunks": 1}
    for gpu in plan.gpus:
        others = [p for p in range(ranks) if p != gpu.rank]
        gpu.semaphores = [0, 0, depth]
        stages: list[PlanBlock] = [gpu.block() for _ in range(3)]
        before = [stages[0].channel(p) for p in others]
        after = [stages[2].channel(p) for p in others]
        number = stages[1].switch("s", list(range(ranks)))
        chunk = {"switch_channel_id": number, "index": gpu.rank, "size": 1}

        def loop(block: PlanBlock, ops: list[dict[str, Any]]) -> None:
            block.add("pipeline", iter_context=context, ops=ops)

        def op(name: str, **more: Any) -> dict[str, Any]:
            return {"name": name, **more}

        def both(channels: list[int]) -> list[dict[str, Any]]:
            return [op(name, channel_ids=channels, channel_type="memory") for name in ("signal", "wait")]

        copies = [op("copy", src_buff=[here("i", c)], dst_buff=[here("s", c)]) for c in range(ranks)]
        back = [op("copy", src_buff=[here("s", c)], dst_buff=[here("i", c)]) for c in range(ranks)]
        nop = op("nop")
        loop(
            stages[0],
            [
                op("sem_acquire", semaphore_ids=[2]),
                nop,
                *copies,
                nop,
                *both(before),
                nop,
                op("sem_release", semaphore_ids=[0]),
            ],
        )
        loop(
            stages[1],
            [
                op("sem_acquire", semaphore_ids=[0]),
                nop,
                op("glres", src_buff=[chunk], dst_buff=[chunk], channel_type="switch", reduce_op="sum"),
                nop,
                op("sem_release", semaphore_ids=[1]),
            ],
        )
        loop(
            stages[2],
            [
                op("sem_acquire", semaphore_ids=[1]),
                nop,
                *both(after),
                nop,
                *back,
                nop,
                op("sem_release", semaphore_ids=[2]),
            ],
        )
    return plan.text()


def memory_all_to_all(ranks: int = 3) -> str:
    """In place: puts into scratch, and copies once everything has been sent and has come."""
    plan = Plan("alltoall", ranks, (ranks, ranks, ranks))
    for gpu in plan.gpus:
        for peer in range(ranks):
            if peer == gpu.rank:
                continue
            block = gpu.block()
            channel = block.channel(peer)
            target = block.remote(peer, "s", gpu.rank)
            block.add("put", src_buff=[here("i", peer)], dst_buff=[target], channel_type="memory")
            block.add("nop").sync("signal", [channel]).sync("wait", [channel]).add("nop")
            block.add("copy", src_buff=[here("s", peer)], dst_buff=[here("i", peer)])
    return plan.text()


def get_all_gather(ranks: int = 3) -> str:
    """Out of place: every rank reads the others' inputs."""
    plan = Plan("allgather", ranks, (1, ranks, 0), in_place=False)
    for gpu in plan.gpus:
        block = gpu.block()
        block.add("copy", src_buff=[here("i", 0)], dst_buff=[here("o", gpu.rank)])
        for peer in range(ranks):
            if peer != gpu.rank:
                source = block.remote(peer, "i", 0)
                block.add("get", src_buff=[source], dst_buff=[here("o", peer)], channel_type="memory")
    return plan.text()


# ------------------------------------------------------------------------------------------------------- collections

XML_SAMPLES: dict[str, Callable[[], str]] = {
    "ring all-reduce, 2 ranks": lambda: ring_all_reduce(2),
    "ring all-reduce, 4 ranks": lambda: ring_all_reduce(4),
    "ring all-reduce, 4 ranks, out of place, LL": lambda: ring_all_reduce(4, protocol="LL", in_place=False),
    "ring all-reduce, 5 ranks, 2 channels, 2 instances, LL128": lambda: ring_all_reduce(
        5, channels=2, instances=2, protocol="LL128"
    ),
    "all-pairs all-reduce, 3 ranks": lambda: all_pairs_all_reduce(3),
    "all-pairs all-reduce, 4 ranks, 2 instances, Simple": lambda: all_pairs_all_reduce(
        4, instances=2, protocol="Simple"
    ),
    "all-pairs all-reduce, 3 ranks, out of place": lambda: all_pairs_all_reduce(3, in_place=False, per_owner=1),
    "ring all-gather, 4 ranks": lambda: ring_all_gather(4, per_rank=2),
    "ring all-gather, 3 ranks, out of place": lambda: ring_all_gather(3, in_place=False, protocol="LL"),
    "recursive doubling all-gather, 8 ranks": lambda: recursive_doubling_all_gather(8),
    "all-pairs reduce-scatter, 4 ranks": lambda: all_pairs_reduce_scatter(4, per_rank=2),
    "all-pairs reduce-scatter, 3 ranks, out of place": lambda: all_pairs_reduce_scatter(3, in_place=False),
    "all-to-all, 4 ranks": lambda: all_to_all(4),
    "all-to-all, 3 ranks, in place": lambda: all_to_all(3, per_pair=2, in_place=True),
    "broadcast chain, 4 ranks": lambda: broadcast_chain(4, chunks=3),
    "broadcast chain, 3 ranks, out of place": lambda: broadcast_chain(3, in_place=False),
    "hierarchical all-reduce, 2 x 2": lambda: hierarchical_all_reduce(2, 2),
    "hierarchical all-reduce, 2 x 3, 2 channels, out of place": lambda: hierarchical_all_reduce(
        2, 3, in_place=False, channels=2, protocol="LL"
    ),
}

PLAN_SAMPLES: dict[str, Callable[[], str]] = {
    "memory all-reduce": memory_all_reduce,
    "scratch all-reduce with barriers": scratch_all_reduce,
    "port all-gather": port_all_gather,
    "port all-gather without flush": lambda: port_all_gather(with_flush=False),
    "port ring all-gather": port_ring_all_gather,
    "packet all-reduce": packet_all_reduce,
    "packet relay broadcast": packet_relay_broadcast,
    "switch all-reduce": switch_all_reduce,
    "group reduce": group_reduce,
    "pipeline all-reduce": pipeline_all_reduce,
    "memory all-to-all": memory_all_to_all,
    "get all-gather": get_all_gather,
}

WRONG_SAMPLES: dict[str, Callable[[], str]] = {
    "two thread blocks on one connection": shared_connection,
    "fused reductions of unequal counts": fused_unequal_counts,
    "circular receive": circular_receive,
    "nop chain without a wait of its own": nop_chain_without_wait,
}
