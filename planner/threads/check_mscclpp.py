"""All checks of an MSCCL++ plan, in the order in which one must hold for the next to make sense."""

from __future__ import annotations

from array import array
from dataclasses import replace

from fabric_plan.planner.formats.mscclpp_json import Loop, Move, Plan, Sync, read_plan
from fabric_plan.planner.threads.check_data import check_data
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.data import Values, initial, run
from fabric_plan.planner.threads.findings import Finding, Findings, Severity, Verdict
from fabric_plan.planner.threads.mscclpp import SCRATCH_BYTES, Lowering, collective_of, every, flat, loops_of
from fabric_plan.planner.threads.mscclpp_pairs import feasible
from fabric_plan.planner.threads.mscclpp_units import chunks_of, comes_round
from fabric_plan.planner.threads.order import Messages, cycle, matched
from fabric_plan.planner.threads.program import Program

STUCK = ("deadlock", "signal")
"""Codes of what never ends; the second: more waits than signals."""

Followed = tuple[Program, Messages, "array[int]"]

OPS, CHANNELS, OP_CHANNELS, OP_BUFFERS, BARRIERS, SEMAPHORES = 64, 16, 8, 10, 16, 16
"""Operations and channels of a thread block; channels and buffers of an operation; barriers and semaphores of a rank."""


