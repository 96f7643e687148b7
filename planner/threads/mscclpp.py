"""MSCCL++ plans lowered to programs of threads.

Between two block barriers (``nop`` is one) the CUDA threads of a block run on their own, so nothing orders its data operations among
one another or against its signals and waits. A block is therefore a control lane, which runs all that synchronises, and a lane for each
data operation, which begins after the last barrier and which the next one waits for. Puts over ports, and signals there, run in the lane of
the channel's proxy. What a block writes is seen elsewhere at once, or, if it only signals relaxed, at its next signal that is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import lcm

from fabric_plan.planner.formats.mscclpp_json import SIGNALS, WAITS, Block, Loop, Move, Operation, Plan, Ref, Sync
from fabric_plan.planner.threads.collectives import NAMES, Collective
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.program import NONE, Buffer, Program, Thread

UNITS = 2
"""Units into which a pipeline cuts a chunk here: enough to see one overtake another."""

Key = tuple[object, ...]


@dataclass(eq=False, slots=True)
class Op:
    """An operation of a lane, before it has a number."""

    lane: Lane
    of: Operation
    source: int = NONE
    target: int = NONE
    adds: bool = False
    count: int = 1
    waits: list[Op] = field(default_factory=list)
    remote: tuple[int, int] | None = None
    index: int = -1


@dataclass(eq=False, slots=True)
class Lane:
    """Operations that run in order."""

    block: Block
    ops: list[Op] = field(default_factory=list)


def collective_of(plan: Plan, grains: int, root: int | None) -> Collective:
    """Return the collective of a plan, its chunks cut into grains."""
    given = plan.collective.lower().replace("-", "")
    name = NAMES.get(given, NAMES.get(given.replace("_", ""), "custom"))
    most = max(max(plan.declared[rank, "i"], plan.declared[rank, "o"]) for rank in range(plan.ranks))
    if name == "allgather":
        most = max(most, plan.ranks * max(plan.declared[rank, "i"] for rank in range(plan.ranks)))
    if name == "reducescatter":
        most = max(most, plan.ranks * max(plan.declared[rank, "o"] for rank in range(plan.ranks)))
    return Collective(name, plan.ranks, max(1, most) * grains, root or 0)


class Lowering:
    """Makes the program of a plan; findings of what is wrong are added.

    A group of thread blocks cuts each operation's whole range, as the executor does; ``by_chunk``: each of its chunks.
    """

    def __init__(self, plan: Plan, findings: Findings, root: int | None, *, by_chunk: bool = False) -> None:
        self.plan, self.findings, self.by_chunk = plan, findings, by_chunk
        moves = [step for block in plan.blocks for op in block.operations for step in _flat(op)]
        self.loops = any(
            isinstance(step, Loop) for block in plan.blocks for op in block.operations for step in op.steps
        )
        self.grains = lcm(*(step.slice[1] for step in moves if isinstance(step, Move)), UNITS if self.loops else 1)
        self.collective = collective_of(plan, self.grains, root)
        self.names = tuple(dict.fromkeys(op.name for block in plan.blocks for op in _all(block.operations)))
        self.program = Program(ranks=plan.ranks, names=self.names or ("none",))
        self.buffers: dict[tuple[int, int], Buffer] = {}
        self.packets: dict[int, Buffer] = {}
        self.lanes: list[Lane] = []
        self.beside: set[Lane] = set()
        """Lanes of proxies and of writes on their way, which a block's end does not wait for."""
        self.loose: set[int] = set()
        """Their numbers in the program."""
        self.signals: dict[Key, list[Op]] = defaultdict(list)
        self.waits: dict[Key, list[Op]] = defaultdict(list)
        self.arrivals: dict[Key, dict[Block, list[tuple[Op, Op]]]] = defaultdict(lambda: defaultdict(list))
        self.sizes: dict[Key, set[int]] = defaultdict(set)
        self.done: dict[Key, Op] = {}
        self.after: list[tuple[Key, Op]] = []
        self._layout()

    def _layout(self) -> None:
        plan, program, collective = self.plan, self.program, self.collective
        for rank in range(plan.ranks):
            sizes = collective.sizes(rank)
            alias = collective.alias(rank) if plan.in_place else None
            if alias is None:
                first, second = program.buffer(rank, "i", sizes[0]), program.buffer(rank, "o", sizes[1])
            elif alias[0] == "i":
                second = program.buffer(rank, "o", sizes[1])
                first = program.buffer(rank, "i", sizes[0], second, alias[1])
            else:
                first = program.buffer(rank, "i", sizes[0])
                second = program.buffer(rank, "o", sizes[1], first, alias[1])
            self.buffers[rank, 0], self.buffers[rank, 1] = first, second
            scratch = plan.declared[rank, "s"] * self.grains
            self.buffers[rank, 2] = program.buffer(rank, "s", scratch)
            self.packets[rank] = program.buffer(rank, "packets of s", scratch)

    def lower(self) -> Program:
        """Return the program."""
        for block in self.plan.blocks:
            _BlockLowering(self, block).lower()
        self._meet()
        for key, op in self.after:
            if key in self.done:
                op.waits.append(self.done[key])
            else:
                self._error(op, "dependency", f"waits for step {key[3]} of thread block {key[2]}, which does not exist")
        self._pair()
        self._packets()
        return self._flatten()

    def told(self, op: Op) -> str:
        """Return an operation as people name it."""
        return f"g{op.lane.block.rank}/t{op.lane.block.id}/s{op.of.number} ({op.of.name})"

    def _error(self, op: Op, code: str, text: str) -> None:
        self.findings.add("error", code, f"{self.told(op)} {text}", line=op.of.line)

    def _meet(self) -> None:
        """Named barriers: each arrival of a block meets the same of all others."""
        for key, blocks in self.arrivals.items():
            first = next(iter(blocks.values()))[0][0]
            counts = {len(one) for one in blocks.values()}
            wanted = self.sizes[key]
            if wanted != {len(blocks)} or len(counts) != 1:
                often = "" if len(counts) == 1 else ", not equally often"
                self._error(
                    first,
                    "barrier",
                    f"barrier {key[2]} is for {' or '.join(map(str, sorted(wanted)))} thread blocks; {len(blocks)} come to it{often}",
                )
                continue
            for rows in zip(*blocks.values(), strict=True):
                for _, leave in rows:
                    leave.waits += [arrive for arrive, _ in rows]

    def _pair(self) -> None:
        """Signals and waits, releases and acquires: what a wait is sure to come after."""
        for key, waits in self.waits.items():
            signals = self.signals.get(key, [])
            first = self.plan.semaphores.get(key, 0) if key[0] == "semaphore" else 0
            name = self._channel(key)
            if len(waits) > len(signals) + first:
                self._error(
                    waits[-1],
                    "signal",
                    f"waits {len(waits)} times on {name}, where {len(signals) + first} signals come",
                )
                continue
            senders, takers = {op.lane for op in signals}, {op.lane for op in waits}
            if len(senders) > 1 or len(takers) > 1:
                text = f"{name} is shared by {len(senders)} lanes that signal and {len(takers)} that wait: which signal a wait takes is left open"
                self.findings.add("warning", "shared", text, line=waits[0].of.line)
            mine: dict[Lane, int] = defaultdict(int)
            for op in waits:
                mine[op.lane] += 1
                need = mine[op.lane] - first
                if need < 1:
                    continue
                if len(senders) == 1:
                    op.waits.append(signals[need - 1])
                elif len(takers) == 1 and need == len(signals):
                    op.waits += signals
        for key, signals in self.signals.items():
            first = self.plan.semaphores.get(key, 0) if key[0] == "semaphore" else 0
            if len(signals) + first > len(self.waits.get(key, [])) + first:
                text = f"{self.told(signals[-1])}: nobody waits for the last of {len(signals)} signals on {self._channel(key)}"
                self.findings.add("warning", "unwaited", text, line=signals[-1].of.line)

    def _channel(self, key: Key) -> str:
        if key[0] == "semaphore":
            return f"semaphore {key[2]} of rank {key[1]}"
        return f"{key[0]} channel {key[3]} from {key[1]} to {key[2]}"

    def _packets(self) -> None:
        """A packet is read when it has been written, so the read waits."""
        low = {one.first for one in self.packets.values()}
        places = [(one.first, one.first + one.size) for one in self.packets.values() if one.size]

        def inside(location: int) -> bool:
            return location >= 0 and any(a <= location < b for a, b in places)

        if not low or not places:
            return
        writers: dict[int, list[Op]] = defaultdict(list)
        ops = [op for lane in self.lanes for op in lane.ops]
        for op in ops:
            if inside(op.target):
                for location in range(op.target, op.target + op.count):
                    writers[location].append(op)
        for op in ops:
            if not inside(op.source):
                continue
            for location in range(op.source, op.source + op.count):
                found = writers.get(location, [])
                if not found:
                    self._error(op, "packet", f"reads {self.program.place(location)}, where no packet is ever written")
                    break
                if len(found) == 1 and found[0] not in op.waits:
                    op.waits.append(found[0])

    def _flatten(self) -> Program:
        program = self.program
        lanes = [lane for lane in self.lanes if lane.ops]
        count = 0
        for lane in lanes:
            for op in lane.ops:
                op.index = count
                count += 1
        number_of = {name: k for k, name in enumerate(self.names)}
        for number, lane in enumerate(lanes):
            first = lane.ops[0].index
            block = lane.block
            if lane in self.beside:
                self.loose.add(number)
            program.threads.append(
                Thread(block.rank, block.id, NONE, NONE, 0, block.line, first, first + len(lane.ops))
            )
            for op in lane.ops:
                program.thread.append(number)
                program.number.append(op.of.number)
                program.line.append(op.of.line)
                program.name.append(number_of[op.of.name])
                program.source.append(op.source)
                program.target.append(op.target)
                program.reads_target.append(int(op.adds))
                program.count.append(op.count)
                program.receive.append(NONE)
                program.send.append(NONE)
                program.wait.extend(one.index for one in op.waits)
                program.wait_start.append(len(program.wait))
                if op.remote is not None:
                    program.remote[op.index] = op.remote
        return program


