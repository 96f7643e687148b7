"""Schedules that are lists of sends of chunks in steps, as synthesisers write them: followed step by step, then made a program.

A send carries what its source holds at an address when its step begins; what it carries is there when the step is over. Arriving at an
address that holds contributions already, it replaces them if it carries them too, and is added if the two have nothing in common;
in between, some are counted twice, and no runtime makes the schedule right.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import lcm

from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.order import Messages, matched, topological
from fabric_plan.planner.threads.program import NONE, Buffer, Program, Thread

Place = tuple[int, int]
"""(rank, address)."""

NAMES = ("send", "receive", "receive and add")
TOLERANCE = Fraction(1, 10**6)
"""Of parts of chunks, which files give as decimals."""


@dataclass(frozen=True, slots=True)
class Send:
    """One send: of what is at an address, in a step; ``amount`` of the chunk where only a part goes."""

    address: int
    source: int
    target: int
    step: int
    line: int | None = None
    amount: Fraction = Fraction(1)


@dataclass
class Stepped:
    """A schedule of steps.

    Parameters
    ----------
    collective
        As the file names or shows it; its pieces say how large a chunk is.
    start, wanted
        Contributions at a place before the first step, and those that it must hold in the end.
    sends
        In the file's order.
    told
        Names an address, for a reader.
    """

    collective: Collective
    start: dict[Place, frozenset[int]]
    wanted: dict[Place, frozenset[int]]
    sends: list[Send]
    told: Callable[[int], str] = field(default=lambda address: f"chunk {address}")
    source_of: dict[int, int] = field(default_factory=dict)

    def name_of(self, send: Send) -> str:
        """Return a send for a reader."""
        return f"step {send.step}: {send.source}->{send.target} of {self.told(send.address)}"

    def named(self, contributions: frozenset[int], most: int = 6) -> str:
        """Return contributions for a reader, as the ranks that they come from where these are known."""
        ranks = sorted(self.source_of.get(one, one) for one in contributions)
        shown = ", ".join(map(str, ranks[:most])) + (f" and {len(ranks) - most} more" if len(ranks) > most else "")
        return f"rank{'s' if len(ranks) > 1 else ''} {shown}"


def kind_of(ranks: int, origins: dict[int, set[int]], goals: dict[int, set[int]], addresses: dict[int, int]) -> str:
    """Return the collective that contributions with these origins and goals are, ``custom`` where it is none that has a name.

    Parameters
    ----------
    origins, goals
        Ranks that hold each contribution before, and after.
    addresses
        Of each contribution; several at one address are added up.
    """
    everyone = set(range(ranks))
    at: dict[int, list[int]] = defaultdict(list)
    for one, address in addresses.items():
        at[address].append(one)
    if not at or any(len(found) != 1 for found in origins.values()):
        return "custom"
    ends = [goals[one] for one in goals]
    first = {one: next(iter(origins[one])) for one in origins}
    alone = all(len(goal) == 1 for goal in ends)
    if any(len(group) > 1 for group in at.values()):
        if any({first[one] for one in group} != everyone or len(group) != ranks for group in at.values()):
            return "custom"
        if any(goals[one] != goals[group[0]] for group in at.values() for one in group):
            return "custom"
        if all(goal == everyone for goal in ends):
            return "allreduce"
        owners = [next(iter(goals[group[0]])) for group in at.values()] if alone else []
        if owners and len(set(owners)) == 1:
            return "reduce"
        return "reducescatter" if owners and _even(owners, ranks) else "custom"
    if all(goal == everyone for goal in ends):
        if len(set(first.values())) == 1:
            return "broadcast"
        return "allgather" if _even(list(first.values()), ranks) else "custom"
    if not alone:
        return "custom"
    last = {one: next(iter(goals[one])) for one in goals}
    if len(set(last.values())) == 1 and _even(list(first.values()), ranks):
        return "gather"
    if len(set(first.values())) == 1 and _even(list(last.values()), ranks):
        return "scatter"
    pairs: dict[Place, int] = defaultdict(int)
    for one in first:
        if first[one] != last[one]:
            pairs[first[one], last[one]] += 1
    return "alltoall" if len(pairs) == ranks * (ranks - 1) and len(set(pairs.values())) == 1 else "custom"


def _even(owners: list[int], ranks: int) -> bool:
    return len(set(owners)) == ranks and len({owners.count(rank) for rank in range(ranks)}) == 1


def follow(schedule: Stepped, findings: Findings) -> tuple[Program, Messages, array[int]] | None:
    """Follow a schedule step by step; return it as a program with its messages and an order, None where it is wrong.

    Every send waits for what it carries, and nothing else: the program is as quick as the steps' data allow.
    """
    builder = _Builder(schedule)
    parted = any(send.amount != 1 for send in schedule.sends)
    walk = _Parts(schedule, findings, builder) if parted else _Whole(schedule, findings, builder)
    by_step: dict[int, list[Send]] = defaultdict(list)
    for send in schedule.sends:
        by_step[send.step].append(send)
        if send.source == send.target:
            text = f"{schedule.name_of(send)}: a rank cannot send to itself"
            findings.add("error", "self", text, line=send.line)
            return None
    for step in sorted(by_step):
        walk.step(by_step[step])
    walk.end()
    if walk.wrong:
        return None
    messages = matched(builder.program, findings)
    return builder.program, messages, topological(builder.program, messages)


class _Whole:
    """Whole chunks: sets of contributions at places."""

    def __init__(self, schedule: Stepped, findings: Findings, builder: _Builder) -> None:
        self.schedule, self.findings, self.builder = schedule, findings, builder
        self.state = dict(schedule.start)
        self.arrives = {(send.target, send.address): send.step for send in reversed(schedule.sends)}
        self.wrong = False

    def _error(self, code: str, text: str, line: int | None = None) -> None:
        self.findings.add("error", code, text, line=line)
        self.wrong = True

    def step(self, sends: list[Send]) -> None:
        """Follow the sends of a step: all of them read before any of them writes."""
        carried = []
        for send in sends:
            held = self.state.get((send.source, send.address))
            if held:
                carried.append((send, held, self.builder.send(send)))
                continue
            step = self.arrives.get((send.source, send.address))
            why = "never gets it" if step is None else f"gets it in step {step}"
            self._error(
                "missing", f"{self.schedule.name_of(send)}: rank {send.source} does not have it: it {why}", send.line
            )
        for send, held, op in carried:
            self._arrive(send, held, op)

    def _arrive(self, send: Send, held: frozenset[int], op: int) -> None:
        place = send.target, send.address
        old = self.state.get(place, frozenset())
        if old and held <= old:
            text = f"{self.schedule.name_of(send)}: rank {send.target} has it already"
            self.findings.add("warning", "again", text, line=send.line)
            self.builder.receive(send, op, reduce=False, keep=True)
            return
        if old & held and not old <= held:
            both = self.schedule.named(old & held)
            self._error("doubled", f"{self.schedule.name_of(send)}: what {both} gave would be counted twice", send.line)
        self.state[place] = old | held
        self.builder.receive(send, op, reduce=bool(old) and not old <= held)

    def end(self) -> None:
        """Compare what is there with what must be."""
        for place, need in self.schedule.wanted.items():
            has = self.state.get(place, frozenset())
            lack, more = need - has, has - need
            told = []
            if lack:
                told.append(f"missing what {self.schedule.named(lack)} gave")
            if more:
                told.append(f"holds what {self.schedule.named(more)} gave, which does not belong there")
            if told:
                where = f"output {self.schedule.told(place[1])} on rank {place[0]}"
                self._error("output", f"{where}: {'; '.join(told)}")


class _Parts(_Whole):
    """Parts of chunks, as linear programs send them: nobody passes on more of a chunk than has come."""

    def __init__(self, schedule: Stepped, findings: Findings, builder: _Builder) -> None:
        super().__init__(schedule, findings, builder)
        self.amount: dict[Place, Fraction] = dict.fromkeys(schedule.start, Fraction(1))
        self.sent: dict[Place, Fraction] = {}

    def step(self, sends: list[Send]) -> None:
        """Follow the sends of a step."""
        carried = []
        for send in sends:
            place = send.source, send.address
            has = self.amount.get(place, Fraction(0))
            total = self.sent[place] = self.sent.get(place, Fraction(0)) + send.amount
            # What a rank has of its own may go out as often as it is wanted; what passes through goes on once.
            if place not in self.schedule.start and total > has + TOLERANCE:
                self._error(
                    "missing",
                    f"{self.schedule.name_of(send)}: rank {send.source} has passed on {float(total):.6g} of it by then, "
                    f"of which {float(has):.6g} had come",
                    send.line,
                )
            carried.append((send, self.builder.send(send)))
        for send, op in carried:
            place = send.target, send.address
            self.amount[place] = self.amount.get(place, Fraction(0)) + send.amount
            self.builder.receive(send, op, reduce=False)

    def end(self) -> None:
        """Compare what has come, and not gone on, with what must be there."""
        for place in self.schedule.wanted:
            if place in self.schedule.start:
                continue
            left = self.amount.get(place, Fraction(0)) - self.sent.get(place, Fraction(0))
            if left < 1 - TOLERANCE:
                where = f"output {self.schedule.told(place[1])} on rank {place[0]}"
                self._error("output", f"{where}: only {float(left):.6g} of it comes")


class _Builder:
    """Makes the program: a thread for each send and for each arrival."""

    def __init__(self, schedule: Stepped) -> None:
        ranks = schedule.collective.ranks
        self.schedule = schedule
        self.program = Program(ranks=ranks, names=NAMES)
        self.unit = lcm(*(send.amount.denominator for send in schedule.sends)) if schedule.sends else 1
        self.buffers: dict[Place, Buffer] = {}
        self.written: dict[Place, list[int]] = defaultdict(list)
        self.read: dict[Place, list[int]] = defaultdict(list)
        self.connections: dict[Place, int] = {}

    def _buffer(self, place: Place) -> Buffer:
        found = self.buffers.get(place)
        if found is None:
            found = self.program.buffer(place[0], self.schedule.told(place[1]), self.unit)
            self.buffers[place] = found
        return found

    def _op(
        self, rank: int, send: Send, kind: int, *, source: int, target: int, receive: int, out: int, waits: list[int]
    ) -> int:
        program = self.program
        op = len(program)
        line = send.line if send.line is not None else 0
        program.threads.append(Thread(rank, len(program.threads), -1, -1, 0, line, op, op + 1))
        program.thread.append(len(program.threads) - 1)
        program.number.append(send.step)
        program.line.append(line)
        program.name.append(kind)
        program.source.append(source)
        program.target.append(target)
        program.reads_target.append(1 if kind == 2 else 0)
        program.count.append(int(send.amount * self.unit))
        program.receive.append(receive)
        program.send.append(out)
        program.wait.extend(waits)
        program.wait_start.append(len(program.wait))
        return op

    def send(self, send: Send) -> int:
        """Add a send; it waits for all that made up what it carries."""
        place = send.source, send.address
        pair = send.source, send.target
        connection = self.connections.setdefault(pair, len(self.connections))
        if connection == len(self.program.connections):
            self.program.connections.append((*pair, 0))
        waits = list(self.written[place])
        op = self._op(
            send.source,
            send,
            0,
            source=self._buffer(place).first,
            target=NONE,
            receive=NONE,
            out=connection,
            waits=waits,
        )
        self.read[place].append(op)
        return op

    def receive(self, send: Send, op: int, *, reduce: bool, keep: bool = False) -> None:
        """Add the arrival of a send; it waits until what it writes over has been written and sent."""
        place = send.target, send.address
        target = NONE if keep else self._buffer(place).first
        waits = [] if keep else [*self.written[place], *self.read.pop(place, [])]
        connection = self.program.send[op]
        found = self._op(
            send.target, send, 2 if reduce else 1, source=NONE, target=target, receive=connection, out=NONE, waits=waits
        )
        if not keep:
            whole = reduce or send.amount != 1
            self.written[place] = [*self.written[place], found] if whole else [found]
