"""Version 2 of MSCCL++ plans: channels, remote buffers and semaphores by number in lists of the rank and of the thread block."""

from __future__ import annotations

from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.checked import listed, mapping, member, whole
from fabric_plan.planner.formats.mscclpp_json import (
    MAX_CHUNKS,
    MAX_OPS,
    SIGNALS,
    WAITS,
    Block,
    Key,
    Lines,
    Loop,
    Move,
    Operation,
    Plan,
    Ref,
    Sync,
    slice_of,
    text_of,
    window,
)

KINDS = ("memory", "port", "switch")
COPIES = {
    # name: (sources are packets, targets are packets)
    "put": (False, False), "pws": (False, False), "pwsf": (False, False), "get": (False, False), "copy": (False, False),
    "gstore": (False, False), "ppkt": (False, True), "cpkt": (False, True), "upkt": (True, False), "gstorepkt": (False, True),
}  # fmt: skip
REDUCTIONS = {
    # name: (the first source is packets, the others are, the first target is packets, the others are)
    "re": (False, False, False, False), "res": (False, False, False, False), "rre": (False, False, False, False),
    "rres": (False, False, False, False), "glres": (False, False, False, False), "repkt": (False, True, False, False),
    "respkt": (False, True, False, True), "recpkt": (False, True, False, True), "recspkt": (False, True, False, True),
    "rppkt": (True, True, True, True),
}  # fmt: skip


def read(document: dict[str, Any], gpus: list[dict[str, Any]], lines: Lines) -> Plan:
    """Return the plan of a document.

    Raises
    ------
    InvalidInput
        When the executor would not load it.
    """
    low, high = window(document)
    declared = {}
    for rank, gpu in enumerate(gpus):
        for name, key in (("i", "input_chunks"), ("o", "output_chunks"), ("s", "scratch_chunks")):
            declared[rank, name] = whole(member(gpu, key, f"gpus[{rank}]"), f"gpus[{rank}].{key}", 0, MAX_CHUNKS)
    in_place = member(document, "inplace", "the plan")
    if not isinstance(in_place, bool):
        raise InvalidInput(f"inplace: expected true or false, found {str(in_place)[:40]}")
    plan = Plan(
        2,
        str(document.get("name", "")),
        text_of(document, "collective", "the plan"),
        str(document.get("protocol", "Simple")),
        in_place,
        low,
        high,
        len(gpus),
        declared,
    )
    plan.reuse = document.get("reuse_resources") is True
    plan.double = document.get("use_double_scratch_buffer") is True
    members = [_Rank(rank, gpu, plan) for rank, gpu in enumerate(gpus)]
    total = 0
    for one in members:
        for k, body in enumerate(listed(member(one.gpu, "threadblocks", one.where), f"{one.where}.threadblocks")):
            block = _Block(one, mapping(body, f"{one.where}.threadblocks[{k}]"), k, plan, lines)
            plan.blocks.append(block.read())
            total += len(plan.blocks[-1].operations)
            if total > MAX_OPS:
                raise InvalidInput(f"more than {MAX_OPS:,} operations")
    return plan


class _Rank:
    """Channels, remote buffers and semaphores of a rank."""

    def __init__(self, rank: int, gpu: dict[str, Any], plan: Plan) -> None:
        self.rank, self.gpu, self.where = rank, gpu, f"gpus[{rank}]"
        ranks = plan.ranks
        self.channels: dict[str, list[tuple[Any, Any]]] = {kind: [] for kind in KINDS}
        for k, one in enumerate(listed(member(gpu, "channels", self.where), f"{self.where}.channels")):
            where = f"{self.where}.channels[{k}]"
            entry = mapping(one, where)
            kind = text_of(entry, "channel_type", where)
            if kind == "switch":
                buffer = text_of(entry, "buffer_type", where)
                for j, group in enumerate(listed(member(entry, "rank_groups", where), f"{where}.rank_groups")):
                    body = mapping(group, f"{where}.rank_groups[{j}]")
                    inside = listed(member(body, "ranks", where), f"{where}.rank_groups[{j}].ranks")
                    members = tuple(whole(r, f"{where}.rank_groups[{j}].ranks", 0, ranks - 1) for r in inside)
                    if member(body, "size", where) != len(members):
                        raise InvalidInput(f"{where}.rank_groups[{j}]: size and ranks differ")
                    self.channels[kind].append((buffer, members))
                continue
            if kind not in KINDS:
                raise InvalidInput(f"{where}.channel_type: expected {', '.join(KINDS)}, found {kind[:40]!r}")
            for peer in listed(member(entry, "connected_to", where), f"{where}.connected_to"):
                end = whole(peer, f"{where}.connected_to", 0, ranks - 1)
                if end == rank:
                    raise InvalidInput(f"{where}.connected_to: rank {rank} to itself")
                nth = sum(other == end for other, _ in self.channels[kind])
                self.channels[kind].append((end, nth))
                plan.channels.add((kind, rank, end, nth))
        self.remote: list[tuple[int, str]] = []
        for k, one in enumerate(listed(gpu.get("remote_buffers", []), f"{self.where}.remote_buffers")):
            where = f"{self.where}.remote_buffers[{k}]"
            entry = mapping(one, where)
            end = whole(member(entry, "rank", where), f"{where}.rank", 0, ranks - 1)
            self.remote.append((end, text_of(entry, "type", where)))
        self.semaphores = 0
        for k, one in enumerate(listed(gpu.get("semaphores", []), f"{self.where}.semaphores")):
            where = f"{self.where}.semaphores[{k}]"
            value = whole(member(mapping(one, where), "init_value", where), f"{where}.init_value", 0, 1_000_000)
            plan.semaphores["semaphore", rank, k] = value
            self.semaphores += 1


