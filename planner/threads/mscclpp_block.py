"""One thread block of an MSCCL++ plan, lowered: its control lane, its data lanes, and what runs beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from fabric_plan.planner.formats.mscclpp_json import SIGNALS, WAITS, Block, Loop, Move, Operation, Plan, Ref, Sync
from fabric_plan.planner.threads.mscclpp import SCRATCH_BYTES, Key, Lane, Lowering, Op, flat

MOST_PARTS = 4096
"""Chunks of one range that are followed one by one."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of a pipeline: where it begins in a chunk, where in one of scratch, and its length, in grains."""

    start: int
    scratch: int
    length: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A write to [first, end) that a signal makes seen, if it is not relaxed; the block itself sees it as ``place``, once past a barrier."""

    write: Op
    first: int
    end: int
    place: int
    segment: int


class BlockLowering:
    """One thread block: its control lane, and what it starts beside it."""

    def __init__(self, whole: Lowering, block: Block) -> None:
        self.whole, self.block = whole, block
        self.control = self._lane(control=True)
        self.join: Op | None = None
        self.open: list[Op] = []
        self.last: list[Op] = []
        """What the block did last, in the order of the file."""
        self.segment = 0
        self.proxies: dict[Key, Lane] = {}
        self.slots: list[Lane] = []
        self.stores: list[Lane] = []
        self.slot = self.store = 0
        self.pending: list[Pending] = []
        self.seen: list[Pending] = []
        """Writes that a signal of this segment makes seen: what it does beside the signal cannot count on that yet."""
        self.relaxes = any(
            isinstance(step, Sync) and step.kind == "rlxsignal" for op in block.operations for step in flat(op)
        )

    def _lane(self, *, control: bool = False, beside: bool = False) -> Lane:
        lane = Lane(self.block, control)
        self.whole.lanes.append(lane)
        if beside:
            self.whole.beside.add(lane)
        return lane

    def _data_lane(self) -> Lane:
        """Return a lane that no other data operation of this segment has; across barriers lanes are used again."""
        self.slot += 1
        if self.slot > len(self.slots):
            self.slots.append(self._lane())
        return self.slots[self.slot - 1]

    def _store_lane(self) -> Lane:
        """Return a lane for a write on its way, of which the same holds."""
        self.store += 1
        if self.store > len(self.stores):
            self.stores.append(self._lane(beside=True))
        return self.stores[self.store - 1]

    def lower(self) -> None:
        """Lower all operations; the block ends when all that it started has ended."""
        for op in self.block.operations:
            for step in op.steps:
                self._step(op, step, None)

    def _step(self, op: Operation, step: Move | Sync | Loop, unit: Unit | None) -> None:
        if isinstance(step, Loop):
            grains, slots = self.whole.grains, slots_of(self.whole.plan, self.block.rank, step)
            length = grains // self.whole.units(step)
            for k in range(step.chunks * self.whole.units(step)):
                place = Unit(k * length, (k % slots if slots else k) * length, length)
                for inner in step.body:
                    for one in inner.steps:
                        self._step(inner, one, place)
        elif isinstance(step, Move):
            self._move(op, step, unit)
        else:
            self._sync(op, step)

    def _here(self, op: Operation, waits: Iterable[Op] = ()) -> Op:
        """Append to the control lane."""
        found = Op(self.control, op, waits=list(waits), after=self.last)
        self.control.ops.append(found)
        self.last = [found]
        return found

    def _meet(self, op: Operation) -> Op:
        self.join = self._here(op, self.open)
        self.open, self.seen = [], []
        self.segment += 1
        self.slot = self.store = 0
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
        """Make all writes before the last barrier seen before an operation; those after it may not have been done yet."""
        done = [one for one in self.pending if one.segment < self.segment]
        op.waits += [one.write for one in done]
        self.pending = [one for one in self.pending if one.segment >= self.segment]
        self.seen += done

    def _ask(self, op: Operation, key: Key, request: Op) -> Op:
        """Give a request to a port's proxy, which takes them in order."""
        lane = self.proxies.get(key)
        if lane is None:
            lane = self.proxies[key] = self._lane(beside=True)
        found = Op(lane, op, waits=[request])
        lane.ops.append(found)
        return found

    def _move(self, op: Operation, move: Move, unit: Unit | None) -> None:
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
        if len({size for _, _, size in found}) > 1:
            text = f"{self._told(op)}: its ranges differ in size: {count} of the largest, {max(one[2] for one in found)}, are taken"
            self.whole.findings.add("warning", "sizes", text, line=op.line)
        if count <= 0:
            return
        split = len(move.sources)
        sources = [(rank, first) for rank, first, _ in found[:split]]
        targets = [(rank, first) for rank, first, _ in found[split:]]
        request = None
        if move.port is not None:
            request = self._here(op)
            self._release(request)
        for k, part in self._parts(move, sources, targets, count):
            if request is not None and move.port is not None:
                entry = self._ask(op, move.port, request)
            else:
                lane = self._data_lane()
                entry = Op(lane, op, waits=[self.join] if self.join is not None else [], after=self.last)
                lane.ops.append(entry)
            last = entry
            for start in part:
                rows = (
                    [(rank, first + start) for rank, first in sources],
                    [(rank, first + start) for rank, first in targets],
                )
                last = self._lower_move(op, entry.lane, *rows, k, beside=request is not None)
            if request is None:
                self.open.append(last)

    def _parts(
        self, move: Move, sources: list[tuple[int, int]], targets: list[tuple[int, int]], count: int
    ) -> list[tuple[int, list[int]]]:
        """Return (chunks at a time, where they begin) for each lane that a move takes.

        Packets are waited for one by one, so what needs only the first of a range does not wait for the last. A range that is moved over itself
        depends on which of its chunks goes first: each has a lane of its own.
        """
        over = any(a != b and abs(a - b) < count for _, a in sources for _, b in targets)
        if count > MOST_PARTS or count == 1:
            return [(count, [0])]
        if over and move.port is None:
            return [(1, [k]) for k in range(count)]
        if over or any(ref.packets for ref in move.sources):
            return [(1, list(range(count)))]
        return [(count, [0])]

    def _own(self, location: int, count: int) -> tuple[int, list[Op]]:
        """Return where to read what the block wrote itself and may still be on its way, and what to wait for where only part of it is."""
        for one in reversed([*self.seen, *self.pending]):
            if one.segment < self.segment and one.first < location + count and location < one.end:
                if one.first <= location and location + count <= one.end:
                    return one.place + location - one.first, []
                # A part of it: waiting for its arrival is more than the block does, but gives the value that it sees.
                return location, [other.write for other in (*self.seen, *self.pending) if other.segment < self.segment]
        return location, []

    def _lower_move(
        self,
        op: Operation,
        lane: Lane,
        sources: list[tuple[int, int]],
        targets: list[tuple[int, int]],
        count: int,
        *,
        beside: bool,
    ) -> Op:
        """Read, add up and write; several operands go through a place of their own."""
        rank, program = self.block.rank, self.whole.program

        def add(source: tuple[int, int], target: tuple[int, int], *, adds: bool = False) -> Op:
            remote = None if source[0] == target[0] else (source[0], target[0])
            found = Op(lane, op, source[1], target[1], adds, count, remote=remote)
            lane.ops.append(found)
            if not beside:
                self.last = [found]
            return found

        relaxed = self.relaxes and not beside
        if len(sources) == 1 and len(targets) == 1 and not relaxed:
            return add(sources[0], targets[0])
        place = rank, program.buffer(rank, "registers", count).first
        last = lane.ops[-1]
        for k, source in enumerate(sources):
            first, waits = self._own(source[1], count) if relaxed else (source[1], [])
            last = add((source[0], first), place, adds=k > 0)
            last.waits += waits
        for target in targets:
            if not relaxed:
                last = add(place, target)
                continue
            # Seen by others whenever it pleases, and at the latest when the block signals for good.
            way = self._store_lane()
            remote = None if target[0] == rank else (rank, target[0])
            write = Op(way, op, place[1], target[1], False, count, [last], remote)
            for other in (*self.seen, *self.pending):
                if other.segment < self.segment and other.first < target[1] + count and target[1] < other.end:
                    write.waits.append(other.write)
            way.ops.append(write)
            self.pending.append(Pending(write, target[1], target[1] + count, place[1], self.segment))
            self.last = [*self.last, write]
        return last

    def _range(self, op: Operation, ref: Ref, move: Move, unit: Unit | None) -> tuple[int, int, int] | None:
        """Return (rank, first location, how many) of an operand; None, with a finding, where it does not lie in its buffer."""
        whole = self.whole
        grains, plan = whole.grains, whole.plan
        where = self._told(op)
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
            first += unit.scratch if ref.buffer == "s" else unit.start
            end = min(end, first + unit.length)
        k, parts = move.slice
        if parts > 1 and end > first:
            length = end - first
            first, end = first + length * k // parts, first + length * (k + 1) // parts
        return ref.rank, one.first + first, end - first

    def _told(self, op: Operation) -> str:
        return f"g{self.block.rank}/t{self.block.id}/s{op.number} ({op.name})"


def slots_of(plan: Plan, rank: int, loop: Loop) -> int:
    """Return for how many units of a pipeline there is room in scratch before it is used again; 0: for all."""
    chunks = plan.declared[rank, "s"]
    if not plan.reuse or not chunks:
        return 0
    return max(1, (SCRATCH_BYTES >> plan.double) // chunks // loop.unit)
