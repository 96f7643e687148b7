"""What the simulator runs: transfers over links as flat arrays, and the ticks that their times are counted in.

A transfer is a set of hops; each hop crosses one link once its parent hop has arrived (or, cut-through, once its head
has), or, if it has none, once every transfer that its own needs has finished. A chain of hops is a route, a tree is a
multicast, several chains are striped paths.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Link
from fabric_plan.planner.simulator.compiled import FROM_HOPS, compiled

Ints = NDArray[np.integer[Any]]

HORIZON = 2**61
"""No time in ticks reaches this, so that sums of two stay within 64 bits."""

MAX_HOPS = 2**30
"""Hops are numbered in 32 bits."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Smallest and largest size, whether some hop has a parent, whether all rows are ``fine`` (or not known), links used."""

    smallest: int
    largest: int
    relayed: bool
    fine: bool
    links: Ints


def _survey(
    hop_start: Any, hop_link: Any, hop_parent: Any, hop_size: Any, need_start: Any, need: Any, touched: Any
) -> tuple[Any, Any, Any, Any]:
    rows, hops, needs = len(hop_start) - 1, len(hop_link), len(need)
    low = high = hop_size[0]
    relayed = False
    fine = hop_start[0] == 0 and hop_start[rows] == hops and need_start[0] == 0 and need_start[rows] == needs
    if not fine:
        return low, high, True, False
    for row in range(rows):
        first, last = hop_start[row], hop_start[row + 1]
        if first > last or last > hops or need_start[row] > need_start[row + 1]:
            return low, high, True, False
        for hop in range(first, last):
            link, parent, size = hop_link[hop], hop_parent[hop], hop_size[hop]
            low, high = min(low, size), max(high, size)
            if link >= 0:
                touched[link] = True
            fine = fine and link >= 0 and parent < hop and (parent < 0 or parent >= first)
            relayed = relayed or parent >= 0
    for k in range(needs):
        fine = fine and 0 <= need[k] < rows
    return low, high, relayed, fine and low > 0


@dataclass(eq=False)
class Program:
    """Transfers in compressed rows.

    Parameters
    ----------
    hop_start
        ``hop_start[t]:hop_start[t + 1]`` are the hops of transfer t; shape (transfers + 1,).
    hop_link, hop_parent, hop_size
        By hop: the link it crosses; the hop before it, of the same transfer and with a smaller number, or -1; and what it
        carries, in whole numbers of 1/``scale`` bytes, greater than zero.
    need_start, need
        ``need[need_start[t]:need_start[t + 1]]`` are the transfers that must have finished before transfer t begins.
    priority
        By transfer, 0 first; None where all are equal.
    release, after
        By transfer, in whole numbers of 1/``clock`` s: it begins no earlier than its release; it finishes so long after
        the arrival of its last hop (the receiver's reduction, say). None where all are zero.
    """

    hop_start: Ints
    hop_link: Ints
    hop_parent: Ints
    hop_size: Ints
    need_start: Ints
    need: Ints
    scale: int = 1
    clock: int = 1
    priority: Ints | None = None
    release: Ints | None = None
    after: Ints | None = None

    def __len__(self) -> int:
        return len(self.hop_start) - 1

    @property
    def hops(self) -> int:
        """How many hops all transfers have together."""
        return len(self.hop_link)

    @property
    def relayed(self) -> bool:
        """Whether some hop has a parent."""
        return self.survey.relayed

    @cached_property
    def survey(self) -> Survey:
        """What one look at every row finds; changes made afterwards are not seen."""
        if self.hops < FROM_HOPS:
            sizes = self.hop_size if self.hops else np.ones(1, dtype=np.int64)
            relayed = bool(self.hops) and int(self.hop_parent.max()) >= 0
            return Survey(int(sizes.min()), int(sizes.max()), relayed, False, np.unique(self.hop_link))
        columns = (self.hop_start, self.hop_link, self.hop_parent, self.hop_size, self.need_start, self.need)
        touched = np.zeros(max(0, int(self.hop_link.max())) + 1, dtype=np.bool_)
        low, high, relayed, fine = compiled(_survey)(*columns, touched)
        return Survey(int(low), int(high), bool(relayed), bool(fine), np.flatnonzero(touched))

    def check(self, links: int) -> None:
        """Raise InvalidInput, naming the first transfer that is wrong, unless every row makes sense on so many links."""
        rows, hops = len(self), self.hops
        consistent = len(self.hop_parent) == len(self.hop_size) == hops and len(self.need_start) == rows + 1
        plain = self.priority is None and self.release is None and self.after is None
        if consistent and plain and self.survey.fine and int(self.survey.links[-1]) < links:
            return
        for name, starts, length in (("hop", self.hop_start, hops), ("need", self.need_start, len(self.need))):
            if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != length or (np.diff(starts) < 0).any():
                raise InvalidInput(f"program: {name}_start does not cut the {length} {name}s into {rows} rows")
        if len(self.hop_parent) != hops or len(self.hop_size) != hops:
            raise InvalidInput("program: every hop needs a link, a parent and a size")
        for name, column in (("priority", self.priority), ("release", self.release), ("after", self.after)):
            if column is not None and (len(column) != rows or (rows and column.min() < 0)):
                raise InvalidInput(f"program: {name} must give one number, not negative, for each of {rows} transfers")
        if hops and (self.hop_link.min() < 0 or self.hop_link.max() >= links):
            hop = int(np.flatnonzero((self.hop_link < 0) | (self.hop_link >= links))[0])
            raise InvalidInput(
                f"transfer {self.owner(hop)} crosses link {self.hop_link[hop]}, which does not exist: "
                f"links go from 0 to {links - 1}"
            )
        if hops and self.hop_size.min() <= 0:
            hop = int(np.flatnonzero(self.hop_size <= 0)[0])
            raise InvalidInput(f"transfer {self.owner(hop)} carries {self.hop_size[hop]} bytes: it must carry some")
        if len(self.need) and (self.need.min() < 0 or self.need.max() >= rows):
            place = int(np.flatnonzero((self.need < 0) | (self.need >= rows))[0])
            transfer = int(np.searchsorted(self.need_start, place, side="right")) - 1
            raise InvalidInput(
                f"transfer {transfer} needs transfer {self.need[place]}, which does not exist: "
                f"transfers go from 0 to {rows - 1}"
            )
        if self.relayed:
            first = np.repeat(self.hop_start[:-1], np.diff(self.hop_start))
            wrong = (self.hop_parent >= np.arange(hops)) | ((self.hop_parent >= 0) & (self.hop_parent < first))
            if wrong.any():
                hop = int(np.flatnonzero(wrong)[0])
                raise InvalidInput(f"transfer {self.owner(hop)}: a hop's parent must be an earlier hop of the transfer")

    def owner(self, hop: int) -> int:
        """Return the transfer that a hop belongs to."""
        return int(np.searchsorted(self.hop_start, hop, side="right")) - 1