class _Block:
    """A thread block, with its own numbering of channels and remote buffers."""

    def __init__(self, rank: _Rank, body: dict[str, Any], place: int, plan: Plan, lines: Lines) -> None:
        self.rank, self.body, self.plan, self.lines = rank, body, plan, lines
        self.where = f"{rank.where}.threadblocks[{place}]"
        self.id = whole(member(body, "id", self.where), f"{self.where}.id", 0, 4096)
        if self.id != place:
            raise InvalidInput(f"{self.where}.id: expected {place}, found {self.id}")
        self.channels = self._numbers("channels", "channel_type", "channel_ids")
        self.buffers = self._numbers("remote_buffer_refs", "access_channel_type", "remote_buffer_ids")

    def _numbers(self, name: str, kind: str, ids: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for k, one in enumerate(listed(self.body.get(name, []), f"{self.where}.{name}")):
            where = f"{self.where}.{name}[{k}]"
            entry = mapping(one, where)
            numbers = listed(member(entry, ids, where), f"{where}.{ids}")
            found.setdefault(text_of(entry, kind, where), []).extend(whole(n, f"{where}.{ids}", 0) for n in numbers)
        return found

    def read(self) -> Block:
        """Return the block."""
        rows = listed(member(self.body, "ops", self.where), f"{self.where}.ops")
        line = self.lines.here()
        operations = tuple(self._operation(one, f"{self.where}.ops[{k}]", k) for k, one in enumerate(rows))
        return Block(self.rank.rank, self.id, line, operations, sum(map(len, self.channels.values())))

    def _operation(self, value: Any, where: str, number: int) -> Operation:
        op = mapping(value, where)
        name = text_of(op, "name", where)
        line = self.lines.take()
        sides = [op[side] for side in ("src_buff", "dst_buff") if isinstance(op.get(side), list)]
        steps = tuple(self._steps(op, name, where, number, line))
        return Operation(name, number, line, steps, max(map(len, sides), default=0))

    def _channel(self, kind: str, local: Any, where: str) -> tuple[Any, Any]:
        own = self.channels.get(kind, [])
        number = whole(local, f"{where}.channel_ids", 0)
        if number >= len(own) or own[number] >= len(self.rank.channels.get(kind, [])):
            raise InvalidInput(f"{where}: no {kind} channel {number} in its thread block")
        return self.rank.channels[kind][own[number]]

    def _steps(self, op: dict[str, Any], name: str, where: str, number: int, line: int) -> list[Move | Sync | Loop]:
        rank = self.rank.rank
        if name == "nop":
            return [Sync("nop")]
        if name == "barrier":
            key = "barrier", rank, whole(member(op, "barrier_id", where), f"{where}.barrier_id", 0, 4096)
            count = whole(member(op, "num_threadblocks", where), f"{where}.num_threadblocks", 1, 4096)
            return [Sync("barrier", (key,), count)]
        if name in ("sem_acquire", "sem_release"):
            numbers = listed(member(op, "semaphore_ids", where), f"{where}.semaphore_ids")
            keys = tuple(("semaphore", rank, whole(one, f"{where}.semaphore_ids", 0)) for one in numbers)
            for key in keys:
                if key[2] >= self.rank.semaphores:
                    raise InvalidInput(f"{where}: no semaphore {key[2]}: rank {rank} has {self.rank.semaphores}")
            return [Sync(name, keys)]
        if name == "pipeline":
            context = mapping(member(op, "iter_context", where), f"{where}.iter_context")
            unit = whole(member(context, "unit_size", where), f"{where}.iter_context.unit_size", 1, 1 << 62)
            chunks = whole(member(context, "num_chunks", where), f"{where}.iter_context.num_chunks", 1, MAX_CHUNKS)
            rows = listed(member(op, "ops", where), f"{where}.ops")
            body = tuple(self._operation(one, f"{where}.ops[{k}]", number) for k, one in enumerate(rows))
            if any(isinstance(step, Loop) for inner in body for step in inner.steps):
                raise InvalidInput(f"{where}: a pipeline inside a pipeline, which the executor does not run")
            return [Loop(chunks, unit, body)]
        kind = op.get("channel_type", "memory")
        if kind not in KINDS:
            raise InvalidInput(f"{where}.channel_type: expected {', '.join(KINDS)}, found {str(kind)[:40]!r}")
        if name in (*SIGNALS, *WAITS, "flush"):
            ids = listed(member(op, "channel_ids", where), f"{where}.channel_ids")
            if kind == "switch":
                raise InvalidInput(f"{where}: {name} on a switch channel")
            ends = [self._channel(kind, one, where) for one in ids]
            waits = name in WAITS
            return [Sync(name, tuple((kind, peer, rank, k) if waits else (kind, rank, peer, k) for peer, k in ends))]
        if name in COPIES:
            return self._copies(op, name, kind, where, line)
        if name in REDUCTIONS:
            return self._reduction(op, name, kind, where)
        raise InvalidInput(f"{where}: the executor does not know the operation {name[:40]!r}")

    def _refs(
        self, op: dict[str, Any], side: str, kind: str, where: str, packets: tuple[bool, bool]
    ) -> list[tuple[Ref, ...]]:
        rows = listed(member(op, side, where), f"{where}.{side}")
        return [self._ref(one, kind, f"{where}.{side}[{k}]", packets[min(k, 1)]) for k, one in enumerate(rows)]

    def _ref(self, value: Any, kind: str, where: str, packets: bool) -> tuple[Ref, ...]:
        entry = mapping(value, where)
        index = whole(member(entry, "index", where), f"{where}.index", 0)
        size = whole(member(entry, "size", where), f"{where}.size", 0, MAX_CHUNKS)
        rank = self.rank.rank
        if "switch_channel_id" in entry:
            buffer, group = self._channel("switch", entry["switch_channel_id"], where)
            if rank not in group:
                raise InvalidInput(f"{where}: rank {rank} is not of the switch group {list(group)}")
            return tuple(Ref(one, buffer, index, size, packets) for one in group)
        if "buffer_id" in entry:
            own = self.buffers.get(kind, [])
            number = whole(entry["buffer_id"], f"{where}.buffer_id", 0)
            if number >= len(own) or own[number] >= len(self.rank.remote):
                raise InvalidInput(f"{where}: no remote buffer {number} for {kind} channels in its thread block")
            end, buffer = self.rank.remote[own[number]]
            return (Ref(end, buffer, index, size, packets),)
        return (Ref(rank, text_of(entry, "type", where), index, size, packets),)

    def _copies(self, op: dict[str, Any], name: str, kind: str, where: str, line: int) -> list[Move | Sync | Loop]:
        inside, outside = COPIES[name]
        if name == "ppkt" and kind == "port":
            inside = True
        sources = self._refs(op, "src_buff", kind, where, (inside, inside))
        targets = self._refs(op, "dst_buff", kind, where, (outside, outside))
        if len(sources) != len(targets):
            raise InvalidInput(f"{where}: {len(sources)} sources and {len(targets)} targets")
        part = slice_of(op, where)
        if name == "get" and any(a[0].index != b[0].index for a, b in zip(sources, targets, strict=True)):
            self.plan.quirks.append(("get-offsets", f"{where}: get: executors swap its offsets, which differ", line))
        if name == "put" and kind == "memory" and len({a[0].buffer for a in sources}) > 1:
            text = f"{where}: put: executors take the first source's buffer for all, and they differ"
            self.plan.quirks.append(("put-sources", text, line))
        steps: list[Move | Sync | Loop] = []
        for k, (source, target) in enumerate(zip(sources, targets, strict=True)):
            port: Key | None = None
            if kind == "port":
                ids = listed(member(op, "channel_ids", where), f"{where}.channel_ids")
                if k >= len(ids):
                    raise InvalidInput(f"{where}: {len(sources)} sources, {len(ids)} channels")
                peer, nth = self._channel("port", ids[k], where)
                port = "port", self.rank.rank, peer, nth
                if target[0].rank != peer:
                    raise InvalidInput(f"{where}: puts to rank {target[0].rank} over a channel to rank {peer}")
            elif name in ("pws", "pwsf"):
                raise InvalidInput(f"{where}: {name} needs a port channel")
            steps.append(Move(source, target, part, port))
            if name in ("pws", "pwsf"):
                steps.append(Sync("signal", (port,)))
            if name == "pwsf":
                steps.append(Sync("flush", (port,)))
        return steps

    def _reduction(self, op: dict[str, Any], name: str, kind: str, where: str) -> list[Move | Sync | Loop]:
        first_in, rest_in, first_out, rest_out = REDUCTIONS[name]
        part = slice_of(op, where)
        sources = tuple(ref for refs in self._refs(op, "src_buff", kind, where, (first_in, rest_in)) for ref in refs)
        if name == "recpkt" or name == "recspkt":
            first_out, rest_out = False, True
        targets = tuple(ref for refs in self._refs(op, "dst_buff", kind, where, (first_out, rest_out)) for ref in refs)
        if name == "rppkt" and kind == "port":
            # The block reads the packets, meets, and only then asks the proxies.
            steps: list[Move | Sync | Loop] = [Move(sources, (), part), Sync("nop")]
            ids = listed(member(op, "channel_ids", where), f"{where}.channel_ids")
            for k, target in enumerate(targets):
                peer, nth = self._channel("port", ids[k] if k < len(ids) else -1, where)
                steps.append(Move(sources, (target,), part, ("port", self.rank.rank, peer, nth)))
            return steps
        return [Move(sources, targets, part)]
