"""All checks of an MSCCL algorithm, in the order in which one must hold for the next to make sense."""

from __future__ import annotations

from array import array
from typing import BinaryIO

from fabric_plan.planner.formats.msccl_xml import Algorithm, read_msccl
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.collectives import ROOTED, Collective
from fabric_plan.planner.threads.data import BUDGET, TooManyContributions, Values, Wrong, initial, run, wrong_outputs
from fabric_plan.planner.threads.findings import Findings, Verdict
from fabric_plan.planner.threads.fingerprints import Fingerprints, Slice
from fabric_plan.planner.threads.msccl import CHUNK_BYTES, DEPTHS, Header, Lowering, check_limits, header
from fabric_plan.planner.threads.order import Messages, cycle, matched, parts_of, stuck_with_room, topological
from fabric_plan.planner.threads.program import Program
from fabric_plan.planner.threads.races import Before, races, turned

MOST_TURNED = 400
"""Racing pairs that are tried the other way round."""

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
    first: tuple[Program, Messages, array[int]] | None = None
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
    program, messages, order = first if first is not None and kind != "invalid" else (None, None, None)
    depth = DEPTHS[head.protocol]
    return Checked(verdict, program, messages, order, head.collective, depth, head.min_bytes, head.max_bytes)


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
) -> tuple[Program, Messages, array[int]] | None:
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
    _data(head, lowering, program, messages, order, findings, root=root, quick=quick)
    return program, messages, order


def _data(
    head: Header,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    findings: Findings,
    *,
    root: int | None,
    quick: bool,
) -> None:
    collective = head.collective
    try:
        values = Values(collective.ranks, collective.pieces, budget=BUDGET)
        start, state, writer = _followed(collective, lowering, program, messages, order, values)
    except TooManyContributions:
        values = Fingerprints(collective.ranks, collective.pieces)
        start, state, writer = _followed(collective, lowering, program, messages, order, values)
        findings.add(
            "info", "fingerprints", "its sums are too large to list: compared by two random 61-bit fingerprints"
        )
    if collective.name in ROOTED and root is None:
        collective = _rooted(collective, lowering, state, values, findings)
    wrong = wrong_outputs(collective, lowering.buffers, state, values)
    if wrong and isinstance(values, Fingerprints):
        wrong, values = _exactly(collective, lowering, program, messages, order, wrong[0])
    for one in wrong:
        op = writer[one.location]
        line = program.line[op] if op >= 0 else None
        last = f"; last written by {program.where(op)}" if op >= 0 else "; never written"
        findings.add(
            "error", "output", one.told(values) + last, line=line, witness=_history(program, one.location, order)
        )
    if wrong or quick:
        return
    if collective.name == "custom":
        findings.add("info", "custom", "a custom collective: no output is known to be wrong, only orders are compared")
    _races(collective, lowering, program, messages, order, start, state, values, findings)
    _reductions(collective, lowering, program, messages, order, findings)


def _followed(
    collective: Collective,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    values: Values,
) -> tuple[array[int], array[int], array[int]]:
    """Return the values of all locations before and after a run, and who wrote each last."""
    start = initial(program, collective, lowering.buffers, values)
    state, writer = start[:], array("i", [-1]) * program.locations
    run(program, messages, order, state, values, writer)
    return start, state, writer


def _exactly(
    collective: Collective,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    wrong: Wrong,
) -> tuple[list[Wrong], Values]:
    """Follow the contributions to the chunk of a wrong output exactly; return what is wrong with it, by name."""
    chunk = wrong.wanted[0] % collective.pieces
    values = Slice(collective.ranks, collective.pieces, chunk)
    _, state, _ = _followed(collective, lowering, program, messages, order, values)
    named = [
        one
        for one in wrong_outputs(collective, lowering.buffers, state, values)
        if one.wanted and one.wanted[0] % collective.pieces == chunk
    ]
    # What does not belong there at all leaves no trace in the slice: then the output itself is all that can be named.
    return named or [Wrong(wrong.rank, wrong.chunk, wrong.location, state[wrong.location], wrong.wanted)], values


def _rooted(
    collective: Collective, lowering: Lowering, state: array[int], values: Values, findings: Findings
) -> Collective:
    """Return the collective with the root that the data shows: the only rank from which a broadcast's chunks come."""
    best = collective
    fewest: int | None = None
    for rank in range(collective.ranks):
        one = Collective(collective.name, collective.ranks, collective.pieces, rank)
        wrong = len(wrong_outputs(one, lowering.buffers, state, values))
        if fewest is None or wrong < fewest:
            best, fewest = one, wrong
    findings.add("info", "root", f"the root is not in the file: taken to be rank {best.root}")
    return best


def _history(program: Program, location: int, order: array[int], most: int = 12) -> list[str]:
    """Return who wrote a location, in order."""
    found = []
    for op in order:
        target = program.target[op]
        if 0 <= target <= location < target + program.count[op]:
            found.append(f"{program.where(op)} writes {program.place(location)} (line {program.line[op]})")
    return found[-most:]


