"""MSCCL++ plans lowered to programs of threads.

Between two block barriers (``nop`` is one) the CUDA threads of a block run on their own, so nothing orders its data operations among
one another or against its signals and waits. A block is therefore a control lane, which runs all that synchronises, and a lane for each
data operation, which begins after the last barrier and which the next one waits for. Puts over ports, and signals there, run in the lane of
the channel's proxy. What a block writes is seen elsewhere at once, or, if it only signals relaxed, at its next signal that is not.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import lcm

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.mscclpp_json import Block, Loop, Move, Operation, Plan, Sync
from fabric_plan.planner.threads.collectives import NAMES, Collective
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.program import NONE, Buffer, Program, Thread

SCRATCH_BYTES = 64 << 20
"""Scratch of a rank where resources are used again: pipelines come round in it."""

MOST_STEPS = 400_000
"""Operations of pipelines, unit by unit, that can be followed."""

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
    after: list[Op] = field(default_factory=list)
    """What stands before it in its block, which it need not wait for, but does where one thread runs both."""
    index: int = -1


@dataclass(eq=False, slots=True)
class Lane:
    """Operations that run in order."""

    block: Block
    control: bool = False
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
    ``chunk_bytes`` decides into how many units pipelines cut a chunk.

    Raises
    ------
    InvalidInput
        When pipelines or buffers are too large to follow.
    """

    def __init__(
        self, plan: Plan, findings: Findings, root: int | None, *, by_chunk: bool = False, chunk_bytes: int = 1
    ) -> None:
        self.plan, self.findings, self.by_chunk, self.chunk_bytes = plan, findings, by_chunk, chunk_bytes
        moves = [step for block in plan.blocks for op in block.operations for step in flat(op)]
        loops = loops_of(plan)
        units = {self.units(loop) for loop in loops}
        steps = sum(loop.chunks * self.units(loop) * sum(1 for op in loop.body for _ in flat(op)) for loop in loops)
        if steps > MOST_STEPS:
            raise InvalidInput(
                f"pipelines of {steps:,} operations, unit by unit, are too long to follow (at most {MOST_STEPS:,})"
            )
        self.grains = lcm(*(step.slice[1] for step in moves if isinstance(step, Move)), *units)
        self.collective = collective_of(plan, self.grains, root)
        self.names = tuple(dict.fromkeys(op.name for block in plan.blocks for op in every(block.operations)))
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
        self.shared: dict[Key, tuple[int, list[Op], list[Op]]] = {}
        """Channels and semaphores of several lanes: first value, those that signal, those that wait."""
        self.done: dict[Key, Op] = {}
        self.after: list[tuple[Key, Op]] = []
        self._layout()

    def units(self, loop: Loop) -> int:
        """Return into how many units a pipeline cuts a chunk."""
        return max(1, -(-self.chunk_bytes // loop.unit))

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
        from fabric_plan.planner.threads.mscclpp_block import BlockLowering
        from fabric_plan.planner.threads.mscclpp_pairs import Pairs

        for block in self.plan.blocks:
            BlockLowering(self, block).lower()
        for key, op in self.after:
            if key in self.done:
                op.waits.append(self.done[key])
            else:
                self.error(op, "dependency", f"waits for step {key[3]} of thread block {key[2]}, which does not exist")
        pairs = Pairs(self)
        pairs.meet()
        self.shared = pairs.pair()
        twice = pairs.packets()
        self._flatten()
        if twice and not self.findings.has("error"):
            pairs.written_twice(twice, self.program)
            self._flatten()
        return self.program

    def told(self, op: Op) -> str:
        """Return an operation as people name it."""
        return f"g{op.lane.block.rank}/t{op.lane.block.id}/s{op.of.number} ({op.of.name})"

    def error(self, op: Op, code: str, text: str) -> None:
        """Add an error of an operation."""
        self.findings.add("error", code, f"{self.told(op)} {text}", line=op.of.line)

    def _flatten(self) -> None:
        """Give all operations their numbers, and make the program and ``strict`` anew."""
        program = self.program
        columns = Program(
            program.ranks, program.names, program.buffers, connections=program.connections, locations=program.locations
        )
        lanes = [lane for lane in self.lanes if lane.ops]
        ops = [op for lane in lanes for op in lane.ops]
        for index, op in enumerate(ops):
            op.index = index
        number_of = {name: k for k, name in enumerate(self.names)}
        self.loose = {number for number, lane in enumerate(lanes) if lane in self.beside}
        self.control = {number for number, lane in enumerate(lanes) if lane.control}
        strict_start, strict = array("i", [0]), array("i")
        for number, lane in enumerate(lanes):
            first, block = lane.ops[0].index, lane.block
            thread = Thread(block.rank, block.id, NONE, NONE, 0, block.line, first, first + len(lane.ops))
            columns.threads.append(thread)
            for op in lane.ops:
                columns.thread.append(number)
                columns.number.append(op.of.number)
                columns.line.append(op.of.line)
                columns.name.append(number_of[op.of.name])
                columns.source.append(op.source)
                columns.target.append(op.target)
                columns.reads_target.append(int(op.adds))
                columns.count.append(op.count)
                columns.receive.append(NONE)
                columns.send.append(NONE)
                before = [one.index for one in op.waits]
                columns.wait.extend(before)
                columns.wait_start.append(len(columns.wait))
                strict.extend(before + [one.index for one in op.after])
                strict_start.append(len(strict))
                if op.remote is not None:
                    columns.remote[op.index] = op.remote
        self.program = columns
        self.strict = replace(columns, wait=strict, wait_start=strict_start)
        """The same with every block in the order of the file: if that runs to its end, so does every other order."""


def every(operations: Iterable[Operation]) -> Iterable[Operation]:
    """Return all operations, those in pipelines too."""
    for op in operations:
        yield op
        for step in op.steps:
            if isinstance(step, Loop):
                yield from every(step.body)


def flat(op: Operation) -> Iterable[Move | Sync]:
    """Return all steps of an operation, those in pipelines too."""
    for step in op.steps:
        if isinstance(step, Loop):
            for inner in step.body:
                yield from flat(inner)
        else:
            yield step


def loops_of(plan: Plan) -> list[Loop]:
    """Return all pipelines of a plan."""
    return [
        step for block in plan.blocks for op in every(block.operations) for step in op.steps if isinstance(step, Loop)
    ]
