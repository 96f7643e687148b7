"""Run a schedule file in random interleavings: the referee for the checker, which shares no code with it.

A program is read from MSCCL XML (``xml_program``) or an MSCCL++ plan (``plan_program``). A run builds a machine: memory,
and one generator per thread block that yields after every memory action, or yields the key it must wait for. The
scheduler picks a runnable thread at random, in one of several styles. Values are sums of random 61-bit numbers, one per
(rank, chunk) of input and one per uninitialised location, so equal sums mean equal multisets but for a chance of 2^-60;
``exact=True`` uses multisets instead, to name what is missing or doubled.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

STYLES = ("uniform", "burst", "rush", "starve", "priority")


@dataclass(frozen=True)
class Outcome:
    """What one run, or the first failing run, showed."""

    kind: Literal["done", "stuck", "wrong", "unreadable"]
    detail: str = ""
    seed: int | None = None
    actions: int = 0

    @property
    def done(self) -> bool:
        """Whether the run ended with the right contents."""
        return self.kind == "done"


class Unreadable(Exception):
    """The file cannot be executed at all."""


class Fault(Exception):
    """An access outside the buffers."""


class Bag(Counter[Any]):
    """A multiset that adds with +, keeping every count."""

    def __add__(self, other: Any) -> Bag:
        total = Bag(self)
        total.update(other)
        return total


class Values:
    """Makes the value of an input chunk, or of a location nobody has written."""

    def __init__(self, rng: random.Random, exact: bool) -> None:
        self.rng, self.exact = rng, exact
        self.inputs: dict[tuple[int, int, int], Any] = {}

    def contribution(self, rank: int, chunk: int, grain: int) -> Any:
        """The input of a rank at a chunk (and grain of it)."""
        key = (rank, chunk, grain)
        if key not in self.inputs:
            self.inputs[key] = Bag([(rank, chunk)]) if self.exact else self.rng.getrandbits(61)
        return self.inputs[key]

    def poison(self, where: str) -> Any:
        """What a location holds before anything is written to it."""
        return Bag([f"uninitialised {where}"]) if self.exact else self.rng.getrandbits(61)


@dataclass(frozen=True)
class Buffers:
    """Where the chunks of each rank's i, o and s lie in one flat memory, of ``grains`` locations per chunk.

    ``chunks`` is the number of chunks of the whole collective; in place, i and o share locations as the collective says.
    """

    collective: str
    ranks: int
    chunks: int
    scratch: Sequence[int]
    in_place: bool
    grains: int = 1
    base: dict[tuple[int, str], int] = field(default_factory=dict)
    size: dict[tuple[int, str], int] = field(default_factory=dict)
    total: int = 0

    @classmethod
    def layout(
        cls, collective: str, ranks: int, chunks: int, scratch: Sequence[int], in_place: bool, grains: int = 1
    ) -> Buffers:
        """Place the buffers one after the other."""
        base: dict[tuple[int, str], int] = {}
        size: dict[tuple[int, str], int] = {}
        part = chunks // ranks
        end = 0
        for rank in range(ranks):
            sizes = {"i": chunks, "o": chunks}
            if collective in ("allgather", "gather"):
                sizes["i"] = part
            elif collective in ("reducescatter", "scatter"):
                sizes["o"] = part
            whole, piece = ("o", "i") if sizes["i"] < sizes["o"] else ("i", "o")
            base[rank, whole] = end
            end += chunks * grains
            if in_place and collective != "custom":
                base[rank, piece] = base[rank, whole] + (rank * part * grains if sizes[piece] < chunks else 0)
            else:
                base[rank, piece] = end
                end += sizes[piece] * grains
            base[rank, "s"] = end
            end += scratch[rank] * grains
            for name, count in (("i", sizes["i"]), ("o", sizes["o"]), ("s", scratch[rank])):
                size[rank, name] = count * grains
        return cls(collective, ranks, chunks, scratch, in_place, grains, base, size, end)

    def fill(self, values: Values) -> list[Any]:
        """The memory before the first step: inputs, and poison everywhere else."""
        memory: list[Any] = [None] * self.total
        for (rank, name), start in self.base.items():
            if name == "i":
                for k in range(self.size[rank, name]):
                    memory[start + k] = values.contribution(rank, k // self.grains, k % self.grains)
        for (rank, name), start in self.base.items():
            for k in range(self.size[rank, name]):
                if memory[start + k] is None:
                    memory[start + k] = values.poison(f"{name}[{k // self.grains}] of rank {rank}")
        return memory

    def expected(self, values: Values, root: int) -> Iterator[tuple[int, str, int, Any]]:
        """(rank, buffer, location in it, value) for everything the collective promises."""
        part = self.chunks // self.ranks
        everyone = range(self.ranks)
        for k in range(self.chunks * self.grains):
            chunk, grain = divmod(k, self.grains)
            owner, j = divmod(chunk, part) if part else (0, 0)
            at_owner = j * self.grains + grain

            def total(chunk: int = chunk, grain: int = grain) -> Any:
                parts = [values.contribution(rank, chunk, grain) for rank in everyone]
                result = parts[0]
                for value in parts[1:]:
                    result = result + value
                return result

            if self.collective == "allreduce":
                want = total()
                yield from ((rank, "o", k, want) for rank in everyone)
            elif self.collective == "reduce":
                yield root, "o", k, total()
            elif self.collective == "broadcast":
                want = values.contribution(root, chunk, grain)
                yield from ((rank, "o", k, want) for rank in everyone)
            elif self.collective == "allgather":
                want = values.contribution(owner, j, grain)
                yield from ((rank, "o", k, want) for rank in everyone)
            elif self.collective == "gather":
                yield root, "o", k, values.contribution(owner, j, grain)
            elif self.collective == "scatter":
                yield owner, "o", at_owner, values.contribution(root, chunk, grain)
            elif self.collective == "reducescatter":
                yield owner, "o", at_owner, total()
            elif self.collective == "alltoall":
                for rank in everyone:
                    yield rank, "o", k, values.contribution(owner, rank * part + j, grain)
        if not self.in_place and self.collective != "custom":
            for rank in everyone:
                for k in range(self.size[rank, "i"]):
                    yield rank, "i", k, values.contribution(rank, k // self.grains, k % self.grains)

    def mismatch(self, memory: list[Any], values: Values, root: int) -> str:
        """The first location that does not hold what the collective promises; empty when all do."""
        for rank, name, k, want in self.expected(values, root):
            got = memory[self.base[rank, name] + k]
            if got != want:
                where = f"{name}[{k // self.grains}] on rank {rank}"
                return f"{where}: expected {show(want)}, got {show(got)}" if values.exact else f"{where}: wrong value"
        return ""


def show(bag: Any) -> str:
    """A multiset in a few words."""
    items = sorted(f"{n} x {key}" if n > 1 else f"{key}" for key, n in bag.items())
    return "{" + ", ".join(items[:12]) + (", ..." if len(items) > 12 else "") + "}"


class Scheduler:
    """Runs generators at random. A generator yields None after an action, or the key it waits for."""

    def __init__(self, rng: random.Random, style: str) -> None:
        if style not in STYLES:
            raise ValueError(f"style {style}: expected one of {', '.join(STYLES)}")
        self.rng, self.style = rng, style
        self.ready: list[int] = []
        self.parked: dict[Any, list[int]] = {}
        self.threads: list[Iterator[Any]] = []
        self.required: list[bool] = []
        self.names: list[str] = []
        self.actions = 0

    def add(self, thread: Iterator[Any], name: str, required: bool = True) -> None:
        """Add a thread; one that is not required may still be waiting at the end (a proxy, a store buffer)."""
        self.ready.append(len(self.threads))
        self.threads.append(thread)
        self.names.append(name)
        self.required.append(required)

    def wake(self, key: Any) -> None:
        """Let the threads that wait for a key look again."""
        waiting = self.parked.pop(key, None)
        if waiting:
            self.ready.extend(waiting)

    def picker(self) -> Callable[[], tuple[int, int]]:
        """The style as a function that gives a position in ``ready`` and how many actions to run there."""
        rng, ready, number = self.rng, self.ready, self.rng.random
        n = len(self.threads)
        victims = set(rng.sample(range(n), rng.randint(1, max(1, n // 4)))) if n else set()
        priority = [number() for _ in range(n)]

        def uniform() -> tuple[int, int]:
            return int(number() * len(ready)), 1

        def burst() -> tuple[int, int]:
            return int(number() * len(ready)), 1 + int(30 * number() ** 3)

        def rush() -> tuple[int, int]:
            return int(number() * len(ready)), 1 << 40

        def starve() -> tuple[int, int]:
            for _ in range(6):
                i = int(number() * len(ready))
                if ready[i] not in victims:
                    return i, 8
            for i, t in enumerate(ready):
                if t not in victims:
                    return i, 8
            return int(number() * len(ready)), 1

        def by_priority() -> tuple[int, int]:
            best = max(range(len(ready)), key=lambda i: priority[ready[i]])
            if number() < 0.02:
                priority[ready[best]] = number() - 1.0
            return best, 1 + int(20 * number())

        return {"uniform": uniform, "burst": burst, "rush": rush, "starve": starve, "priority": by_priority}[self.style]

    def run(self) -> str:
        """Run until no thread can move; returns who is stuck, or an empty string."""
        ready, threads, parked = self.ready, self.threads, self.parked
        pick = self.picker()
        actions = 0
        while ready:
            i, count = pick()
            t = ready[i]
            step = threads[t].__next__
            try:
                while count:
                    key = step()
                    actions += 1
                    if key is not None:
                        ready[i] = ready[-1]
                        ready.pop()
                        parked.setdefault(key, []).append(t)
                        break
                    count -= 1
            except StopIteration:
                ready[i] = ready[-1]
                ready.pop()
        self.actions = actions
        stuck = [f"{self.names[t]} waits for {key}" for key, ts in parked.items() for t in ts if self.required[t]]
        return "; ".join(sorted(stuck)[:6])


class Program(Protocol):
    """A schedule that can be executed."""

    placements: tuple[bool, ...]
    """In place or not: what the file says it may be selected for."""
    collective: str

    def start(
        self, scheduler: Scheduler, values: Values, *, in_place: bool, size_bytes: int | None
    ) -> tuple[Buffers, list[Any], Callable[[], str]]:
        """Add the threads; returns the buffers, the memory and a check of what must be left at the end."""


def load(text: str) -> Program:
    """Read a program from the text of a file: MSCCL XML, MSCCL++ JSON."""
    if text.lstrip()[:1] == "{":
        from schedules.plan_program import read_plan

        return read_plan(text)
    from schedules.xml_program import read_xml

    return read_xml(text)


def run(
    program: Program | str,
    seed: int,
    *,
    size_bytes: int | None = None,
    style: str | None = None,
    in_place: bool | None = None,
    root: int = 0,
    exact: bool = False,
) -> Outcome:
    """One random interleaving.

    ``size_bytes`` is the size of the collective's whole buffer, which decides how steps are cut into messages and how
    many fit in a connection; None takes connections without bound, and cuts messages at random. Without a style or a
    placement the seed decides.
    """
    outcome, _ = run_memory(
        program, seed, size_bytes=size_bytes, style=style, in_place=in_place, root=root, exact=exact
    )
    return outcome


def run_memory(
    program: Program | str,
    seed: int,
    *,
    size_bytes: int | None,
    style: str | None,
    in_place: bool | None,
    root: int,
    exact: bool,
    inputs: int | None = None,
) -> tuple[Outcome, list[Any]]:
    """As ``run``; also the contents of all outputs. ``inputs`` seeds the values apart from the order."""
    try:
        if isinstance(program, str):
            program = load(program)
        rng = random.Random(seed)
        style = style or STYLES[seed % len(STYLES)]
        if in_place is None:
            in_place = program.placements[seed // len(STYLES) % len(program.placements)]
        scheduler = Scheduler(rng, style)
        values = Values(random.Random(f"values {seed if inputs is None else inputs}"), exact)
        buffers, memory, left_over = program.start(scheduler, values, in_place=in_place, size_bytes=size_bytes)
        stuck = scheduler.run()
    except Unreadable as error:
        return Outcome("unreadable", str(error), seed), []
    except Fault as error:
        return Outcome("wrong", str(error), seed), []
    if stuck:
        return Outcome("stuck", stuck, seed, scheduler.actions), []
    wrong = buffers.mismatch(memory, values, root) or left_over()
    if wrong:
        return Outcome("wrong", wrong, seed, scheduler.actions), []
    outputs = [
        memory[start + k]
        for (rank, name), start in buffers.base.items()
        if name == "o"
        for k in range(buffers.size[rank, name])
    ]
    return Outcome("done", "", seed, scheduler.actions), outputs


def runs(
    program: Program | str,
    count: int,
    seed0: int = 0,
    *,
    size_bytes: int | None = None,
    root: int = 0,
) -> Outcome:
    """Several interleavings: the first that fails, with what is missing or doubled where that can be named, or done.

    A collective without a postcondition (custom) fails when two orders leave different outputs.
    """
    actions = 0
    first: list[Any] | None = None
    try:
        if isinstance(program, str):
            program = load(program)
    except Unreadable as error:
        return Outcome("unreadable", str(error))
    for seed in range(seed0, seed0 + count):
        settings: dict[str, Any] = {"size_bytes": size_bytes, "style": None, "in_place": None, "root": root}
        custom = program.collective == "custom"
        outcome, outputs = run_memory(program, seed, exact=False, inputs=0 if custom else None, **settings)
        actions += outcome.actions
        if outcome.kind == "wrong":
            named = run(program, seed, exact=True, **settings)
            return Outcome("wrong", named.detail if named.kind == "wrong" else outcome.detail, seed, actions)
        if not outcome.done:
            return outcome
        if custom:
            if first is not None and first != outputs:
                return Outcome("wrong", "the outputs depend on the order of execution", seed, actions)
            first = outputs
    return Outcome("done", "", None, actions)
