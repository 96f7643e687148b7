"""All checks of an MSCCL algorithm, in the order in which one must hold for the next to make sense."""

from __future__ import annotations

from array import array
from typing import BinaryIO

from fabric_plan.planner.formats.msccl_xml import Algorithm, read_msccl
from fabric_plan.planner.threads.check_data import check_data
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.findings import Findings, Verdict
from fabric_plan.planner.threads.msccl import Lowering
from fabric_plan.planner.threads.msccl_header import CHUNK_BYTES, DEPTHS, Header, check_limits, header
from fabric_plan.planner.threads.order import Messages, cycle, matched, parts_of, stuck_with_room, topological
from fabric_plan.planner.threads.program import Program

MAX_MESSAGE = 71


def check(data: bytes | BinaryIO, *, size: int | None = None, root: int | None = None, quick: bool = False) -> Checked:
    """Check an MSCCL XML file.

    Parameters
    ----------
    size
        Bytes of the collective's larger buffer; None: all sizes that the file allows.
    root
        Of a broadcast, reduce, gather or scatter; None: found out for broadcast, else 0.
    quick
        Leave out races.

    Raises
    ------
    InvalidInput
        When the file cannot be read.
    """
    findings = Findings()
    algorithm = read_msccl(data, findings)
    head = header(algorithm, findings, root)
    check_limits(algorithm, head, findings)
    _selection(algorithm, head, findings)
    first: tuple[Program, Messages, array[int], Collective] | None = None
    for in_place in head.placements:
        before = len(findings.kept)
        found = _placement(algorithm, head, findings, in_place=in_place, root=root, quick=quick)
        if len(head.placements) > 1 and len(findings.kept) > before:
            findings.add("info", "placement", f"found {'in' if in_place else 'out of'} place")
        if first is None:
            first = found
        if found is None:
            break
    hangs: int | None = None
    if first is not None and not findings.has("error"):
        hangs = _room(head, first[0], first[1], findings, size)
    summary = _summary(algorithm, head)
    if findings.has("error"):
        kind = "invalid"
    elif hangs is not None:
        kind = "hangs-above"
    else:
        kind = "valid"
    verdict = Verdict(kind, "msccl-xml", summary, tuple(findings.summed()), hangs)  # type: ignore[arg-type]
    depth = DEPTHS[head.protocol]
    if first is None or kind == "invalid":
        return Checked(verdict, collective=head.collective, depth=depth, low=head.min_bytes, high=head.max_bytes)
    return Checked(verdict, *first, depth, head.min_bytes, head.max_bytes)


def _summary(algorithm: Algorithm, head: Header) -> str:
    collective = head.collective
    steps, blocks = len(algorithm.s), sum(len(gpu.blocks) for gpu in algorithm.gpus)
    return f"{collective.name} of {collective.ranks} ranks, {head.pieces} chunks, {head.protocol}, {blocks:,} thread blocks, {steps:,} steps"


def _selection(algorithm: Algorithm, head: Header, findings: Findings) -> None:
    window = f"from {head.min_bytes:,} bytes" + (f" to {head.max_bytes:,}" if head.max_bytes else "")
    where = " and ".join("in place" if place else "out of place" for place in head.placements)
    findings.add(
        "info",
        "selection",
        f"selected {where} for {head.collective.ranks} ranks {window}, where the count divides by {head.pieces} pieces",
        line=algorithm.line,
    )


def _placement(
    algorithm: Algorithm, head: Header, findings: Findings, *, in_place: bool, root: int | None, quick: bool
) -> tuple[Program, Messages, array[int], Collective] | None:
    """Check one placement; return the program with its order, None where something keeps it from running."""
    lowering = Lowering(algorithm, head, findings, in_place=in_place)
    program = lowering.lower()
    if findings.has("error"):
        return None
    messages = matched(program, findings)
    if any(severity == "error" and code == "message-size" for severity, code in findings.counts):
        return None
    order = topological(program, messages)
    if len(order) < len(program):
        ops, told = cycle(program, messages, order)
        left = len(program) - len(order)
        findings.add(
            "error",
            "deadlock",
            f"{left:,} of {len(program):,} steps never run, in no interleaving: {told[0]}",
            line=program.line[ops[0]],
            witness=told,
        )
        return None
    if findings.has("error"):
        return None
    collective = check_data(
        head.collective, lowering.buffers, program, messages, order, findings, root=root, quick=quick
    )
    return program, messages, order, collective


def _room(head: Header, program: Program, messages: Messages, findings: Findings, size: int | None) -> int | None:
    """Return the bytes above which the schedule stops for ever, if the file (or ``size``) allows such; findings are added."""
    depth = DEPTHS[head.protocol]
    most = max((program.count[op] for op in range(len(program)) if program.send[op] >= 0), default=1)
    chunk = CHUNK_BYTES[head.protocol]
    worst: tuple[int, tuple[int, ...]] | None = None
    tried = b""
    for parts in range(min(most, MAX_MESSAGE), 0, -1):
        split = parts_of(program, parts)
        if split.tobytes() == tried:
            continue  # messages of so many chunks cut no step in other ways
        tried = split.tobytes()
        ops = stuck_with_room(program, messages, depth, split)
        if ops is not None:
            worst = parts, ops
            break
    if worst is None:
        return None
    parts, ops = worst
    # Messages hold at most ``parts`` chunks as soon as parts + 1 of them no longer fit: above so many bytes of the whole buffer.
    limit = head.pieces * (chunk // (parts + 1)) if parts < min(most, MAX_MESSAGE) else 0
    witness = [f"{program.where(op)} (line {program.line[op]}) waits" for op in ops[:16]]
    allowed = "any size" if head.max_bytes is None else f"up to {head.max_bytes:,} bytes"
    reachable = (head.max_bytes is None or head.max_bytes > limit) if size is None else size > limit
    if limit == 0:
        findings.add(
            "error",
            "hang",
            f"connections hold {depth} messages ({head.protocol}): it stops for ever at every size",
            line=program.line[ops[0]],
            witness=witness,
        )
        return None
    text = f"hangs above {limit:,} bytes, where connections with room for {depth} messages fill up"
    if reachable:
        findings.add(
            "error" if size is not None else "warning",
            "hangs-above",
            f"{text}; the file allows {allowed}",
            line=program.line[ops[0]],
            witness=witness,
        )
        return limit
    findings.add(
        "info", "hangs-above", f"{text}; the file allows {allowed}, so that never happens", line=program.line[ops[0]]
    )
    return None
