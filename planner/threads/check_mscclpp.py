"""All checks of an MSCCL++ plan, in the order in which one must hold for the next to make sense."""

from __future__ import annotations

from fabric_plan.planner.formats.mscclpp_json import Loop, Move, Plan, Sync, read_plan
from fabric_plan.planner.threads.check_data import check_data
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.findings import Findings, Verdict
from fabric_plan.planner.threads.mscclpp import Lowering
from fabric_plan.planner.threads.order import cycle, matched, topological

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
    program = lowering.lower()
    if not findings.has("error"):
        messages = matched(program, findings)
        order = topological(program, messages)
        if len(order) < len(program):
            ops, told = cycle(program, messages, order)
            text = f"some operations never run, in no interleaving: {told[0]}"
            findings.add("error", "deadlock", text, line=program.line[ops[0]], witness=told)
        else:
            check_data(collective, lowering.buffers, program, messages, order, findings, root=root)
    if findings.has("error"):
        return Checked(Verdict("invalid", kind, summary, tuple(findings.summed())), collective=collective)
    if any(name.startswith(("glre", "gstore")) for name in lowering.names):
        text = "operations of the switch do nothing below compute capability 9.0; here each rank's data is timed as crossing by itself"
        findings.add("info", "switch", text)
    verdict = Verdict("valid", kind, summary, tuple(findings.summed()))
    return Checked(verdict, program, messages, order, collective, None, plan.low, plan.high)


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