def _all(operations: Iterable[Operation]) -> Iterable[Operation]:
    for op in operations:
        yield op
        for step in op.steps:
            if isinstance(step, Loop):
                yield from _all(step.body)


def _flat(op: Operation) -> Iterable[Move | Sync]:
    for step in op.steps:
        if isinstance(step, Loop):
            for inner in step.body:
                yield from _flat(inner)
        else:
            yield step


class _BlockLowering:
    """One thread block: its control lane, and what it starts beside it."""

    def __init__(self, whole: Lowering, block: Block) -> None:
        self.whole, self.block = whole, block
        self.control = self._lane()
        self.join: Op | None = None
        self.open: list[Op] = []
        self.proxies: dict[Key, Lane] = {}
        self.pending: list[tuple[Op, int, int]] = []
        """Writes that only a signal that is not relaxed makes seen: (the write, first location, end)."""
        self.relaxes = any(
            isinstance(step, Sync) and step.kind == "rlxsignal" for op in block.operations for step in _flat(op)
        )

    def _lane(self) -> Lane:
        lane = Lane(self.block)
        self.whole.lanes.append(lane)
        return lane

    def lower(self) -> None:
        """Lower all operations; the block ends when all that it started has ended."""
        for op in self.block.operations:
            for step in op.steps:
                self._step(op, step, None)

    def _step(self, op: Operation, step: Move | Sync | Loop, unit: tuple[int, int] | None) -> None:
        if isinstance(step, Loop):
            grains = self.whole.grains
            length = grains // UNITS
            for start in range(0, step.chunks * grains, length):
                for inner in step.body:
                    for one in inner.steps:
                        self._step(inner, one, (start, length))
        elif isinstance(step, Move):
            self._move(op, step, unit)
        else:
            self._sync(op, step)

    def _here(self, op: Operation, waits: Iterable[Op] = ()) -> Op:
        """Append to the control lane."""
        found = Op(self.control, op, waits=list(waits))
        self.control.ops.append(found)
        return found

    def _meet(self, op: Operation) -> Op:
        self.join = self._here(op, self.open)
        self.open = []
        return self.join

    def _sync(self, op: Operation, step: Sync) -> None:
        whole = self.whole
        if step.kind == "nop":
            self._meet(op)
        elif step.kind == "barrier":
            arrive = self._meet(op)
            self._release(arrive)
            leave = self._here(op)
            self.join = leave
            (key,) = step.keys
            whole.arrivals[key][self.block].append((arrive, leave))
            whole.sizes[key].add(step.count)
        elif step.kind in SIGNALS:
            for key in step.keys:
                found = self._here(op)
                if step.kind == "signal" or key[0] == "port":
                    self._release(found)
                if key[0] == "port":
                    found = self._ask(op, key, found)
                whole.signals[key].append(found)
        elif step.kind in (*WAITS, "sem_acquire"):
            for key in step.keys:
                found = self._here(op)
                whole.waits[key].append(found)
                if step.kind != "sem_acquire" and key not in whole.plan.channels:
                    text = f"{whole.told(found)}: rank {key[1]} has no {key[0]} channel {key[3]} to rank {key[2]}: nothing is paired with it"
                    whole.findings.add("error", "unpaired", text, line=op.line)
        elif step.kind == "sem_release":
            for key in step.keys:
                found = self._here(op)
                self._release(found)
                whole.signals[key].append(found)
        elif step.kind == "flush":
            for key in step.keys:
                lane = self.proxies.get(key)
                self._here(op, lane.ops[-1:] if lane is not None else ())
        elif step.kind == "done":
            whole.done[step.keys[0]] = self._here(op)
        else:
            whole.after.append((step.keys[0], self._here(op)))

    def _release(self, op: Op) -> None:
        """Make all writes so far seen before an operation."""
        op.waits += [write for write, _, _ in self.pending]
        self.pending = []

    def _ask(self, op: Operation, key: Key, request: Op) -> Op:
        """Give a request to a port's proxy, which takes them in order."""
        lane = self.proxies.get(key)
        if lane is None:
            lane = self.proxies[key] = self._lane()
            self.whole.beside.add(lane)
        found = Op(lane, op, waits=[request])
        lane.ops.append(found)
        return found

    def _move(self, op: Operation, move: Move, unit: tuple[int, int] | None) -> None:
        refs = (*move.sources, *move.targets)
        many = {ref.size for ref in refs}
        if self.whole.by_chunk and move.slice[1] > 1 and len(many) == 1 and max(many) > 1:
            for k in range(max(many)):
                one = [replace(ref, index=ref.index + k, size=1) for ref in refs]
                split = len(move.sources)
                self._move(op, replace(move, sources=tuple(one[:split]), targets=tuple(one[split:])), unit)
            return
        ranges = [self._range(op, ref, move, unit) for ref in refs]
        if any(one is None for one in ranges):
            return
        found = [one for one in ranges if one is not None]
        count = min((size for _, _, size in found), default=0)
        if count <= 0:
            return
        if move.port is not None:
            request = self._here(op)
            self._release(request)
            entry = self._ask(op, move.port, request)
            lane = entry.lane
        else:
            lane = self._lane()
            entry = Op(lane, op, waits=[self.join] if self.join is not None else [])
            lane.ops.append(entry)
        split = len(move.sources)
        last = self._lower_move(op, lane, found[:split], found[split:], count)
        if move.port is None:
            self.open.append(last)

    def _lower_move(
        self,
        op: Operation,
        lane: Lane,
        sources: list[tuple[int, int, int]],
        targets: list[tuple[int, int, int]],
        count: int,
    ) -> Op:
        """Read, add up and write; several operands go through a place of their own."""
        rank, program = self.block.rank, self.whole.program
        port = lane in self.proxies.values()

        def add(source: tuple[int, int], target: tuple[int, int], *, adds: bool = False) -> Op:
            remote = None if source[0] == target[0] else (source[0], target[0])
            found = Op(lane, op, source[1], target[1], adds, count, remote=remote)
            if not port:
                for write, first, end in self.pending:
                    if any(a < end and first < a + count for _, a in (source, target)):
                        found.waits.append(write)
            lane.ops.append(found)
            return found

        if len(sources) == 1 and len(targets) == 1 and not (self.relaxes and not port):
            return add(sources[0][:2], targets[0][:2])
        place = rank, program.buffer(rank, "registers", count).first
        last = lane.ops[-1]
        for k, source in enumerate(sources):
            last = add(source[:2], place, adds=k > 0)
        for target in targets:
            if self.relaxes and not port:
                # Seen by others whenever it pleases, and at the latest when the block signals for good.
                beside = self._lane()
                self.whole.beside.add(beside)
                remote = None if target[0] == rank else (rank, target[0])
                write = Op(beside, op, place[1], target[1], False, count, [last], remote)
                for other, first, end in self.pending:
                    if first < target[1] + count and target[1] < end:
                        write.waits.append(other)
                beside.ops.append(write)
                self.pending.append((write, target[1], target[1] + count))
            else:
                last = add(place, target[:2])
        return last

    def _range(self, op: Operation, ref: Ref, move: Move, unit: tuple[int, int] | None) -> tuple[int, int, int] | None:
        """Return (rank, first location, how many) of an operand; None, with a finding, where it does not lie in its buffer."""
        whole = self.whole
        grains, plan = whole.grains, whole.plan
        where = f"g{self.block.rank}/t{self.block.id}/s{op.number} ({op.name})"
        kind = "ios".find(ref.buffer) if len(ref.buffer) == 1 else -1
        if kind < 0:
            whole.findings.add(
                "error", "buffer", f"{where}: buffer {ref.buffer[:20]!r}: expected i, o or s", line=op.line
            )
            return None
        one = whole.packets[ref.rank] if ref.packets else whole.buffers[ref.rank, kind]
        if ref.packets and kind != 2:
            one = whole.packets[ref.rank]
        limit = one.size
        if kind < 2 and not ref.packets:
            shared = plan.in_place and whole.collective.name not in ("allgather", "reducescatter", "custom")
            sizes = plan.declared[ref.rank, "i"], plan.declared[ref.rank, "o"]
            limit = min(limit, (max(sizes) if shared or plan.version == 1 else sizes[kind]) * grains)
        first, end = ref.index * grains, (ref.index + ref.size) * grains
        if end > limit:
            text = f"{where} uses {ref.buffer}[{ref.index}:{ref.index + ref.size}] of rank {ref.rank}, the buffer has {limit // grains} chunks"
            whole.findings.add("error", "bounds", text, line=op.line)
            return None
        if unit is not None:
            first += unit[0]
            end = min(end, first + unit[1])
        k, parts = move.slice
        if parts > 1 and end > first:
            length = end - first
            first, end = first + length * k // parts, first + length * (k + 1) // parts
        return ref.rank, one.first + first, end - first
