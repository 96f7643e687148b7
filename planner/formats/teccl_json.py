"""TE-CCL schedules: JSON whose flows are sentences, as in "Chunk 0 from 9 traveled over 9->5 in epoch 0".

Source: the schedules that TE-CCL publishes, and its solvers. Volumes are parts of a chunk; switches on the way are named, and hold nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.checked import listed, mapping, member

KEY = "7-Flows"
MAX_FLOWS = 5_000_000
_NUMBER = r"(\d{1,7})"
_FLOW = re.compile(
    rf"Chunk {_NUMBER} from {_NUMBER} traveled over {_NUMBER}->{_NUMBER}"
    rf"(?: with volume ([0-9.]{{1,40}}(?:e[+-]?\d{{1,3}})?))? in epoch {_NUMBER}(?: via switch(?:es)? ([0-9]+(?:->[0-9]+)*))?"
)
_DEMAND = re.compile(rf"Demand at {_NUMBER} for chunk {_NUMBER} from {_NUMBER} met by epoch {_NUMBER}")


@dataclass(frozen=True)
class Flow:
    """A flow: chunk ``chunk`` of GPU ``origin`` over a link, by way of switches, in an epoch."""

    chunk: int
    origin: int
    source: int
    target: int
    epoch: int
    volume: Fraction
    switches: tuple[int, ...]
    line: int | None


@dataclass(frozen=True)
class TecclSchedule:
    """A schedule: its flows, and who must have which chunk, as (origin, chunk, GPU) with the epochs that the file says it takes."""

    flows: tuple[Flow, ...]
    demands: dict[tuple[int, int, int], float]
    epochs: int | None


def read_teccl(document: dict[str, Any], text: str) -> TecclSchedule:
    """Read a schedule.

    Raises
    ------
    InvalidInput
        When it is none; one line with the place.
    """
    rows = listed(member(document, KEY, "the schedule"), KEY)
    if len(rows) > MAX_FLOWS:
        raise InvalidInput(f"{KEY}: more than {MAX_FLOWS:,} flows")
    lines = _lines(text)
    flows = []
    for k, row in enumerate(rows):
        match = _FLOW.fullmatch(row) if isinstance(row, str) else None
        if match is None:
            raise InvalidInput(
                f"{KEY}[{k}]: {str(row)[:60]!r}: expected 'Chunk c from s traveled over a->b [with volume v] in epoch e [via switches ...]'"
            )
        try:
            size = float(match[5] or 1)
            volume = Fraction(match[5] or 1) if 1e-9 <= size <= 1e6 else None
        except ValueError:
            volume = None
        if volume is None:
            raise InvalidInput(f"{KEY}[{k}]: volume {match[5]}: expected a number above 0, up to 1000000")
        chunk, origin, source, target = (int(match[j]) for j in (1, 2, 3, 4))
        via = tuple(int(one[:9]) for one in match[7].split("->")) if match[7] else ()
        flows.append(Flow(chunk, origin, source, target, int(match[6]), volume, via, lines.get(row)))
    return TecclSchedule(
        tuple(flows),
        _demands(document),
        document.get("3-Epochs_Required") if isinstance(document.get("3-Epochs_Required"), int) else None,
    )


def _demands(document: dict[str, Any]) -> dict[tuple[int, int, int], float]:
    met = "6-Demand_Met"
    found: dict[tuple[int, int, int], float] = {}
    for source, targets in mapping(member(document, met, "the schedule"), met).items():
        origin = _numbered(source, "GPU", met)
        for target, chunks in mapping(targets, f"{met}.{source[:20]}").items():
            end = _numbered(target, "GPU", f"{met}.{source[:20]}")
            for chunk, epochs in mapping(chunks, f"{met}.{source[:20]}.{target[:20]}").items():
                number = _numbered(chunk, "Chunk", f"{met}.{source[:20]}.{target[:20]}")
                is_number = isinstance(epochs, int | float) and not isinstance(epochs, bool) and epochs == epochs
                found[origin, number, end] = float(epochs) if is_number else 0.0
    # Newer files say it in the names of the paths only.
    for name in document.get("8-Chunk paths") or {}:
        match = _DEMAND.fullmatch(name)
        if match is not None:
            key = int(match[3]), int(match[2]), int(match[1])
            found.setdefault(key, float(int(match[4]) + 1))
    if not found:
        raise InvalidInput(f"{met}: no demands")
    return found


def _numbered(text: str, kind: str, where: str) -> int:
    match = re.fullmatch(rf"{kind} (\d{{1,7}})", text)
    if match is None:
        raise InvalidInput(f"{where}: {text[:40]!r}: expected '{kind} <number>'")
    return int(match[1])


def _lines(text: str) -> dict[str, int]:
    """Return the line of each flow, where flows have lines of their own."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*"(Chunk \d[^"]*)"', line)
        if match is not None:
            found.setdefault(match[1], number)
    return found