@dataclass(slots=True)
class Builder:
    """Collects a program transfer by transfer; see :class:`Program`."""

    scale: int = 1
    hop_start: list[int] = field(default_factory=lambda: [0])
    hop_link: list[int] = field(default_factory=list)
    hop_parent: list[int] = field(default_factory=list)
    hop_size: list[int] = field(default_factory=list)
    need_start: list[int] = field(default_factory=lambda: [0])
    need: list[int] = field(default_factory=list)
    priority: list[int] = field(default_factory=list)

    def add(self, hops: Iterable[tuple[int, int]], size: int, needs: Sequence[int] = (), *, priority: int = 0) -> int:
        """Append a transfer and return its number.

        ``hops`` are pairs (link, parent), parents counted from this transfer's first hop (-1 for none); every hop
        carries ``size``.
        """
        first = len(self.hop_link)
        for link, parent in hops:
            self.hop_link.append(link)
            self.hop_parent.append(parent if parent < 0 else first + parent)
            self.hop_size.append(size)
        self.hop_start.append(len(self.hop_link))
        self.need.extend(needs)
        self.need_start.append(len(self.need))
        self.priority.append(priority)
        return len(self.hop_start) - 2

    def program(self) -> Program:
        """Return what was collected."""
        try:
            sizes = np.array(self.hop_size, dtype=np.int64)
        except OverflowError:
            raise InvalidInput("the transfers' sizes have no common unit that fits 64 bits") from None
        return Program(
            hop_start=np.array(self.hop_start, dtype=np.int32),
            hop_link=np.array(self.hop_link, dtype=np.int32),
            hop_parent=np.array(self.hop_parent, dtype=np.int32),
            hop_size=sizes,
            need_start=np.array(self.need_start, dtype=np.int32),
            need=np.array(self.need, dtype=np.int32),
            scale=self.scale,
            priority=np.array(self.priority, dtype=np.int32) if any(self.priority) else None,
        )


@dataclass(frozen=True, eq=False)
class Timing:
    """A program's durations in ticks of 1/``per_second`` s.

    A hop holds its link for ``size[hop] * rate[link]`` ticks and arrives ``latency[link]`` later. ``error`` is the
    largest relative error of a duration, 0 where all are exact. No time passes ``longest``.
    """

    per_second: int
    error: float
    size: Ints
    rate: Ints
    latency: Ints
    release: Ints
    after: Ints
    longest: int

    def ticks(self, seconds: Fraction) -> int:
        """Return a time in ticks, rounded to the nearest, or the end of time where it is beyond."""
        return min(round(seconds * self.per_second), HORIZON)


