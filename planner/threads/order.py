"""The order of a program: messages matched, deadlocks named, and what each connection's room does to it.

A thread runs straight through blocking connections and flags that only rise, so with unbounded connections the program is a Kahn
network: whether it stops, and what it computes if there is no race, is the same for every interleaving. One topological order decides.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.simulator.compiled import FROM_HOPS, compiled
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.program import Program


@dataclass
class Messages:
    """Which operation sends what another receives.

    Parameters
    ----------
    sender
        Of each operation that receives: the operation that sends to it; -1 where none does.
    receiver
        The other way round.
    index
        The message's number on its connection, by the operation that receives, and by the one that sends.
    """

    sender: array[int]
    receiver: array[int]
    sends: list[list[int]]
    receives: list[list[int]]


def matched(program: Program, findings: Findings) -> Messages:
    """Match sends and receives, the k-th to the k-th of each connection; findings of what does not match are added."""
    count = len(program)
    sender, receiver = array("i", [-1]) * count, array("i", [-1]) * count
    sends: list[list[int]] = [[] for _ in program.connections]
    receives: list[list[int]] = [[] for _ in program.connections]
    for op, connection in enumerate(program.send):
        if connection >= 0:
            sends[connection].append(op)
    for op, connection in enumerate(program.receive):
        if connection >= 0:
            receives[connection].append(op)
    chunks = program.count
    for connection, (source, target, channel) in enumerate(program.connections):
        out, back = sends[connection], receives[connection]
        name = f"connection {source}->{target} channel {channel}"
        if len(out) != len(back):
            first = (out if len(out) > len(back) else back)[min(len(out), len(back))]
            findings.add(
                "error",
                "messages",
                f"{name}: {len(out)} sends, {len(back)} receives; first unmatched: {program.where(first)}",
                line=program.line[first],
            )
        for number, (a, b) in enumerate(zip(out, back, strict=False)):
            sender[b], receiver[a] = a, b
            if chunks[a] != chunks[b]:
                findings.add(
                    "error",
                    "message-size",
                    f"message {number} on {name}: sent {chunks[a]} chunks by {program.where(a)}, received {chunks[b]} by {program.where(b)}",
                    line=program.line[b],
                )
    return Messages(sender, receiver, sends, receives)


def topological(program: Program, messages: Messages) -> array[int]:
    """Return the operations in an order that respects threads, waits and messages; short where some can never run."""
    edges = _Edges(program, messages, np.ones(len(program), dtype=np.int64))
    # A message without a sender never comes.
    orphans = np.flatnonzero((edges.receive >= 0) & (edges.sender < 0))
    order = edges.order(None, orphans)
    found = array("i")
    found.frombytes(order.astype(np.int32).tobytes())
    return found


class _Edges:
    """The program as a graph of parts of operations: a step of many chunks goes in several messages."""

    def __init__(self, program: Program, messages: Messages, parts: NDArray[np.int64]) -> None:
        self.parts = parts
        self.receive = np.frombuffer(program.receive, dtype=np.int32) if len(program) else np.zeros(0, np.int32)
        self.sender = np.frombuffer(messages.sender, dtype=np.int32) if len(program) else np.zeros(0, np.int32)
        self.first = np.zeros(len(program) + 1, dtype=np.int64)
        np.cumsum(parts, out=self.first[1:])
        self.nodes = int(self.first[-1])
        thread = np.frombuffer(program.thread, dtype=np.int32) if len(program) else np.zeros(0, np.int32)
        # Along each thread, part after part.
        chained = np.ones(self.nodes, dtype=bool)
        if len(program):
            begins = np.flatnonzero(np.diff(thread, prepend=-1) != 0)
            chained[self.first[begins]] = False
        after = np.flatnonzero(chained)
        self.pairs = [(after - 1, after)]
        if len(program.wait):
            wait = np.frombuffer(program.wait, dtype=np.int32)
            starts = np.frombuffer(program.wait_start, dtype=np.int32)
            waiting = np.repeat(np.arange(len(program)), np.diff(starts))
            self.pairs.append((self.first[wait + 1] - 1, self.first[waiting]))
        # Messages by connection: where each part is sent and where it is taken.
        pairs = [
            (a, b)
            for out, back in zip(messages.sends, messages.receives, strict=True)
            for a, b in zip(out, back, strict=False)
        ]
        table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        counts = [min(len(out), len(back)) for out, back in zip(messages.sends, messages.receives, strict=True)]
        connection = np.repeat(np.arange(len(counts)), counts)
        many = parts[table[:, 0]]
        self.connection = np.repeat(connection, many)
        self.sent = self._spread(table[:, 0], many)
        self.taken = self._spread(table[:, 1], many)
        self.pairs.append((self.sent, self.taken))

    def _spread(self, ops: NDArray[np.int64], many: NDArray[np.int64]) -> NDArray[np.int64]:
        starts = np.cumsum(many) - many
        inside = np.arange(int(many.sum())) - np.repeat(starts, many)
        return np.repeat(self.first[ops], many) + inside

    def order(self, depth: int | None, orphans: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """Return the parts in an order, with connections that hold ``depth`` messages; short where some can never run."""
        pairs = list(self.pairs)
        if depth is not None and len(self.sent) > depth:
            same = self.connection[:-depth] == self.connection[depth:]
            pairs.append((self.taken[:-depth][same], self.sent[depth:][same]))
        before = np.concatenate([one for one, _ in pairs])
        after = np.concatenate([one for _, one in pairs])
        missing = np.bincount(after, minlength=self.nodes).astype(np.int32)
        if orphans is not None and len(orphans):
            missing[self.first[orphans]] += 1
        place = np.argsort(before, kind="stable")
        follow = after[place]
        start = np.zeros(self.nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(before, minlength=self.nodes), out=start[1:])
        ready = np.flatnonzero(missing == 0)[::-1].copy()
        if self.nodes >= FROM_HOPS:
            stack = np.zeros(self.nodes + 1, dtype=np.int64)
            stack[: len(ready)] = ready
            order = np.zeros(self.nodes, dtype=np.int64)
            done = compiled(kahn)(start, follow, missing, stack, len(ready), order)
            found: NDArray[np.int64] = order[:done]
            return found
        listed = ready.tolist() + [0] * (self.nodes + 1 - len(ready))
        steps = [0] * self.nodes
        done = kahn(start.tolist(), follow.tolist(), missing.tolist(), listed, len(ready), steps)
        return np.array(steps[:done], dtype=np.int64)


def kahn(start: Any, follow: Any, missing: Any, stack: Any, top: int, order: Any) -> int:
    """Fill ``order`` with nodes all of whose predecessors stand before them; return how many there are."""
    done = 0
    while top > 0:
        top -= 1
        node = stack[top]
        order[done] = node
        done += 1
        for place in range(start[node], start[node + 1]):
            other = follow[place]
            missing[other] -= 1
            if missing[other] == 0:
                stack[top] = other
                top += 1
    return done


def cycle(program: Program, messages: Messages, order: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return (operations that wait for one another in a ring or for ever, what each waits for), where an order is short."""
    done = bytearray(len(program))
    for op in order:
        done[op] = 1
    op = next(k for k in range(len(program)) if not done[k])
    seen: dict[int, int] = {}
    path: list[tuple[int, str]] = []
    while op not in seen:
        seen[op] = len(path)
        found = _blocker(program, messages, done, op)
        if found is None:
            path.append((op, f"{program.where(op)} waits for a message that nobody sends"))
            return [one for one, _ in path], [text for _, text in path]
        target, why = found
        path.append((op, f"{program.where(op)} {why} {program.where(target)}"))
        op = target
    ring = path[seen[op] :]
    return [one for one, _ in ring], [text for _, text in ring]


