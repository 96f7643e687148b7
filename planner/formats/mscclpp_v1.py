"""Version 1 of MSCCL++ plans: operations with input and output channels by buffer pair, and waits for other blocks' steps."""

from __future__ import annotations

from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.checked import listed, mapping, member, whole
from fabric_plan.planner.formats.mscclpp_json import (
    MAX_CHUNKS,
    Block,
    Key,
    Lines,
    Loop,
    Move,
    Operation,
    Plan,
    Ref,
    Sync,
    text_of,
    window,
)

TYPES = {"sm": "memory", "proxy": "port"}


def read(document: dict[str, Any], gpus: list[dict[str, Any]], lines: Lines) -> Plan:
    """Return the plan of a document.

    Raises
    ------
    InvalidInput
        When the executor would not load it, or an operation is not followed here.
    """
    low, high = window(document)
    declared: dict[tuple[int, str], int] = {}
    for rank, gpu in enumerate(gpus):
        for name, key in (("i", "inputChunks"), ("o", "outputChunks"), ("s", "scratchChunks")):
            declared[rank, name] = whole(member(gpu, key, f"gpus[{rank}]"), f"gpus[{rank}].{key}", 0, MAX_CHUNKS)
    collective = document.get("collective", document.get("colletive"))
    if not isinstance(collective, str):
        raise InvalidInput("the plan has no 'collective'")
    in_place = document.get("inplace", True)
    plan = Plan(
        1,
        str(document.get("name", "")),
        collective,
        str(document.get("protocol", "Simple")),
        in_place is True,
        low,
        high,
        len(gpus),
        declared,
    )
    if "colletive" in document and "collective" not in document:
        plan.quirks.append(("colletive", "the key is misspelt 'colletive', as older tools wrote it", 1))
    members = [_Rank(rank, gpu, plan) for rank, gpu in enumerate(gpus)]
    for one in members:
        rows = listed(member(one.gpu, "threadblocks", one.where), f"{one.where}.threadblocks")
        blocks = [mapping(body, f"{one.where}.threadblocks") for body in rows]
        awaited = one.awaited(blocks)
        for k, body in enumerate(blocks):
            plan.blocks.append(one.block(body, k, awaited, lines))
    return plan


