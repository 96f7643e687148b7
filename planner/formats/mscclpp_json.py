"""MSCCL++ execution plans: JSON of version 2 (channel based) and version 1, as one list of operations a thread block.

Source: mscclpp, src/core/executor/execution_plan.cc and the language that writes plans; version 1: msccl-tools' ir.py. What the executor
would not find in a file is an error here, with the place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.checked import listed, mapping, member, whole

MAX_RANKS = 4_096
MAX_OPS = 2_000_000
MAX_CHUNKS = 16_000_000
SIGNALS = ("signal", "rlxsignal")
WAITS = ("wait", "rlxwait")


@dataclass(frozen=True)
class Ref:
    """Chunks [index, index + size) of a buffer (i, o, s) of a rank; ``packets``: of its packets in scratch."""

    rank: int
    buffer: str
    index: int
    size: int
    packets: bool = False


Key = tuple[str, int, int, int]
"""A channel: (memory or port, rank that signals, rank that waits, which of them)."""


@dataclass(frozen=True)
class Move:
    """Reads all sources, adds them up, writes the sum to all targets; of a group of blocks, each does its slice.

    ``port``: a request to the proxy of that channel.
    """

    sources: tuple[Ref, ...]
    targets: tuple[Ref, ...]
    slice: tuple[int, int] = (0, 1)
    port: Key | None = None


@dataclass(frozen=True)
class Sync:
    """Synchronises: signal, wait, flush, semaphores, nop (of the block), barrier (``count`` blocks), after (another block's step)."""

    kind: str
    keys: tuple[Any, ...] = ()
    count: int = 0


@dataclass(frozen=True)
class Loop:
    """A pipeline: its body runs for one unit of the chunks after the other; ``unit`` is in bytes."""

    chunks: int
    unit: int
    body: tuple[Operation, ...]


@dataclass(frozen=True)
class Operation:
    """An operation of the file: its name, number in its block, line, what it does, step by step, and how many buffers it names a side."""

    name: str
    number: int
    line: int
    steps: tuple[Move | Sync | Loop, ...]
    buffers: int = 0


@dataclass(frozen=True)
class Block:
    """A thread block."""

    rank: int
    id: int
    line: int
    operations: tuple[Operation, ...]
    channels: int = 0


@dataclass
class Plan:
    """A plan.

    Parameters
    ----------
    declared
        Chunks that a rank's buffers are said to have, by (rank, buffer).
    semaphores
        First values, by ("semaphore", rank, number).
    channels
        All that ranks have: keys by which they signal.
    reuse, double
        Whether pipelines use scratch again, and whether calls take its halves in turn.
    quirks
        What the runtime is known to do to some operation, with the line.
    """

    version: int
    name: str
    collective: str
    protocol: str
    in_place: bool
    low: int
    high: int | None
    ranks: int
    declared: dict[tuple[int, str], int]
    blocks: list[Block] = field(default_factory=list)
    semaphores: dict[tuple[Any, ...], int] = field(default_factory=dict)
    channels: set[Key] = field(default_factory=set)
    reuse: bool = False
    double: bool = False
    quirks: list[tuple[str, str, int]] = field(default_factory=list)


class Lines:
    """Lines of operations: each has exactly one "name", and nothing else but the plan has one."""

    def __init__(self, text: str) -> None:
        self.lines: list[int] = []
        line, last = 1, 0
        for match in re.finditer(r'"name"\s*:', text):
            line += text.count("\n", last, match.start())
            last = match.start()
            self.lines.append(line)
        self.next = 1

    def here(self) -> int:
        """Return the line of the operation that comes next."""
        return self.lines[self.next] if self.next < len(self.lines) else 1

    def take(self) -> int:
        """Return the line of the next operation."""
        found = self.here()
        self.next += 1
        return found


def read_plan(data: bytes) -> Plan:
    """Read a plan of either version.

    Raises
    ------
    InvalidInput
        When it is none, or the executor would not load it; one line with the place.
    """
    from fabric_plan.planner.formats import mscclpp_v1, mscclpp_v2

    try:
        text = data.decode("utf-8-sig")
        document = mapping(json.loads(text), "the plan")
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InvalidInput(str(error) if isinstance(error, InvalidInput) else f"not JSON: {error}") from None
    gpus = [mapping(one, f"gpus[{k}]") for k, one in enumerate(listed(member(document, "gpus", "the plan"), "gpus"))]
    if not 1 <= len(gpus) <= MAX_RANKS:
        raise InvalidInput(f"gpus: expected 1 to {MAX_RANKS:,}, found {len(gpus):,}")
    if [one.get("id") for one in gpus] != list(range(len(gpus))):
        raise InvalidInput("gpus: expected the ids 0, 1, 2, and so on, in order")
    try:
        if "inputChunks" in gpus[0] or "chunkGroups" in gpus[0]:
            return mscclpp_v1.read(document, gpus, Lines(text))
        return mscclpp_v2.read(document, gpus, Lines(text))
    except RecursionError:
        raise InvalidInput("pipelines lie too deep in one another") from None


def text_of(body: dict[str, Any], key: str, where: str) -> str:
    """Return a member that must be text.

    Raises
    ------
    InvalidInput
        When it is something else.
    """
    value = member(body, key, where)
    if not isinstance(value, str):
        raise InvalidInput(f"{where}.{key}: expected text, found {str(value)[:40]}")
    return value


def window(document: dict[str, Any]) -> tuple[int, int | None]:
    """Return the sizes between which a plan is used."""
    low = whole(document.get("min_message_size", 0), "min_message_size", 0, 1 << 64)
    high = whole(document.get("max_message_size", (1 << 64) - 1), "max_message_size", 0, 1 << 64)
    return low, None if high >= 1 << 62 or high == 0 else high


def slice_of(op: dict[str, Any], where: str) -> tuple[int, int]:
    """Return (which, of how many) thread blocks of a group."""
    group = op.get("tbg_info")
    if group is None:
        return 0, 1
    body = mapping(group, f"{where}.tbg_info")
    size = whole(member(body, "tbg_size", where), f"{where}.tbg_info.tbg_size", 1, 64)
    return whole(member(body, "tb_id", where), f"{where}.tbg_info.tb_id", 0, size - 1), size
