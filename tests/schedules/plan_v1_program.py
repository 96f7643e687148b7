"""MSCCL++ plans of version 1: the usual operations, in the terms of ``plan_program``."""

from __future__ import annotations

from typing import Any

from schedules.interleaving import Unreadable
from schedules.plan_program import COLLECTIVES, Move, PlanProgram, Ref, Sync

TYPES = {"sm": "memory", "proxy": "port"}


def read_v1(plan: Any) -> PlanProgram:
    """Read the plan; anything this does not know makes it unreadable."""
    try:
        return Reader(plan).program()
    except (IndexError, KeyError, TypeError, AttributeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None


class Reader:
    """Reads version 1."""

    def __init__(self, plan: Any) -> None:
        self.plan, self.gpus = plan, plan["gpus"]
        self.channels: dict[tuple[int, str, str, str], list[tuple[int, int]]] = {}
        for gpu in self.gpus:
            seen: dict[tuple[str, int], int] = {}
            for entry in gpu["channels"]:
                key = (gpu["id"], entry["srcbuff"], entry["dstbuff"], entry["type"])
                for peer in entry["connectedTo"]:
                    k = seen.get((entry["type"], peer), 0)
                    seen[entry["type"], peer] = k + 1
                    self.channels.setdefault(key, []).append((peer, k))

    def program(self) -> PlanProgram:
        """The whole plan."""
        collective = self.plan.get("collective", self.plan.get("colletive", "")).replace("_", "")
        if collective not in COLLECTIVES:
            collective = "custom"
        chunks = max(max(gpu["inputChunks"], gpu["outputChunks"]) for gpu in self.gpus)
        blocks: list[tuple[int, int, list[Any]]] = []
        declared: dict[tuple[int, str], int] = {}
        for gpu in self.gpus:
            rank = gpu["id"]
            for name in "io":
                declared[rank, name] = chunks
            awaited = {
                (dep["tb"], dep["step"])
                for block in gpu["threadblocks"]
                for op in block["ops"]
                for dep in op.get("deps", ())
                if dep["tb"] != block["id"]
            }
            for block in gpu["threadblocks"]:
                ops: list[Any] = []
                for step, op in enumerate(block["ops"]):
                    where = f"{rank}/{block['id']}/{step}"
                    ops += self.op(rank, block, op, where)
                    if (block["id"], step) in awaited:
                        key = ("step", rank, block["id"])
                        ops += [Sync(where, "nop"), Sync(where, "progress", (key,), step + 1)]
                blocks.append((rank, block["id"], ops))
        scratch = [gpu["scratchChunks"] for gpu in self.gpus]
        in_place = self.plan.get("inplace", True) is True
        return PlanProgram(collective, len(self.gpus), chunks, scratch, (in_place,), False, blocks, {}, declared)

    def remote(self, rank: int, block: Any, op: Any, side: str, packets: bool = False) -> list[tuple[Any, Ref]]:
        """(channel key, remote range) of the i_ or o_ side."""
        pair, kind = op[f"{side}_buff"], op["ctype"]
        if kind not in TYPES:
            raise Unreadable(f"channel type {kind!r} is not supported")
        own = next(c for c in block["channels"] if (c["src"], c["dst"], c["ctype"]) == (pair["src"], pair["dst"], kind))
        result = []
        for entry in op[f"{side}_cids"]:
            peer, k = self.channels[rank, pair["src"], pair["dst"], kind][own["cids"][entry["id"]]]
            key = (TYPES[kind], rank, peer, k) if side == "o" else (TYPES[kind], peer, rank, k)
            result.append((key, Ref(peer, pair["dst"], entry["off"], op["cnt"], packets)))
        return result

    def op(self, rank: int, block: Any, op: Any, where: str) -> list[Any]:
        """One operation."""
        name, count = op["name"], op.get("cnt", 0)
        if name == "nop":
            waits = [d for d in op.get("deps", ()) if d["tb"] != block["id"]]
            after = [Sync(where, "after", (("step", rank, d["tb"]),), d["step"] + 1) for d in waits]
            return [*after, Sync(where, "nop")]
        if name == "barrier":
            return [Sync(where, "barrier", ((rank, op["barrier_id"]),), op["nthread_blocks"])]
        if name in ("signal", "wait"):
            side = "o" if name == "signal" else "i"
            return [Sync(where, name, tuple(key for key, _ in self.remote(rank, block, op, side)))]
        if name == "flush":
            return [Sync(where, name, tuple(key for key, _ in self.remote(rank, block, op, "o")))]

        def local(side: str, packets: bool = False) -> Ref:
            return Ref(rank, op[f"{side}buff"], op[f"{side}off"], count, packets)

        def sources(packets: bool = False) -> list[Ref]:
            return [Ref(rank, s["buff"], s["off"], count, packets) for s in op.get("srcs", ())]

        if name in ("put", "pws", "pwsf", "ppkt"):
            inside = sources() or [local("src")]
            result: list[Any] = []
            for k, (key, target) in enumerate(self.remote(rank, block, op, "o", name == "ppkt")):
                port = key if key[0] == "port" else None
                result.append(Move(where, (inside[min(k, len(inside) - 1)],), (target,), port=port))
                if name in ("pws", "pwsf"):
                    result.append(Sync(where, "signal", (key,)))
                if name == "pwsf":
                    result.append(Sync(where, "flush", (key,)))
            return result
        if name == "get":
            return [Move(where, (source,), (local("dst"),)) for _, source in self.remote(rank, block, op, "i")]
        if name in ("copy", "cpkt", "tpkt"):
            return [Move(where, (local("src", name == "cpkt"),), (local("dst", name == "tpkt"),))]
        read = [ref for _, ref in self.remote(rank, block, op, "i")] if name in ("rrc", "rrcs") else []
        packets = name in ("rpkt", "rspkt")
        written = (
            [ref for _, ref in self.remote(rank, block, op, "o", packets)] if name in ("rrcs", "rs", "rspkt") else []
        )
        if name in ("rrc", "rrcs", "reduce", "re", "rs", "rpkt", "rspkt"):
            inside = [local("src"), *read, *sources(packets)]
            return [Move(where, tuple(inside), (local("dst"), *written))]
        raise Unreadable(f"{where}: unknown operation {name!r}")