def timing(program: Program, links: Sequence[Link], times: Iterable[Fraction] = ()) -> Timing:
    """Choose the ticks of a program on ``links``: exact where they fit 64 bits, else as fine as fits.

    Parameters
    ----------
    times
        Further points in time that must be whole ticks if possible.
    """
    used = program.survey.links.tolist()
    bandwidth = {link: links[link].bandwidth for link in used}
    latency = {link: links[link].latency for link in used}
    smallest, largest = program.survey.smallest, program.survey.largest
    step = smallest if smallest == largest else 1
    times = list(times)
    classes = set(bandwidth.values())
    base = math.lcm(program.clock, *(one.denominator for one in {*latency.values(), *times}))
    slowest = Fraction(largest, program.scale * min(classes, default=1)) + max(latency.values(), default=Fraction(0))
    # No transfer waits for longer than all the others take together; a quick bound on that mostly does.
    for total in (program.hops * slowest + _delays(program, times), None):
        bound = _total(program, bandwidth, latency) + _delays(program, times) if total is None else total
        for unit in dict.fromkeys((1, step, 0)):
            unit = unit or int(np.gcd.reduce(program.hop_size))
            ticks = base
            for one in classes:
                ticks = math.lcm(ticks, Fraction(unit, program.scale * one).denominator)
            if (bound + 1) * ticks < HORIZON:
                return _exact(program, len(links), bandwidth, latency, ticks, unit, bound)
    return _rounded(program, len(links), bandwidth, latency, bound)


def _delays(program: Program, times: Sequence[Fraction]) -> Fraction:
    """Return an upper bound on releases, receivers' delays and ``times`` taken one after another, in seconds."""
    total = max(times, default=Fraction(0))
    if program.release is not None and len(program):
        total += Fraction(int(program.release.max()), program.clock)
    if program.after is not None and len(program):
        total += Fraction(float(program.after.sum(dtype=np.float64))) * Fraction(1001, 1000) / program.clock
    return total


def _total(program: Program, bandwidth: dict[int, int], latency: dict[int, Fraction]) -> Fraction:
    """Return an upper bound on the time that all hops and delays take one after another, in seconds."""
    carried = np.bincount(program.hop_link, weights=program.hop_size, minlength=1) if program.hops else np.zeros(1)
    counts = np.bincount(program.hop_link, minlength=1) if program.hops else np.zeros(1, int)
    total = Fraction(0)
    sums: dict[tuple[int, Fraction], list[float]] = {}
    for link, rate in bandwidth.items():
        one = sums.setdefault((rate, latency[link]), [0.0, 0])
        one[0] += carried[link]
        one[1] += int(counts[link])
    for (rate, wait), (size, hops) in sums.items():
        total += Fraction(size) / (program.scale * rate) + int(hops) * wait
    return total * Fraction(1001, 1000)


def _exact(
    program: Program,
    links: int,
    bandwidth: dict[int, int],
    latency: dict[int, Fraction],
    ticks: int,
    unit: int,
    bound: Fraction,
) -> Timing:
    rate = np.zeros(links, dtype=np.int64)
    wait = np.zeros(links, dtype=np.int64)
    for link, one in bandwidth.items():
        rate[link] = ticks * unit // (program.scale * one)
        wait[link] = int(latency[link] * ticks)
    size = program.hop_size if unit == 1 else program.hop_size // unit
    factor = ticks // program.clock
    release, after = _scaled(program.release, factor), _scaled(program.after, factor)
    return Timing(ticks, 0.0, size, rate, wait, release, after, int(bound * ticks) + 1)


def _rounded(
    program: Program, links: int, bandwidth: dict[int, int], latency: dict[int, Fraction], total: Fraction
) -> Timing:
    """Round every duration to ticks of a power of ten of a second."""
    ticks = 10 ** (len(str(int(HORIZON / (total + 1)))) - 1)
    while (total + 1) * ticks * 10 < HORIZON:
        ticks *= 10
    per_byte = np.zeros(links)
    wait = np.zeros(links, dtype=np.int64)
    for link, one in bandwidth.items():
        per_byte[link] = ticks / (program.scale * one)
        wait[link] = round(latency[link] * ticks)
    length = np.maximum(np.rint(program.hop_size * per_byte[program.hop_link]), 1).astype(np.int64)
    error = 0.5 / max(1, int(length.min()))
    waits = [int(wait[link]) for link, one in latency.items() if one]
    if waits:
        error = max(error, 0.5 / max(1, min(waits)))
    factor = Fraction(ticks, program.clock)
    release, after = _scaled(program.release, factor), _scaled(program.after, factor)
    return Timing(ticks, error, length, np.ones(links, dtype=np.int64), wait, release, after, int(total * ticks) + 1)


def _scaled(column: Ints | None, factor: int | Fraction) -> Ints:
    if column is None:
        return np.zeros(0, dtype=np.int64)
    if isinstance(factor, int):
        return np.asarray(column * np.int64(factor), dtype=np.int64)
    return np.asarray(np.rint(column * float(factor)), dtype=np.int64)
