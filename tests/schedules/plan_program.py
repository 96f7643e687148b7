"""MSCCL++ plans (JSON, version 2; the usual operations of version 1) as threads for the interleaving executor.

How a thread block is modelled. Between two block barriers (``nop`` is one) its CUDA threads run on their own: signals,
waits, semaphores and port operations are done by a few threads in order; data operations by all of them, each element by
some thread. One location stands for one element, so a block is two threads here: *control* runs the synchronising
operations in order, *data* the data operations in order, and each data operation falls to one or the other at random.

* Remote and local writes of a block with relaxed signals go through a store buffer, drained at random; a signal that is
  not relaxed, a port operation, a semaphore release and a barrier drain it first.
* A port put is a request: the proxy of its channel reads the source and writes the target later, in order with the
  channel's signals; flush waits until the proxy has nothing left.
* Packets carry a flag, so a read waits until the packet is written; they live in a space of their own beside scratch.
* A location is a chunk, or a grain of it where thread-block groups or pipelines cut chunks.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from schedules.interleaving import Buffers, Fault, Scheduler, Unreadable, Values

EMPTY = object()
COLLECTIVES = {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "reduce", "gather", "scatter"}
SIGNALS = ("signal", "rlxsignal")
CONTROL = {"signal", "rlxsignal", "wait", "rlxwait", "flush", "sem_acquire", "sem_release"}
SCRATCH_BYTES = 64 << 20
MAX_UNITS = 64


@dataclass(frozen=True)
class Ref:
    """A range of chunks in a buffer of some rank; ``packets`` for LL packets."""

    rank: int
    buffer: str
    index: int
    size: int
    packets: bool = False


@dataclass(frozen=True)
class Move:
    """Read all sources, add them up, write the sum to all targets; ``port`` gives it to that proxy."""

    where: str
    sources: tuple[Ref, ...]
    targets: tuple[Ref, ...]
    slice: tuple[int, int] = (0, 1)
    port: Any = None


@dataclass(frozen=True)
class Sync:
    """A synchronising operation: its name and what it works on."""

    where: str
    name: str
    keys: tuple[Any, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Loop:
    """A pipeline: its body is run unit by unit."""

    unit_bytes: int
    chunks: int
    body: tuple[Any, ...]


@dataclass
class PlanProgram:
    """All thread blocks of a plan, in the terms above."""

    collective: str
    ranks: int
    chunks: int
    scratch: list[int]
    placements: tuple[bool, ...]
    reuse: bool
    blocks: list[tuple[int, int, list[Any]]]
    semaphores: dict[Any, int]
    declared: dict[tuple[int, str], int] = field(default_factory=dict)

    def grains(self, size_bytes: int | None) -> tuple[int, int]:
        """(locations per chunk, bytes of a chunk): enough for groups to cut and pipelines to go unit by unit."""
        groups, units, loops = 1, 1, []
        for _, _, ops in self.blocks:
            for op in ops:
                for inner in op.body if isinstance(op, Loop) else (op,):
                    if isinstance(inner, Move):
                        groups = math.lcm(groups, inner.slice[1])
                if isinstance(op, Loop):
                    loops.append(op)
        chunk_bytes = -(-size_bytes // self.chunks) if size_bytes is not None else 0
        for loop in loops:
            units = math.lcm(units, 2 if size_bytes is None else min(MAX_UNITS, -(-chunk_bytes // loop.unit_bytes)))
        return groups * units, chunk_bytes

    def start(
        self, scheduler: Scheduler, values: Values, *, in_place: bool, size_bytes: int | None
    ) -> tuple[Buffers, list[Any], Callable[[], str]]:
        """Add two threads per block, a store buffer where signals are relaxed, and one proxy per port channel."""
        grains, chunk_bytes = self.grains(size_bytes)
        buffers = Buffers.layout(self.collective, self.ranks, self.chunks, self.scratch, in_place, grains)
        memory = buffers.fill(values)
        machine = Machine(self, scheduler, buffers, memory, chunk_bytes)
        for rank, index, ops in self.blocks:
            machine.add_block(f"g{rank} tb{index}", ops)
        machine.add_proxies()
        return buffers, memory, lambda: ""


class Machine:
    """The state that threads share in one run."""

    def __init__(
        self, program: PlanProgram, scheduler: Scheduler, buffers: Buffers, memory: list[Any], chunk_bytes: int
    ) -> None:
        self.program, self.scheduler, self.buffers, self.memory = program, scheduler, buffers, memory
        self.chunk_bytes = chunk_bytes
        self.wake = scheduler.wake
        self.counts: dict[Any, int] = dict(program.semaphores)
        self.expected: dict[Any, int] = {}
        self.barriers: dict[Any, list[int]] = {}
        self.proxies: dict[Any, deque[tuple[str, Any]]] = {}
        self.busy: dict[Any, bool] = {}
        self.packets: dict[int, int] = {}
        for rank in range(program.ranks):
            self.packets[rank] = len(memory)
            memory.extend([EMPTY] * buffers.size[rank, "s"])

    def locations(self, ref: Ref, move: Move, unit: tuple[int, int] | None) -> range:
        """The locations of a range: the slice of the thread-block group, or the part of this iteration."""
        grains = self.buffers.grains
        first, last = ref.index * grains, (ref.index + ref.size) * grains
        size = self.buffers.size.get((ref.rank, ref.buffer))
        if size is None:
            raise Unreadable(f"{move.where}: no buffer {ref.buffer!r} on rank {ref.rank}")
        limit = size if ref.buffer == "s" else min(size, self.program.declared[ref.rank, ref.buffer] * grains)
        if ref.index < 0 or ref.size < 0 or last > limit:
            raise Fault(
                f"{move.where}: uses {ref.buffer}[{ref.index}:{ref.index + ref.size}] of rank {ref.rank}, "
                f"buffer has {limit // grains}"
            )
        if unit is not None:
            first, last = first + unit[0], min(last, first + unit[1])
        k, parts = move.slice
        if last - first > 0 and parts > 1:
            length = last - first
            first, last = first + length * k // parts, first + length * (k + 1) // parts
        start = self.packets[ref.rank] if ref.packets else self.buffers.base[ref.rank, ref.buffer]
        return range(start + first, start + last)

    def scratch_round(self, move: Move, ref: Ref, unit: tuple[int, int] | None) -> tuple[int, int] | None:
        """Where an iteration lies in scratch, which is used again after so many units where resources are reused."""
        if unit is None or ref.buffer != "s" or not self.program.reuse or not self.chunk_bytes:
            return unit
        grain_bytes = max(1, self.chunk_bytes // self.buffers.grains)
        length = unit[1] - unit[0]
        room = SCRATCH_BYTES // max(1, self.program.scratch[ref.rank]) // grain_bytes
        room = max(length, room - room % length)
        return unit[0] % room, unit[0] % room + length

    def micro(self, move: Move, unit: tuple[int, int] | None) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """(locations read, locations written) per location of the move."""
        sides = []
        for refs in (move.sources, move.targets):
            sides.append([self.locations(ref, move, self.scratch_round(move, ref, unit)) for ref in refs])
        lengths = {len(places) for side in sides for places in side}
        count = len(sides[0][0])
        if len(lengths) > 1:
            count = min(lengths)
        sources, targets = sides
        return [(tuple(p[k] for p in sources), tuple(p[k] for p in targets)) for k in range(count)]

    def segments(self, ops: list[Any]) -> list[list[Any]]:
        """The operations with loops unrolled, cut after each block barrier."""
        flat: list[Any] = []
        for op in ops:
            if not isinstance(op, Loop):
                flat.append((op, self.micro(op, None)) if isinstance(op, Move) else (op, None))
                continue
            unit = self.buffers.grains
            if self.chunk_bytes:
                unit //= min(MAX_UNITS, -(-self.chunk_bytes // op.unit_bytes))
            else:
                unit //= 2
            for start in range(0, op.chunks * self.buffers.grains, unit):
                part = (start, start + unit)
                for inner in op.body:
                    flat.append((inner, self.micro(inner, part)) if isinstance(inner, Move) else (inner, None))
        result: list[list[Any]] = [[]]
        for item in flat:
            result[-1].append(item)
            if isinstance(item[0], Sync) and item[0].name in ("nop", "barrier"):
                result.append([])
        return result

    def add_block(self, name: str, ops: list[Any]) -> None:
        """Two threads that meet at block barriers, and the store buffer."""
        rng = self.scheduler.rng
        segments = self.segments(ops)
        relaxed = any(item[0].name == "rlxsignal" for s in segments for item in s if isinstance(item[0], Sync))
        store: dict[int, Any] | None = {} if relaxed else None
        sides: tuple[list[Any], list[Any]] = ([], [])
        for segment in segments:
            control: list[Any] = []
            data: list[Any] = []
            for op, micro in segment:
                own = isinstance(op, Sync) or op.port is not None or rng.random() < 0.4
                if isinstance(op, Sync) and op.name in ("nop", "barrier"):
                    control.append((op, micro))
                    data.append((Sync(op.where, "meet"), None))
                else:
                    (control if own else data).append((op, micro))
            sides[0].extend(control)
            sides[1].extend(data)
        meeting = [0, 0]
        for side, part in enumerate(("control", "data")):
            if any(item[1] is not None for item in sides[side]) or side == 0:
                self.scheduler.add(self.thread(name, sides[side], side, meeting, store), f"{name} {part}")
            else:
                meeting[1] = 1 << 40
        if store is not None:
            self.scheduler.add(self.drain(name, store), f"{name} stores", required=False)

    def drain(self, name: str, store: dict[int, Any]) -> Iterator[Any]:
        """Let pending writes of a block reach memory in any order."""
        key = f"stores of {name}"
        while True:
            while not store:
                yield key
            self.commit(store, self.scheduler.rng.choice(list(store)))
            yield None

    def commit(self, store: dict[int, Any], location: int) -> None:
        """One pending write reaches memory."""
        packet = self.memory[location] is EMPTY
        self.memory[location] = store.pop(location)
        if packet:
            self.wake(f"packet {location}")

    def move(self, name: str, micro: list[Any], store: dict[int, Any] | None) -> Iterator[Any]:
        """The reads and writes of one data operation, location by location."""
        memory = self.memory
        for sources, targets in micro:
            total = None
            for location in sources:
                while True:
                    value = store[location] if store and location in store else memory[location]
                    if value is not EMPTY:
                        break
                    yield f"packet {location}"
                total = value if total is None else total + value
                yield None
            for location in targets:
                if store is None:
                    packet = memory[location] is EMPTY
                    memory[location] = total
                    if packet:
                        self.wake(f"packet {location}")
                else:
                    store[location] = total
                    self.wake(f"stores of {name}")
                yield None

    def add_proxies(self) -> None:
        """One proxy for each port channel that is asked for anything."""
        for _, _, ops in self.program.blocks:
            for op in (x for outer in ops for x in (outer.body if isinstance(outer, Loop) else (outer,))):
                keys = [op.port] if isinstance(op, Move) else [k for k in op.keys if op.name in SIGNALS]
                for key in keys:
                    if key is not None and key[0] == "port" and key not in self.proxies:
                        self.proxies[key] = deque()
                        self.scheduler.add(self.proxy(key), f"proxy {key}", required=False)

    def proxy(self, key: Any) -> Iterator[Any]:
        """The proxy of a port channel: one request after the other."""
        queue = self.proxies[key]
        while True:
            while not queue:
                yield f"requests on {key}"
            kind, what = queue[0]
            if kind == "move":
                yield from self.move("", what, None)
            else:
                self.counts[what] = self.counts.get(what, 0) + 1
                self.wake(f"signal {what}")
            queue.popleft()
            if not queue:
                self.wake(f"flush of {key}")
            yield None

    def request(self, key: Any, kind: str, what: Any) -> None:
        """Give a request to the proxy of a channel."""
        self.proxies[key].append((kind, what))
        self.wake(f"requests on {key}")

    def thread(
        self, name: str, items: list[Any], side: int, meeting: list[int], store: dict[int, Any] | None
    ) -> Iterator[Any]:
        """One of the two threads of a block. They meet: each counts its arrivals and waits for the other's."""
        counts = self.counts
        for op, micro in items:
            if isinstance(op, Move):
                if op.port is None:
                    yield from self.move(name, micro, store)
                    continue
                yield from self.release(store)
                self.request(op.port, "move", micro)
                yield None
                continue
            kind = op.name
            if kind in SIGNALS:
                if kind == "signal":
                    yield from self.release(store)
                for key in op.keys:
                    if key[0] == "port":
                        yield from self.release(store)
                        self.request(key, "signal", key)
                    else:
                        counts[key] = counts.get(key, 0) + 1
                        self.wake(f"signal {key}")
                    yield None
            elif kind in ("wait", "rlxwait"):
                for key in op.keys:
                    self.expected[key] = wanted = self.expected.get(key, 0) + 1
                    while counts.get(key, 0) < wanted:
                        yield f"signal {key}"
                    yield None
            elif kind == "flush":
                for key in op.keys:
                    while self.proxies.get(key):
                        yield f"flush of {key}"
                    yield None
            elif kind == "sem_acquire":
                for key in op.keys:
                    while counts.get(key, 0) < 1:
                        yield f"semaphore {key}"
                    counts[key] -= 1
                    yield None
            elif kind == "sem_release":
                yield from self.release(store)
                for key in op.keys:
                    counts[key] = counts.get(key, 0) + 1
                    self.wake(f"semaphore {key}")
                    yield None
            elif kind == "progress":
                yield from self.release(store)
                counts[op.keys[0]] = op.count
                self.wake(f"progress {op.keys[0]}")
                yield None
            elif kind == "after":
                while counts.get(op.keys[0], 0) < op.count:
                    yield f"progress {op.keys[0]}"
                yield None
            else:
                yield from self.meet(name, side, meeting)
                if kind == "barrier":
                    yield from self.release(store)
                    yield from self.arrive(op.keys[0], op.count)
                yield from self.meet(name, side, meeting)

    def release(self, store: dict[int, Any] | None) -> Iterator[Any]:
        """Let every write so far reach memory."""
        while store:
            self.commit(store, next(iter(store)))
            yield None

    def meet(self, name: str, side: int, meeting: list[int]) -> Iterator[Any]:
        """Wait until the other thread of the block has come as far."""
        meeting[side] += 1
        self.wake(f"block barrier of {name}, {side}")
        mine = meeting[side]
        while meeting[1 - side] < mine:
            yield f"block barrier of {name}, {1 - side}"

    def arrive(self, key: Any, count: int) -> Iterator[Any]:
        """A named barrier over ``count`` thread blocks."""
        state = self.barriers.setdefault(key, [0, 0])
        generation = state[1]
        state[0] += 1
        if state[0] >= count:
            state[0] = 0
            state[1] += 1
            self.wake(f"barrier {key} {generation}")
            yield None
        while state[1] == generation:
            yield f"barrier {key} {generation}"