def check(data: bytes, *, size: int | None = None, root: int | None = None) -> Checked:
    """Check a plan of version 2 or 1.

    Parameters
    ----------
    size
        Bytes of the collective's larger buffer: outside the plan's window a warning; it decides into how many units pipelines cut a chunk. None: all sizes.
    root
        Of a rooted collective; None: found out from the data.

    Raises
    ------
    InvalidInput
        When the executor would not load it.
    """
    plan = read_plan(data)
    findings = Findings()
    kind = f"mscclpp-v{plan.version}"
    _limits(plan, findings)
    for code, text, line in plan.quirks:
        findings.add("warning", code, text, line=line)
    if size is not None and (size < plan.low or (plan.high is not None and size > plan.high)):
        findings.add("warning", "selection", f"{size:,} bytes are outside the plan's window")
    groups = any(
        isinstance(step, Move) and step.slice[1] > 1 for b in plan.blocks for op in b.operations for step in flat(op)
    )
    pieces = collective_of(plan, 1, root).pieces
    operations = sum(len(block.operations) for block in plan.blocks)
    found: Followed | None = None
    hangs: int | None = None
    sizes = chunks_of(plan, pieces, size)
    for number, chunk in enumerate(sizes):
        more = Findings()
        lowering = Lowering(plan, more, root, chunk_bytes=chunk)
        found = _ran(lowering, more, root)
        if found is not None and number + 1 < len(sizes):
            continue
        if found is None and any(code in STUCK for _, code in more.counts):
            hangs = _hangs(plan, chunk, pieces, root)
        if found is None and hangs is None and number:
            more.add("info", "pipeline", f"found where a chunk is more than {sizes[number - 1]:,} bytes")
        break
    collective = lowering.collective
    summary = (
        f"{plan.name or 'plan'}: {collective.name} of {plan.ranks} ranks, {pieces} chunks, "
        f"{plan.protocol}, {len(plan.blocks):,} thread blocks, {operations:,} operations"
    )
    _scope(plan, lowering, sizes, findings)
    if found is None and groups:
        other = Findings()
        if _ran(Lowering(plan, other, root, by_chunk=True, chunk_bytes=sizes[0]), other, root) is not None:
            text = "it would be right if groups of thread blocks cut each chunk; the executor cuts each operation's whole range"
            findings.add("info", "group-slices", text)
    if any(name.startswith(("glre", "gstore")) for name in lowering.names):
        text = "operations of the switch do nothing below compute capability 9.0; here each rank's data is timed as crossing by itself"
        findings.add("info", "switch", text)
    told = (*findings.summed(), *more.summed())
    if hangs is not None and not findings.has("error"):
        told = _above(hangs, told, size)
        verdict = Verdict("hangs-above", kind, summary, told, hangs)
        lowering = Lowering(plan, Findings(), root, chunk_bytes=max(1, hangs // pieces))
        found = _ran(lowering, Findings(), root)
        if found is not None:
            return Checked(verdict, *found, lowering.collective, None, plan.low, plan.high)
    if found is None or findings.has("error"):
        return Checked(Verdict("invalid", kind, summary, told), collective=collective)
    verdict = Verdict("valid", kind, summary, told)
    return Checked(verdict, *found, collective, None, plan.low, plan.high)


def _above(hangs: int, told: tuple[Finding, ...], size: int | None) -> tuple[Finding, ...]:
    """Return findings in which a deadlock is one of large sizes only."""
    severity: Severity = "warning" if size is None else "error"
    return tuple(
        replace(one, severity=severity, code="hangs-above", message=f"hangs above {hangs:,} bytes: {one.message}")
        if one.code in STUCK
        else one
        for one in told
    )


def _hangs(plan: Plan, chunk: int, pieces: int, root: int | None) -> int | None:
    """Return the bytes of the collective above which a plan stops for ever, where it does for ``chunk`` bytes of a chunk; None: at every size."""
    loops = loops_of(plan)
    if not loops:
        return None
    unit = min(loop.unit for loop in loops)
    fine, bad = max(0, -(-plan.low // pieces) // unit - 1), -(-chunk // unit)
    while bad - fine > 1:
        middle = (fine + bad) // 2
        more = Findings()
        if _ran(Lowering(plan, more, root, chunk_bytes=middle * unit), more, root) is None:
            bad = middle
        else:
            fine = middle
    return fine * unit * pieces if fine and fine * unit * pieces >= plan.low else None


def _scope(plan: Plan, lowering: Lowering, sizes: list[int], findings: Findings) -> None:
    """Say for how many units pipelines were followed, and what of their scratch was not."""
    loops = loops_of(plan)
    round_at = comes_round(plan)
    if loops:
        units = max(lowering.units(loop) for loop in loops)
        text = f"pipelines are followed for up to {units} units a chunk"
        if round_at is not None and round_at >= sizes[-1]:
            text += f"; scratch is used again where a chunk is more than {round_at:,} bytes, which is not followed"
        findings.add("info", "pipeline", text)
        for loop in loops:
            for rank in range(plan.ranks):
                room = (SCRATCH_BYTES >> plan.double) // max(1, plan.declared[rank, "s"])
                if plan.reuse and plan.declared[rank, "s"] and room % loop.unit:
                    text = f"units of {loop.unit:,} bytes do not divide the {room:,} of a scratch chunk: the executor writes past its end before it comes round"
                    findings.add("warning", "scratch", text)
                    return


def _ran(lowering: Lowering, findings: Findings, root: int | None) -> Followed | None:
    """Lower a plan and follow it; None, with findings, where it is wrong."""
    program = lowering.lower()
    if findings.has("error"):
        return None
    messages = matched(program, findings)
    order, stuck = feasible(lowering, messages)
    if stuck:
        text = f"operations never run where blocks take in this order: {stuck[0]}"
        findings.add("error", "deadlock", text, witness=stuck[:12])
        return None
    if len(order) < len(program):
        ops, told = cycle(lowering.strict, messages, order)
        text = f"some operations never run, in no interleaving: {told[0]}"
        findings.add("error", "deadlock", text, line=program.line[ops[0]], witness=told)
        return None
    lowering.collective = check_data(
        lowering.collective, lowering.buffers, program, messages, order, findings, root=root
    )
    if not findings.has("error"):
        _inputs(lowering, program, messages, order, findings)
        _late(lowering, program, order, findings)
    return None if findings.has("error") else (program, messages, order)


def _inputs(lowering: Lowering, program: Program, messages: Messages, order: array[int], findings: Findings) -> None:
    """Out of place the input must be left as it was."""
    collective = lowering.collective
    if lowering.plan.in_place or collective.name == "custom":
        return
    owner = {
        one.first + k: rank for (rank, kind), one in lowering.buffers.items() if kind == 0 for k in range(one.size)
    }
    written = [
        op
        for op in order
        if any(program.target[op] + k in owner for k in range(program.count[op] if program.target[op] >= 0 else 0))
    ]
    if not written:
        return
    values = Values(collective.ranks, collective.pieces)
    state = initial(program, collective, lowering.buffers, values)
    start = state[:]
    run(program, messages, order, state, values)
    for op in written:
        for location in range(program.target[op], program.target[op] + program.count[op]):
            if location in owner and state[location] != start[location]:
                text = f"{program.where(op)} leaves {values.told(state[location])} in {program.place(location)}: out of place, inputs must stay as they are"
                findings.add("error", "input", text, line=program.line[op])
                break


def _late(lowering: Lowering, program: Program, order: array[int], findings: Findings) -> None:
    """A rank's output must be there when its own kernel ends: what others write has to come before something that it does itself."""
    writer: dict[int, int] = {}
    for op in order:
        target = program.target[op]
        if target >= 0:
            for location in range(target, target + program.count[op]):
                writer[location] = op
    for rank in range(program.ranks):
        output = lowering.buffers[rank, 1]
        last = {writer[place] for place in range(output.first, output.first + output.size) if place in writer}
        others = {op for op in last if program.threads[program.thread[op]].rank != rank}
        if not others:
            continue
        stack = [
            op
            for op in range(len(program))
            if program.threads[program.thread[op]].rank == rank and program.thread[op] not in lowering.loose
        ]
        seen = set(stack)
        while stack:
            op = stack.pop()
            before = list(program.waits(op))
            if op and program.thread[op - 1] == program.thread[op]:
                before.append(op - 1)
            for other in before:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        for op in sorted(others - seen):
            # A relaxed signal that the rank waits for comes after the write was issued, not after it arrived: usual at the end of plans.
            issued = program.thread[op] in lowering.loose and any(one in seen for one in program.waits(op))
            why = "it waits for a relaxed signal only" if issued else "it waits for nothing that comes after"
            text = f"{program.where(op)} writes {program.place(program.target[op], rank)}, and rank {rank} may end before: {why}"
            findings.add("warning" if issued else "error", "late", text, line=program.line[op])


def _limits(plan: Plan, findings: Findings) -> None:
    """Add what passes the sizes of the executor's arrays, of which it checks the first only."""

    def beyond(what: str, value: int, most: int, line: int) -> None:
        if value > most:
            findings.add("error", "limit", f"{what}: {value}, the executor has room for {most}", line=line)

    for block in plan.blocks:
        where = f"g{block.rank}/t{block.id}"
        # A pipeline takes a place of its own beside those of its operations.
        steps = sum(
            1 + len(step.body) if isinstance(step, Loop) else 1 for op in block.operations for step in op.steps[:1]
        )
        beyond(f"{where}: operations", steps, OPS, block.line)
        beyond(f"{where}: channels", block.channels, CHANNELS, block.line)
        for op in every(block.operations):
            buffers = op.buffers
            for step in op.steps:
                if isinstance(step, Sync):
                    beyond(f"{where}/s{op.number}: channels", len(step.keys), OP_CHANNELS, op.line)
                    if step.kind == "barrier":
                        beyond(f"{where}/s{op.number}: number of a barrier", step.keys[0][2] + 1, BARRIERS, op.line)
                elif isinstance(step, Move) and plan.version == 1:
                    buffers = max(buffers, len(step.sources), len(step.targets))
            beyond(f"{where}/s{op.number}: buffers", buffers, OP_BUFFERS, op.line)
    for (_, rank, number), _ in plan.semaphores.items():
        beyond(f"rank {rank}: semaphores", number + 1, SEMAPHORES, 1)
