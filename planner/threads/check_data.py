"""What a program computes, checked: outputs against the collective, races that change them, orders of reduction that differ."""

from __future__ import annotations

from array import array

from fabric_plan.planner.threads.collectives import ROOTED, Collective
from fabric_plan.planner.threads.data import (
    BUDGET,
    TooManyContributions,
    Values,
    Wrong,
    initial,
    run,
    wrong_outputs,
)
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.fingerprints import Fingerprints, Slice
from fabric_plan.planner.threads.order import Messages
from fabric_plan.planner.threads.program import Buffer, Program
from fabric_plan.planner.threads.races import Before, races, turned

Buffers = dict[tuple[int, int], Buffer]

MOST_TURNED = 400
"""Racing pairs that are tried the other way round."""


def check_data(
    collective: Collective,
    buffers: Buffers,
    program: Program,
    messages: Messages,
    order: array[int],
    findings: Findings,
    *,
    root: int | None,
    quick: bool = False,
) -> Collective:
    """Follow the data and add what is wrong: outputs, races, orders of reduction; return the collective with its root, where that was found out.

    Parameters
    ----------
    buffers
        Input, output and scratch of each rank, by (rank, 0, 1 or 2).
    root
        Of a rooted collective; None: found out from the data.
    quick
        Leave out races.
    """
    try:
        values = Values(collective.ranks, collective.pieces, budget=BUDGET)
        start, state, writer = _followed(collective, buffers, program, messages, order, values)
    except TooManyContributions:
        values = Fingerprints(collective.ranks, collective.pieces)
        start, state, writer = _followed(collective, buffers, program, messages, order, values)
        findings.add(
            "info", "fingerprints", "its sums are too large to list: compared by two random 61-bit fingerprints"
        )
    if collective.name in ROOTED and root is None:
        collective = _rooted(collective, buffers, state, values, findings)
    wrong = wrong_outputs(collective, buffers, state, values)
    if wrong and isinstance(values, Fingerprints):
        wrong, values = _exactly(collective, buffers, program, messages, order, wrong[0])
    for one in wrong:
        op = writer[one.location]
        line = program.line[op] if op >= 0 else None
        last = f"; last written by {program.where(op)}" if op >= 0 else "; never written"
        findings.add(
            "error", "output", one.told(values) + last, line=line, witness=_history(program, one.location, order)
        )
    if wrong or quick:
        return collective
    if collective.name == "custom":
        findings.add("info", "custom", "a custom collective: no output is known to be wrong, only orders are compared")
    _races(collective, buffers, program, messages, order, start, state, values, findings)
    _reductions(collective, buffers, program, messages, order, findings)
    return collective


def _followed(
    collective: Collective,
    buffers: Buffers,
    program: Program,
    messages: Messages,
    order: array[int],
    values: Values,
) -> tuple[array[int], array[int], array[int]]:
    """Return the values of all locations before and after a run, and who wrote each last."""
    start = initial(program, collective, buffers, values)
    state, writer = start[:], array("i", [-1]) * program.locations
    run(program, messages, order, state, values, writer)
    return start, state, writer


def _exactly(
    collective: Collective,
    buffers: Buffers,
    program: Program,
    messages: Messages,
    order: array[int],
    wrong: Wrong,
) -> tuple[list[Wrong], Values]:
    """Follow the contributions to the chunk of a wrong output exactly; return what is wrong with it, by name."""
    chunk = wrong.wanted[0] % collective.pieces
    values = Slice(collective.ranks, collective.pieces, chunk)
    _, state, _ = _followed(collective, buffers, program, messages, order, values)
    named = [
        one
        for one in wrong_outputs(collective, buffers, state, values)
        if one.wanted and one.wanted[0] % collective.pieces == chunk
    ]
    # What does not belong there at all leaves no trace in the slice: then the output itself is all that can be named.
    return named or [Wrong(wrong.rank, wrong.chunk, wrong.location, state[wrong.location], wrong.wanted)], values


def _rooted(
    collective: Collective, buffers: Buffers, state: array[int], values: Values, findings: Findings
) -> Collective:
    """Return the collective with the root that the data shows: the only rank from which a broadcast's chunks come."""
    best = collective
    fewest: int | None = None
    for rank in range(collective.ranks):
        one = Collective(collective.name, collective.ranks, collective.pieces, rank)
        wrong = len(wrong_outputs(one, buffers, state, values))
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
    buffers: Buffers,
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
    outputs = [place for rank in range(collective.ranks) for place in _output(buffers, rank, collective)]
    tried = 0
    for race in races(program, order, before):
        a, b, place = program.where(race.first), program.where(race.second), program.place(race.location)
        changed: str | None = f"not tried the other way round, as more than {MOST_TURNED} pairs race"
        if tried < MOST_TURNED:
            tried += 1
            changed = _changed(collective, buffers, program, messages, order, start, final, values, race, outputs)
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


def _output(buffers: Buffers, rank: int, collective: Collective) -> range:
    one = buffers[rank, 1]
    return range(one.first, one.first + one.size)


def _writes(program: Program, op: int, location: int) -> bool:
    target = program.target[op]
    return target >= 0 and target <= location < target + program.count[op]


def _changed(
    collective: Collective,
    buffers: Buffers,
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
            wrong = wrong_outputs(collective, buffers, state, values)
            if wrong:
                return f"{how}, {wrong[0].told(values)}"
        else:
            for place in outputs:
                if state[place] != final[place]:
                    return f"{how}, {program.place(place)} holds {values.told(state[place])} instead of {values.told(final[place])}"
    return None


def _reductions(
    collective: Collective,
    buffers: Buffers,
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
        one = buffers[rank, 0]
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
        ways = {state[buffers[rank, 1].first + chunk] for rank in range(collective.ranks)}
        differing += len(ways) > 1
    if differing:
        findings.add(
            "warning",
            "reduction-order",
            f"ranks add up {differing} of {collective.pieces} chunks in different orders: with floating point their results differ in rounding",
        )