def _blocker(program: Program, messages: Messages, done: bytearray, op: int) -> tuple[int, str] | None:
    """Return an operation that one waits for and that is not over, and how it waits; None: for a message without a sender."""
    for other in program.waits(op):
        if not done[other]:
            return other, "waits for the flag of"
    if program.receive[op] >= 0:
        sender = messages.sender[op]
        if sender < 0:
            if not (op and program.thread[op - 1] == program.thread[op] and not done[op - 1]):
                return None
        elif not done[sender]:
            return sender, "waits for the message of"
    return op - 1, "comes after"


def stuck_with_room(
    program: Program, messages: Messages, depth: int, parts: NDArray[np.int64]
) -> tuple[int, ...] | None:
    """Return the first operation of each thread that never ends when connections hold ``depth`` messages; None: all end.

    ``parts`` says in how many messages each step's chunks go; one that receives and sends takes a message only when it can pass it on.
    """
    edges = _Edges(program, messages, parts)
    order = edges.order(depth)
    if len(order) == edges.nodes:
        return None
    done = np.zeros(edges.nodes, dtype=bool)
    done[order] = True
    heads: dict[int, int] = {}
    for node in np.flatnonzero(~done).tolist():
        op = int(np.searchsorted(edges.first, node, side="right")) - 1
        heads.setdefault(program.thread[op], op)
    return tuple(heads.values())


def parts_of(program: Program, most: int) -> NDArray[np.int64]:
    """Return in how many messages each operation's chunks go, with ``most`` chunks in each at most."""
    count = np.array(program.count, dtype=np.int64)
    talks = (np.array(program.send, dtype=np.int64) >= 0) | (np.array(program.receive, dtype=np.int64) >= 0)
    return np.where(talks, -(-count // most), 1)
