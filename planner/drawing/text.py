"""Placements as text: workers at their seats, and between them the load of each cable, for a terminal.

Between two seats stands the larger of the loads of its two directions; a plain line is a cable that carries nothing.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.drawing.labels import (
    hottest,
    load_text,
    loads_of,
    phase_of,
    printable,
    report_of,
    seated,
    unit_text,
)
from fabric_plan.planner.drawing.layout import slice_name
from fabric_plan.planner.drawing.tiers import tiers
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.plan import PlacementPlan

MAX_SEATS = 400
SPARE, LINE, BAR = "·", "─", "│"
_PLAIN = str.maketrans({SPARE: ".", LINE: "-", BAR: "|", "…": "~", "≤": "<="})
_HOT = ("\x1b[1;31m", "\x1b[0m")
_BETWEEN_SLICES = 4


def grid(plan: PlacementPlan, *, width: int = 100, phase: str = "all", styled: bool = False) -> str:
    """Return a simulated plan as lines of text, or a note where it does not fit.

    Parameters
    ----------
    width
        Columns of the terminal.
    phase
        The name of a phase of the plan's report, or ``all`` for all phases together.
    styled
        Mark the hottest links in bold red, with the control sequences of a terminal.

    Raises
    ------
    InvalidInput
        For an unknown phase or a plan without a report.
    """
    drawing = _Drawing(plan, phase)
    fabric = plan.problem.fabric
    if len(fabric.seats) > MAX_SEATS:
        return f"(not drawn: {len(fabric.seats):,} NPUs; fabric-plan show PLAN -o plan.html draws them)"
    if any(node.kind != "npu" for node in fabric.nodes):
        lines = drawing.tiers(width)
    elif not fabric.shape:
        lines = drawing.rows(width)
    else:
        lines = drawing.line(width) if len(fabric.shape) == 1 else drawing.slices(width)
    if max(map(_length, lines)) > width:
        return f"(not drawn: it needs more than {width} columns; fabric-plan show PLAN -o plan.html draws it)"
    notes = textwrap.wrap("; ".join(drawing.notes), width)
    return "\n".join([*(_joined(line, styled).rstrip() for line in lines), *notes])


def plain(text: str) -> str:
    """Return a drawing in ASCII letters, for a terminal that has no others."""
    return text.translate(_PLAIN)


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    hot: bool = False


_Line = list[_Piece]


def _length(line: _Line) -> int:
    return sum(len(piece.text) for piece in line)


def _joined(line: _Line, styled: bool) -> str:
    return "".join(f"{_HOT[0]}{one.text}{_HOT[1]}" if styled and one.hot else one.text for one in line)


class _Drawing:
    """What all forms need: the names on the seats, and the loads between each two seats."""

    def __init__(self, plan: PlacementPlan, phase: str) -> None:
        self.plan, self.phase = plan, phase
        self.notes: list[str] = []
        self.fabric: Fabric = plan.problem.fabric
        self.found = phase_of(plan, phase)
        self.unit = report_of(plan).unit
        strategy, worker_on = plan.problem.strategy, seated(plan)
        # A name of one digit would look like a load.
        form = "[{}]" if len(strategy.dimensions) == 1 else "{}"
        names = {seat: form.format(strategy.name(worker)) for seat, worker in worker_on.items()}
        self.cell = max(map(len, names.values()))
        self.names = [names.get(seat, SPARE).center(self.cell) for seat in range(len(self.fabric.seats))]
        self.pairs = self._pairs()
        labels = [load_text(load, self.unit) for load in self.pairs.values() if load]
        self.in_percent = self.unit == "s" or max(map(len, labels), default=0) > 4
        self.label = max((len(self._load(load)) for load in self.pairs.values()), default=1)

    def _pairs(self) -> dict[tuple[int, int], Fraction]:
        """Return the load between each two seats that a cable joins: of its two directions the larger."""
        seat_of = {node: seat for seat, node in enumerate(self.fabric.seats)}
        loads = loads_of(self.found)
        pairs: dict[tuple[int, int], Fraction] = {}
        for index, link in enumerate(self.fabric.links):
            if link.source in seat_of and link.target in seat_of:
                low, high = sorted((seat_of[link.source], seat_of[link.target]))
                pairs[low, high] = max(pairs.get((low, high), Fraction(0)), loads.get(index, Fraction(0)))
        return pairs

    def _load(self, load: Fraction) -> str:
        if not load:
            return ""
        if self.in_percent:
            # "100" could be taken for a worker.
            return (
                "max" if load == self.found.max_load else str(min(99, max(1, round(100 * load / self.found.max_load))))
            )
        return load_text(load, self.unit)

    def across(self, a: int, b: int) -> _Piece:
        """Return what stands between two seats of a row."""
        load = self.pairs.get((min(a, b), max(a, b)))
        if load is None:
            return _Piece(" " * (self.label + 2))
        return self._piece(load, LINE + self._load(load).center(self.label, LINE) + LINE)

    def below(self, a: int, b: int) -> _Piece:
        """Return what stands between two seats of a column."""
        load = self.pairs.get((min(a, b), max(a, b)))
        if load is None:
            return _Piece(" " * self.cell)
        return self._piece(load, (self._load(load) or BAR).center(self.cell))

    def _piece(self, load: Fraction, text: str) -> _Piece:
        return _Piece(text, bool(load) and load == self.found.max_load)

    def _explain(self) -> None:
        """Note what the numbers are."""
        if not self.found.max_load:
            self.notes.append("no link carries anything")
            return
        numbers = self.unit
        if self.in_percent:
            largest = load_text(self.found.max_load, self.unit) + unit_text(self.unit, self.found.max_load)
            numbers = f"% of the largest load (max), {largest}"
        alone = "" if self.phase.lower() == "all" else f" of {self.found.name.upper()} alone"
        self.notes.append(f"on the links: {numbers}{alone}, the larger direction")

    def line(self, width: int) -> list[_Line]:
        """Draw one axis: rows of seats, each row's last link leading to the next row."""
        count = len(self.fabric.seats)
        columns = max(1, width // (self.cell + self.label + 2))
        lines: list[_Line] = []
        for start in range(0, count, columns):
            line: _Line = []
            for seat in range(start, min(start + columns, count)):
                line.append(_Piece(self.names[seat]))
                if seat + 1 < count or count > 2:
                    line.append(self.across(seat, (seat + 1) % count))
            lines.append(line)
        self._explain()
        if count > 2 and (0, count - 1) in self.pairs:
            self.notes.append("the last seat is joined to the first")
        return lines

    def slices(self, width: int) -> list[_Line]:
        """Draw two axes as rows and columns, and a block for each position on the others."""
        *leading, rows, columns = self.fabric.shape
        count = math.prod(leading)
        wraps = self._wrapped(rows, columns)
        linked = self.cell * columns + (self.label + 2) * (columns - 1 + wraps[0]) <= width
        blocks = [self._block(index * rows * columns, rows, columns, linked) for index in range(count)]
        if linked:
            self._explain()
            self.notes += ["at the rim they wrap around"] if any(wraps) else []
        else:
            self.notes += ["links do not fit and are left out", hottest(self.plan, self.phase)]
        if count > 1:
            blocks = [[[_Piece(self._caption(index, rows * columns))], *block] for index, block in enumerate(blocks)]
        return _side_by_side(blocks, width)

    def _wrapped(self, rows: int, columns: int) -> tuple[bool, bool]:
        """Return whether links of the first slice wrap around at the end of rows, and of columns."""
        ends = (0, columns - 1), (0, (rows - 1) * columns)
        return columns > 2 and ends[0] in self.pairs, rows > 2 and ends[1] in self.pairs

    def _caption(self, index: int, size: int) -> str:
        leaving = [
            load for (a, b), load in self.pairs.items() if a // size != b // size and index in (a // size, b // size)
        ]
        most = max(leaving, default=Fraction(0))
        other = f" (to others: up to {self._load(most)})" if most else ""
        return slice_name(index, self.fabric.shape) + other

    def _block(self, first: int, rows: int, columns: int, linked: bool) -> list[_Line]:
        def seat(row: int, column: int) -> int:
            return first + row % rows * columns + column % columns

        wraps = self._wrapped(rows, columns)
        lines: list[_Line] = []
        for row in range(rows):
            line: _Line = []
            under: _Line = []
            for column in range(columns):
                line.append(_Piece(self.names[seat(row, column)]))
                if not linked:
                    line.append(_Piece(" "))
                    continue
                if column < columns - 1 or wraps[0]:
                    line.append(self.across(seat(row, column), seat(row, column + 1)))
                under += [self.below(seat(row, column), seat(row + 1, column)), _Piece(" " * (self.label + 2))]
            lines.append(line)
            if linked and (row < rows - 1 or wraps[1]):
                lines.append(under[:-1])
        return lines

    def rows(self, width: int) -> list[_Line]:
        """Draw seats that have no grid: their names in order, each row headed by the name of its first seat."""
        heads = [printable(self.fabric.seat_name(seat), 24) for seat in range(len(self.fabric.seats))]
        margin = max(map(len, heads)) + 2
        columns = min(16, max(1, (width - margin) // (self.cell + 1)))
        self.notes.append(hottest(self.plan, self.phase))
        return [
            [_Piece(heads[start].ljust(margin)), _Piece(" ".join(self.names[start : start + columns]))]
            for start in range(0, len(heads), columns)
        ]

    def tiers(self, width: int) -> list[_Line]:
        """Draw a row for each leaf switch: the workers below it, and the largest loads of its links."""
        found = tiers(self.fabric)
        heads = [found.label(self.fabric, block.box) for block in found.blocks]
        tails = [self._switch_loads(found.boxes[block.box] if block.box is not None else ()) for block in found.blocks]
        margin = max(map(len, heads)) + 2
        widest = max(len(block.seats) for block in found.blocks)
        fitting = max(1, (width - margin - max(map(_length, tails))) // (self.cell + 1))
        even = [columns for columns in range(math.ceil(fitting / 2), fitting + 1) if widest % columns == 0]
        columns = widest if widest <= fitting else max(even, default=fitting)
        lines: list[_Line] = []
        for head, tail, block in zip(heads, tails, found.blocks, strict=True):
            for start in range(0, len(block.seats), columns):
                names = "".join(self.names[seat] + " " for seat in block.seats[start : start + columns])
                first = [_Piece(head.ljust(margin)), _Piece(names.ljust(columns * (self.cell + 1))), *tail]
                lines.append(first if not start else [_Piece(" " * margin), _Piece(names)])
        self.notes.append(hottest(self.plan, self.phase))
        return lines

    def _switch_loads(self, switches: Collection[int]) -> _Line:
        """Return the largest load between switches and their NPUs, and between them and further switches."""
        most: dict[str, Fraction] = {}
        loads = loads_of(self.found)
        for index, link in enumerate(self.fabric.links):
            other = link.target if link.source in switches else link.source if link.target in switches else None
            if other is not None and (load := loads.get(index)):
                where = "NPU" if self.fabric.nodes[other].kind == "npu" else "switch"
                most[where] = max(most.get(where, Fraction(0)), load)
        line: _Line = []
        for where, load in sorted(most.items()):
            line += [_Piece(f" {where} links ≤ "), self._piece(load, load_text(load, self.unit))]
        return line


def _side_by_side(blocks: Sequence[list[_Line]], width: int) -> list[_Line]:
    """Return blocks of lines beside one another, as many as fit, the others below."""
    if len(blocks) == 1:
        return list(blocks[0])
    room = max(_length(line) for block in blocks for line in block) + _BETWEEN_SLICES
    across = max(1, (width + _BETWEEN_SLICES) // room)
    lines: list[_Line] = []
    for start in range(0, len(blocks), across):
        if start:
            lines.append([])
        for parts in zip(*blocks[start : start + across], strict=True):
            line: _Line = []
            for part in parts:
                line += [*part, _Piece(" " * (room - _length(part)))]
            lines.append(line[:-1])
    return lines