def get(table: Any, name: str, where: str, kind: type = int) -> Any:
    """A required entry of the right type."""
    if not isinstance(table, dict) or name not in table:
        raise Unreadable(f"{where}: no {name}")
    value = table[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise Unreadable(f"{where}: {name} is {value!r}")
    return value


def read_plan(text: str) -> PlanProgram:
    """Parse a plan; the keys tell the versions apart."""
    try:
        plan = json.loads(text)
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from None
    gpus = get(plan, "gpus", "plan", list)
    first = gpus[0] if gpus else {}
    if "inputChunks" in first:
        from schedules.plan_v1_program import read_v1

        return read_v1(plan)
    try:
        return Reader(plan).program()
    except (IndexError, KeyError, TypeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


class Reader:
    """Reads version 2."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        self.gpus = plan["gpus"]
        if [gpu["id"] for gpu in self.gpus] != list(range(len(self.gpus))):
            raise Unreadable("gpu ids are not 0, 1, 2, ...")
        self.channels = [self.gpu_channels(gpu) for gpu in self.gpus]

    def gpu_channels(self, gpu: Any) -> dict[str, list[Any]]:
        """Per type, the channels of one rank: (peer, how many before it to that peer), or (buffer, ranks)."""
        rank = gpu["id"]
        channels: dict[str, list[Any]] = {"memory": [], "port": [], "switch": []}
        for entry in gpu["channels"]:
            kind = get(entry, "channel_type", f"gpu {rank}", str)
            if kind == "switch":
                buffer = get(entry, "buffer_type", f"gpu {rank}, switch channel", str)
                for group in entry["rank_groups"]:
                    if group["size"] != len(group["ranks"]):
                        raise Unreadable(f"gpu {rank}: a rank group of size {group['size']} lists {group['ranks']}")
                    channels[kind].append((buffer, tuple(group["ranks"])))
                continue
            if kind not in channels:
                raise Unreadable(f"gpu {rank}: unknown channel type {kind!r}")
            for peer in entry["connected_to"]:
                if not 0 <= peer < len(self.gpus) or peer == rank:
                    raise Unreadable(f"gpu {rank}: a channel to rank {peer}")
                channels[kind].append((peer, sum(p == peer for p, _ in channels[kind])))
        return channels

    def program(self) -> PlanProgram:
        """The whole plan."""
        plan, ranks = self.plan, len(self.gpus)
        collective = get(plan, "collective", "plan", str).lower().replace("_", "")
        if collective not in COLLECTIVES:
            collective = "custom"
        chunks = max(max(gpu["input_chunks"], gpu["output_chunks"]) for gpu in self.gpus)
        if collective == "allgather":
            chunks = max(chunks, max(gpu["input_chunks"] for gpu in self.gpus) * ranks)
        if collective == "reducescatter":
            chunks = max(chunks, max(gpu["output_chunks"] for gpu in self.gpus) * ranks)
        if chunks < 1:
            raise Unreadable("no chunks")
        semaphores: dict[Any, int] = {}
        blocks: list[tuple[int, int, list[Any]]] = []
        for gpu in self.gpus:
            rank = gpu["id"]
            for k, entry in enumerate(gpu.get("semaphores", [])):
                semaphores["semaphore", rank, k] = entry["init_value"]
            ids = [block["id"] for block in gpu["threadblocks"]]
            if sorted(ids) != list(range(len(ids))):
                raise Unreadable(f"gpu {rank}: thread block ids {ids}")
            for block in gpu["threadblocks"]:
                ops: list[Any] = []
                for position, op in enumerate(block["ops"]):
                    ops += self.op(gpu, block, op, f"{rank}/{block['id']}/{position}")
                blocks.append((rank, block["id"], ops))
        declared = {}
        in_place = plan["inplace"] is True
        for gpu in self.gpus:
            sizes = gpu["input_chunks"], gpu["output_chunks"]
            for name, size in zip("io", sizes, strict=True):
                shared = in_place and collective not in ("allgather", "reducescatter", "custom")
                declared[gpu["id"], name] = max(sizes) if shared else size
        scratch = [gpu["scratch_chunks"] for gpu in self.gpus]
        reuse = plan.get("reuse_resources", False) is True
        return PlanProgram(collective, ranks, chunks, scratch, (in_place,), reuse, blocks, semaphores, declared)

    def block_channels(self, block: Any, kind: str) -> list[int]:
        """The rank's channels of a type that a block uses, in its own numbering."""
        return [c for entry in block["channels"] if entry["channel_type"] == kind for c in entry["channel_ids"]]

    def channel(self, rank: int, block: Any, kind: str, local: int, where: str) -> Any:
        """A channel of a block by its number there."""
        own = self.block_channels(block, kind)
        if not 0 <= local < len(own) or not 0 <= own[local] < len(self.channels[rank][kind]):
            raise Unreadable(f"{where}: no {kind} channel {local}")
        return self.channels[rank][kind][own[local]]

    def ref(self, gpu: Any, block: Any, entry: Any, kind: str, where: str, packets: bool = False) -> tuple[Ref, ...]:
        """A local, remote or switch buffer of an operation."""
        rank = gpu["id"]
        index, size = get(entry, "index", where), get(entry, "size", where)
        if "switch_channel_id" in entry:
            buffer, group = self.channel(rank, block, "switch", entry["switch_channel_id"], where)
            if rank not in group:
                raise Unreadable(f"{where}: rank {rank} is not of the switch group {group}")
            return tuple(Ref(member, buffer, index, size, packets) for member in group)
        if "buffer_id" in entry:
            ids = [
                b
                for refs in block["remote_buffer_refs"]
                if refs["access_channel_type"] == kind
                for b in refs["remote_buffer_ids"]
            ]
            number = entry["buffer_id"]
            if not 0 <= number < len(ids) or not 0 <= ids[number] < len(gpu["remote_buffers"]):
                raise Unreadable(f"{where}: no remote buffer {number}")
            remote = gpu["remote_buffers"][ids[number]]
            if not 0 <= remote["rank"] < len(self.gpus):
                raise Unreadable(f"{where}: a remote buffer of rank {remote['rank']}")
            return (Ref(remote["rank"], remote["type"], index, size, packets),)
        return (Ref(rank, get(entry, "type", where, str), index, size, packets),)

    def op(self, gpu: Any, block: Any, op: Any, where: str) -> list[Any]:
        """One operation as moves and synchronisation."""
        rank, name = gpu["id"], get(op, "name", where, str)
        kind = op.get("channel_type", "memory")
        if name == "nop":
            return [Sync(where, "nop")]
        if name == "barrier":
            return [Sync(where, "barrier", ((rank, get(op, "barrier_id", where)),), get(op, "num_threadblocks", where))]
        if name in ("sem_acquire", "sem_release"):
            own = gpu.get("semaphores", [])
            for k in op["semaphore_ids"]:
                if not 0 <= k < len(own):
                    raise Unreadable(f"{where}: no semaphore {k}")
            return [Sync(where, name, tuple(("semaphore", rank, k) for k in op["semaphore_ids"]))]
        if name == "pipeline":
            context = op["iter_context"]
            body = tuple(x for k, inner in enumerate(op["ops"]) for x in self.op(gpu, block, inner, f"{where}.{k}"))
            if get(context, "unit_size", where) < 1:
                raise Unreadable(f"{where}: unit_size {context['unit_size']}")
            return [Loop(context["unit_size"], get(context, "num_chunks", where), body)]
        if name in CONTROL:
            keys = []
            for local in op["channel_ids"]:
                peer, k = self.channel(rank, block, kind, local, where)
                incoming = name in ("wait", "rlxwait")
                keys.append((kind, peer, rank, k) if incoming else (kind, rank, peer, k))
            return [Sync(where, name, tuple(keys))]
        return self.data_op(gpu, block, op, name, kind, where)

    def data_op(self, gpu: Any, block: Any, op: Any, name: str, kind: str, where: str) -> list[Any]:
        """An operation that moves data."""
        group = op.get("tbg_info")
        part = (group["tb_id"], group["tbg_size"]) if group else (0, 1)
        if not 0 <= part[0] < part[1]:
            raise Unreadable(f"{where}: thread block {part[0]} of a group of {part[1]}")

        def refs(side: str, packets: range | tuple[int, ...] = ()) -> list[tuple[Ref, ...]]:
            entries = op[side]
            return [self.ref(gpu, block, e, kind, where, k in packets) for k, e in enumerate(entries)]

        every = range(1 << 16)
        rest = range(1, 1 << 16)
        if name in ("put", "pws", "pwsf", "get", "copy", "ppkt", "cpkt", "upkt", "gstore", "gstorepkt"):
            inside = every if name == "upkt" or (name == "ppkt" and kind == "port") else ()
            outside = every if name in ("ppkt", "cpkt", "gstorepkt") else ()
            sources, targets = refs("src_buff", inside), refs("dst_buff", outside)
            if len(sources) != len(targets):
                raise Unreadable(f"{where}: {len(sources)} sources, {len(targets)} targets")
            result: list[Any] = []
            for k, (source, target) in enumerate(zip(sources, targets, strict=True)):
                port = None
                if kind == "port":
                    peer, nth = self.channel(gpu["id"], block, "port", op["channel_ids"][k], where)
                    port = ("port", gpu["id"], peer, nth)
                    if target[0].rank != peer:
                        raise Unreadable(f"{where}: puts to rank {target[0].rank} on a channel to rank {peer}")
                elif name in ("pws", "pwsf"):
                    raise Unreadable(f"{where}: {name} needs a port channel")
                result.append(Move(where, source, target, part, port))
                if name in ("pws", "pwsf"):
                    result.append(Sync(where, "signal", (port,)))
                if name == "pwsf":
                    result.append(Sync(where, "flush", (port,)))
            return result
        # name: (packets among the sources, packets among the targets)
        reductions: dict[str, tuple[Any, Any]] = {
            "re": ((), ()),
            "res": ((), ()),
            "rre": ((), ()),
            "rres": ((), ()),
            "glres": ((), ()),
            "repkt": (rest, ()),
            "respkt": (rest, rest),
            "recpkt": (rest, rest),
            "recspkt": (rest, rest),
            "rppkt": (every, every),
        }
        if name not in reductions:
            raise Unreadable(f"{where}: the executor does not know {name!r}")
        inside, outside = reductions[name]
        sources = tuple(ref for group_refs in refs("src_buff", inside) for ref in group_refs)
        targets = tuple(ref for group_refs in refs("dst_buff", outside) for ref in group_refs)
        if name == "rppkt" and kind == "port":
            # the block reads the packets, meets, and only then asks the proxies
            result = [Move(where, sources, (), part), Sync(where, "nop")]
            for k, target in enumerate(targets):
                peer, nth = self.channel(gpu["id"], block, "port", op["channel_ids"][k], where)
                result.append(Move(where, sources, (target,), part, ("port", gpu["id"], peer, nth)))
            return result
        return [Move(where, sources, targets, part)]
