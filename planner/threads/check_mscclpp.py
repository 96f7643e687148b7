"""All checks of an MSCCL++ plan, in the order in which one must hold for the next to make sense."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from fabric_plan.planner.formats.mscclpp_json import Loop, Move, Operation, Plan, Sync, read_plan
from fabric_plan.planner.threads.check_data import check_data
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.findings import Findings, Verdict
from fabric_plan.planner.threads.mscclpp import Lowering
from fabric_plan.planner.threads.order import Messages, cycle, matched, topological
from fabric_plan.planner.threads.program import Program

OPS, CHANNELS, OP_CHANNELS, OP_BUFFERS, BARRIERS, SEMAPHORES = 64, 16, 8, 10, 16, 16
"""Operations and channels of a thread block; channels and buffers of an operation; barriers and semaphores of a rank."""


def check(data: bytes, *, size: int | None = None, root: int | None = None) -> Checked:
    """Check a plan of version 2 or 1.

    Parameters
    ----------
    size
        Bytes of the collective's larger buffer: outside the plan's window a warning. Nothing else depends on it.
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
    groups = any(step.slice[1] > 1 for block in plan.blocks for op in block.operations for step in _moves(op))
    lowering = Lowering(plan, findings, root)
    collective = lowering.collective
    operations = sum(len(block.operations) for block in plan.blocks)
    summary = (
        f"{plan.name or 'plan'}: {collective.name} of {plan.ranks} ranks, {collective.pieces // lowering.grains} chunks, "
        f"{plan.protocol}, {len(plan.blocks):,} thread blocks, {operations:,} operations"
    )
    if lowering.loops:
        findings.add(
            "info", "pipeline", "pipelines are followed for two units a chunk; scratch that is used again later is not"
        )
    found = _ran(lowering, findings, root)
    if found is None and groups:
        other = Findings()
        if _ran(Lowering(plan, other, root, by_chunk=True), other, root) is not None:
            text = "it would be right if groups of thread blocks cut each chunk; the executor cuts each operation's whole range"
            findings.add("info", "group-slices", text)
    if found is None:
        return Checked(Verdict("invalid", kind, summary, tuple(findings.summed())), collective=collective)
    program, messages, order = found
    if any(name.startswith(("glre", "gstore")) for name in lowering.names):
        text = "operations of the switch do nothing below compute capability 9.0; here each rank's data is timed as crossing by itself"
        findings.add("info", "switch", text)
    verdict = Verdict("valid", kind, summary, tuple(findings.summed()))
    return Checked(verdict, program, messages, order, collective, None, plan.low, plan.high)


def _moves(op: Operation) -> Iterator[Move]:
    for step in op.steps:
        if isinstance(step, Move):
            yield step
        elif isinstance(step, Loop):
            for inner in step.body:
                yield from _moves(inner)


def _ran(lowering: Lowering, findings: Findings, root: int | None) -> tuple[Program, Messages, array[int]] | None:
    """Lower a plan and follow it; None, with findings, where it is wrong."""
    program = lowering.lower()
    if findings.has("error"):
        return None
    messages = matched(program, findings)
    order = topological(program, messages)
    if len(order) < len(program):
        ops, told = cycle(program, messages, order)
        text = f"some operations never run, in no interleaving: {told[0]}"
        findings.add("error", "deadlock", text, line=program.line[ops[0]], witness=told)
        return None
    check_data(lowering.collective, lowering.buffers, program, messages, order, findings, root=root)
    if not findings.has("error"):
        _late(lowering, program, order, findings)
    return None if findings.has("error") else (program, messages, order)


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
        steps = sum(len(step.body) if isinstance(step, Loop) else 1 for op in block.operations for step in op.steps[:1])
        beyond(f"{where}: operations", steps, OPS, block.line)
        beyond(f"{where}: channels", block.channels, CHANNELS, block.line)
        for op in block.operations:
            for step in op.steps:
                if isinstance(step, Sync):
                    beyond(f"{where}/s{op.number}: channels", len(step.keys), OP_CHANNELS, op.line)
                    if step.kind == "barrier":
                        beyond(f"{where}/s{op.number}: number of a barrier", step.keys[0][2] + 1, BARRIERS, op.line)
                elif isinstance(step, Move):
                    most = max(len(step.sources), len(step.targets))
                    beyond(f"{where}/s{op.number}: buffers", most if op.name[:2] != "gl" else 1, OP_BUFFERS, op.line)
    for (_, rank, number), _ in plan.semaphores.items():
        beyond(f"rank {rank}: semaphores", number + 1, SEMAPHORES, 1)