def _races(
    collective: Collective,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    start: array[int],
    final: array[int],
    values: Values,
    findings: Findings,
) -> None:
    """Name racing pairs: errors where another order changes an output, else warnings."""
    before = Before(program, messages, order)
    outputs = [place for rank in range(collective.ranks) for place in _output(lowering, rank, collective)]
    tried = 0
    for race in races(program, order, before):
        a, b, place = program.where(race.first), program.where(race.second), program.place(race.location)
        changed: str | None = None
        if tried < MOST_TURNED:
            tried += 1
            changed = _changed(collective, lowering, program, messages, order, start, final, values, race, outputs)
        verbs = "writes" if race.kind == "write-write" or _writes(program, race.second, race.location) else "reads"
        other = "writes" if _writes(program, race.first, race.location) else "reads"
        text = f"race: {a} {other} {place}, {b} {verbs} it, in no order"
        witness = (f"{a} (line {program.line[race.first]})", f"{b} (line {program.line[race.second]})")
        if changed is not None:
            findings.add("error", "race", f"{text}: {changed}", line=program.line[race.second], witness=witness)
        else:
            findings.add(
                "warning",
                "race",
                f"{text}; no output was seen to depend on it",
                line=program.line[race.second],
                witness=witness,
            )


def _output(lowering: Lowering, rank: int, collective: Collective) -> range:
    one = lowering.buffers[rank, 1]
    return range(one.first, one.first + one.size)


def _writes(program: Program, op: int, location: int) -> bool:
    target = program.target[op]
    return target >= 0 and target <= location < target + program.count[op]


def _changed(
    collective: Collective,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    start: array[int],
    final: array[int],
    values: Values,
    race: object,
    outputs: list[int],
) -> str | None:
    """Try other interleavings of a racing pair; return how an output changes, None where none does."""
    from fabric_plan.planner.threads.races import Race

    assert isinstance(race, Race)
    other = turned(program, messages, order, race)
    trials: list[tuple[array[int], tuple[int, int] | None, str]] = [(other, None, "the other way round")]
    # Two that both read and write a place may overtake each other in between: one of the writes is lost.
    if _writes(program, race.first, race.location) and _writes(program, race.second, race.location):
        trials.append((order, (race.first, race.location), "if the first write is lost"))
        trials.append((other, (race.second, race.location), "if the second write is lost"))
    wanted = (
        {(rank, chunk): parts for rank in range(collective.ranks) for chunk, parts in collective.wanted(rank)}
        if collective.name != "custom"
        else {}
    )
    for steps, lost, how in trials:
        state = start[:]
        run(program, messages, steps, state, values, lost=lost)
        if wanted:
            wrong = wrong_outputs(collective, lowering.buffers, state, values)
            if wrong:
                return f"{how}, {wrong[0].told(values)}"
        else:
            for place in outputs:
                if state[place] != final[place]:
                    return f"{how}, {program.place(place)} holds {values.told(state[place])} instead of {values.told(final[place])}"
    return None


def _reductions(
    collective: Collective,
    lowering: Lowering,
    program: Program,
    messages: Messages,
    order: array[int],
    findings: Findings,
) -> None:
    """Warn where ranks that must hold the same sum add it up in different orders: rounding makes replicas diverge."""
    if collective.name != "allreduce" or collective.ranks < 3:
        return
    trees: dict[tuple[int, int], int] = {}
    leaves = 0
    state = array("q", [0]) * program.locations
    for rank in range(collective.ranks):
        one = lowering.buffers[rank, 0]
        for chunk in range(one.size):
            leaves += 1
            state[one.first + chunk] = -(rank * collective.pieces + chunk) - 1

    def add(a: int, b: int) -> int:
        key = (a, b) if a < b else (b, a)
        return trees.setdefault(key, len(trees) + 1)

    post: dict[int, list[int]] = {}
    for op in order:
        many, read, write = program.count[op], program.source[op], program.target[op]
        row: list[int] = []
        if program.receive[op] >= 0:
            row = post.pop(messages.sender[op])
        if read >= 0:
            mine = state[read : read + many].tolist()
            row = mine if not row else [add(a, b) for a, b in zip(row, mine, strict=True)]
        if write >= 0:
            if program.reads_target[op]:
                row = [add(a, b) for a, b in zip(state[write : write + many], row, strict=True)]
            for k, value in enumerate(row):
                state[write + k] = value
        if program.send[op] >= 0:
            post[op] = row
    differing = 0
    for chunk in range(collective.pieces):
        ways = {state[lowering.buffers[rank, 1].first + chunk] for rank in range(collective.ranks)}
        differing += len(ways) > 1
    if differing:
        findings.add(
            "warning",
            "reduction-order",
            f"ranks add up {differing} of {collective.pieces} chunks in different orders: with floating point their results differ in rounding",
        )


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