class _Rank:
    def __init__(self, rank: int, gpu: dict[str, Any], plan: Plan) -> None:
        self.rank, self.gpu, self.where = rank, gpu, f"gpus[{rank}]"
        seen: dict[tuple[str, int], int] = {}
        self.channels: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
        for k, one in enumerate(listed(member(gpu, "channels", self.where), f"{self.where}.channels")):
            where = f"{self.where}.channels[{k}]"
            entry = mapping(one, where)
            kind = text_of(entry, "type", where)
            if kind not in (*TYPES, "none"):
                raise InvalidInput(f"{where}.type: {kind[:40]!r} channels of version 1 are not followed here")
            key = text_of(entry, "srcbuff", where), text_of(entry, "dstbuff", where), kind
            for peer in listed(member(entry, "connectedTo", where), f"{where}.connectedTo"):
                end = whole(peer, f"{where}.connectedTo", 0, plan.ranks - 1)
                if kind in TYPES and end == rank:
                    raise InvalidInput(f"{where}.connectedTo: rank {rank} to itself")
                nth = seen.get((kind, end), 0)
                seen[kind, end] = nth + 1
                self.channels.setdefault(key, []).append((end, nth))
                if kind in TYPES:
                    plan.channels.add((TYPES[kind], rank, end, nth))

    def awaited(self, blocks: list[dict[str, Any]]) -> set[tuple[int, int]]:
        """Return (block, step) for which nops of other blocks wait."""
        found = set()
        for k, body in enumerate(blocks):
            where = f"{self.where}.threadblocks[{k}]"
            for op in listed(member(body, "ops", where), f"{where}.ops"):
                for dep in listed(mapping(op, where).get("deps", []), f"{where}.deps"):
                    entry = mapping(dep, f"{where}.deps")
                    found.add(
                        (whole(member(entry, "tb", where), where, 0), whole(member(entry, "step", where), where, 0))
                    )
        return found

    def block(self, body: dict[str, Any], place: int, awaited: set[tuple[int, int]], lines: Lines) -> Block:
        """Return a block."""
        where = f"{self.where}.threadblocks[{place}]"
        number = whole(member(body, "id", where), f"{where}.id", 0, 4096)
        if number != place:
            raise InvalidInput(f"{where}.id: expected {place}, found {number}")
        own: dict[tuple[str, str, str], list[int]] = {}
        for k, one in enumerate(listed(member(body, "channels", where), f"{where}.channels")):
            entry = mapping(one, f"{where}.channels[{k}]")
            key = text_of(entry, "src", where), text_of(entry, "dst", where), text_of(entry, "ctype", where)
            cids = listed(member(entry, "cids", where), f"{where}.channels[{k}].cids")
            own[key] = [whole(one, f"{where}.channels[{k}].cids", 0) for one in cids]
        operations = []
        rows = listed(member(body, "ops", where), f"{where}.ops")
        first = lines.here()
        for step, one in enumerate(rows):
            at = f"{where}.ops[{step}]"
            op = mapping(one, at)
            name, line = text_of(op, "name", at), lines.take()
            steps = self._steps(op, name, number, own, at)
            if (number, step) in awaited:
                steps += [Sync("nop"), Sync("done", (("step", self.rank, number, step),))]
            operations.append(Operation(name, step, line, tuple(steps)))
        return Block(self.rank, number, first, tuple(operations), sum(map(len, own.values())))

    def _remote(
        self,
        op: dict[str, Any],
        side: str,
        own: dict[tuple[str, str, str], list[int]],
        where: str,
        packets: bool = False,
    ) -> list[tuple[Key, Ref]]:
        pair = mapping(member(op, f"{side}_buff", where), f"{where}.{side}_buff")
        kind = text_of(op, "ctype", where)
        if kind not in TYPES:
            raise InvalidInput(f"{where}.ctype: {kind[:40]!r} is not followed here")
        key = text_of(pair, "src", where), text_of(pair, "dst", where), kind
        count = whole(op.get("cnt", 0), f"{where}.cnt", 0, MAX_CHUNKS)
        found: list[tuple[Key, Ref]] = []
        for one in listed(member(op, f"{side}_cids", where), f"{where}.{side}_cids"):
            entry = mapping(one, f"{where}.{side}_cids")
            local = whole(member(entry, "id", where), f"{where}.{side}_cids.id", 0)
            offset = whole(member(entry, "off", where), f"{where}.{side}_cids.off", 0)
            cids = own.get(key, [])
            if local >= len(cids) or cids[local] >= len(self.channels.get(key, [])):
                raise InvalidInput(f"{where}: no channel {local} from {key[0]} to {key[1]} of type {kind}")
            peer, nth = self.channels[key][cids[local]]
            channel: Key = (TYPES[kind], self.rank, peer, nth) if side == "o" else (TYPES[kind], peer, self.rank, nth)
            found.append((channel, Ref(peer, key[1], offset, count, packets)))
        return found

    def _steps(
        self, op: dict[str, Any], name: str, block: int, own: dict[tuple[str, str, str], list[int]], where: str
    ) -> list[Move | Sync | Loop]:
        count = whole(op.get("cnt", 0), f"{where}.cnt", 0, MAX_CHUNKS)
        if name == "nop":
            steps: list[Move | Sync | Loop] = []
            for dep in op.get("deps", []):
                if dep["tb"] != block:
                    steps.append(Sync("after", (("step", self.rank, dep["tb"], dep["step"]),)))
            return [*steps, Sync("nop")]
        if name == "barrier":
            key = "barrier", self.rank, whole(member(op, "barrier_id", where), f"{where}.barrier_id", 0, 4096)
            many = whole(member(op, "nthread_blocks", where), f"{where}.nthread_blocks", 1, 4096)
            return [Sync("barrier", (key,), many)]
        if name in ("signal", "wait", "flush"):
            side = "i" if name == "wait" else "o"
            return [Sync(name, tuple(channel for channel, _ in self._remote(op, side, own, where)))]

        def local(side: str, packets: bool = False) -> Ref:
            offset = whole(member(op, f"{side}off", where), f"{where}.{side}off", 0)
            return Ref(self.rank, text_of(op, f"{side}buff", where), offset, count, packets)

        def others(packets: bool = False) -> list[Ref]:
            rows = [mapping(one, f"{where}.srcs") for one in listed(op.get("srcs", []), f"{where}.srcs")]
            return [
                Ref(
                    self.rank,
                    text_of(one, "buff", where),
                    whole(member(one, "off", where), f"{where}.srcs.off", 0),
                    count,
                    packets,
                )
                for one in rows
            ]

        if name in ("put", "pws", "pwsf", "ppkt"):
            inside = others() or [local("src")]
            steps = []
            for k, (channel, target) in enumerate(self._remote(op, "o", own, where, name == "ppkt")):
                port = channel if channel[0] == "port" else None
                steps.append(Move((inside[min(k, len(inside) - 1)],), (target,), port=port))
                if name in ("pws", "pwsf"):
                    steps.append(Sync("signal", (channel,)))
                if name == "pwsf":
                    steps.append(Sync("flush", (channel,)))
            return steps
        if name == "get":
            return [Move((source,), (local("dst"),)) for _, source in self._remote(op, "i", own, where)]
        if name in ("copy", "cpkt", "tpkt"):
            return [Move((local("src", name == "cpkt"),), (local("dst", name == "tpkt"),))]
        if name in ("rrc", "rrcs", "reduce", "re", "rs", "rpkt", "rspkt"):
            packets = name in ("rpkt", "rspkt")
            read = [ref for _, ref in self._remote(op, "i", own, where)] if name in ("rrc", "rrcs") else []
            sends = name in ("rrcs", "rs", "rspkt")
            written = [ref for _, ref in self._remote(op, "o", own, where, packets)] if sends else []
            return [Move((local("src"), *read, *others(packets)), (local("dst"), *written))]
        raise InvalidInput(f"{where}: the operation {name[:40]!r} of version 1 is not followed here")
