"""Logs of nccl-tests and rccl-tests: sizes and times, out of place.

A row is size, count, type, redop, root, then time (us), algbw, busbw and errors, out of place and in place; older versions
leave redop and root blank, or out. Lines of comment begin with #, and may name the test and its ranks; lines may carry a
launcher's prefix, as "[1,0]<stdout>:".
A table of two columns under the header ``size,time_us`` is read as well; nothing but rows and comments may follow that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput

_PREFIX = re.compile(r"^\s*\[[0-9]+,[0-9]+\]<std(?:out|err)>:\s?|^\s*[0-9]+:\s")
_RANK = re.compile(r"^#\s+Rank\s+([0-9]+)\b")
_TEST = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|gather|scatter|sendrecv)_perf(?:_mpi)?\b"
)
_NUMBER = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:[eE][-+]?[0-9]{1,2})?")
_WHOLE = re.compile(r"[0-9]+")
_TESTS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "sendrecv": "point-to-point",
}


@dataclass(frozen=True)
class Log:
    """A measured curve: ``points`` are (bytes, seconds) by ascending size; what the log does not say is None."""

    collective: str | None
    ranks: int | None
    points: tuple[tuple[int, Fraction], ...]


def parse_log(text: str, where: str) -> Log:
    """Read a log; of several measurements of a size the median counts.

    Raises
    ------
    InvalidInput
        Naming the file and line that cannot be read, or that there is no measurement at all.
    """
    ranks: set[int] = set()
    collective: str | None = None
    times: dict[int, list[Fraction]] = {}
    header: list[str] | None = None
    table = False  # whether the header is that of a plain table, in which nobody talks between the rows
    measured: str | None = None  # the test that the rows so far are of
    for number, raw in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        line = _PREFIX.sub("", raw, count=1).strip()
        named = {_TESTS.get(test, test) for test in _TEST.findall(line)}
        if len(named) == 1:  # a line of several is a script's list of them
            (collective,) = named
        if line.startswith("#"):
            rank = _RANK.match(line)
            if rank is not None:
                ranks.add(int(rank[1]))
            words = line[1:].split()
            if words[:1] == ["size"] and "time" in words:
                header, table = words, False
            continue
        if not line:
            continue
        cells = re.split(r"[,\s]+", line)
        if [cell.lower() for cell in cells[:2]] == ["size", "time_us"]:
            header, table = ["size", "time", *cells[2:]], True
            continue
        at = f"{where}: line {number}"
        if not _WHOLE.fullmatch(cells[0]):
            if table or _is_row(cells):
                raise InvalidInput(f"{at}: size {cells[0]!r} is not a whole number of bytes")
            continue  # what libraries and launchers say between the rows
        if header is None:
            raise InvalidInput(f"{at}: a row before any header: expected nccl-tests' header, or size,time_us")
        blank = len(header) - len(cells)
        if blank > sum(word in ("redop", "root") for word in header):
            raise InvalidInput(f"{at}: {len(cells)} columns, but the header has {len(header)}: is the line cut off?")
        if table and blank < 0:  # 1,048,576 would be read as one byte
            raise InvalidInput(
                f"{at}: {len(cells)} columns, but the header has {len(header)}: write 1048576, not 1,048,576"
            )
        column = header.index("time") - max(0, blank)
        if measured not in (None, collective):
            raise InvalidInput(f"{at}: a row of {collective} after rows of {measured}: give a log of one test")
        measured = collective
        if not _NUMBER.fullmatch(cells[column]) or Fraction(cells[column]) <= 0:
            raise InvalidInput(f"{at}: time {cells[column]!r} is not a number of microseconds greater than zero")
        if len(cells[0]) > 18:
            raise InvalidInput(f"{at}: size {cells[0]} is more than any buffer holds")
        if int(cells[0]) > 0:
            times.setdefault(int(cells[0]), []).append(Fraction(cells[column]) / 10**6)
    if not times:
        raise InvalidInput(
            f"{where}: no measurement found: expected the output of nccl-tests, or rows under size,time_us"
        )
    points = tuple((size, sorted(found)[len(found) // 2]) for size, found in sorted(times.items()))
    return Log(collective, max(ranks) + 1 if ranks else None, points)


def _is_row(cells: list[str]) -> bool:
    """Return whether a line is a row by all but its size: a count, a type, and a time with two bandwidths after it."""
    numbers = [_NUMBER.fullmatch(cell) is not None for cell in cells]
    return numbers[1:3] == [True, False] and any(all(numbers[k : k + 3]) for k in range(3, len(cells) - 2))
