"""The legend of a picture: what the colours of workers and the strokes of links mean."""

from __future__ import annotations

from fractions import Fraction

from fabric_plan.planner.drawing.labels import colour_dimension, load_text, unit_text
from fabric_plan.planner.drawing.layout import Curve, Point
from fabric_plan.planner.drawing.shapes import MARGIN, TEXT_WIDTH, Cell, Stroke, Words, stage_colour, stroke
from fabric_plan.planner.plan import PlacementPlan


class Legend:
    """Samples with their meaning, from left to right and on into further lines."""

    def __init__(self, width: float, top: float) -> None:
        self._right, self._x, self._y = width - MARGIN, MARGIN, top
        self.cells: list[Cell] = []
        self.words: list[Words] = []
        self.samples: list[Stroke] = []

    @property
    def bottom(self) -> float:
        """The lowest line that was written."""
        return self._y

    def stages(self, plan: PlacementPlan) -> None:
        """Add the colours of the workers."""
        strategy = plan.problem.strategy
        name = colour_dimension(strategy)
        if name is not None:
            count = strategy.size(name)
            for digit in range(min(count, 12)):
                self._stage(stage_colour(digit), f"{name.upper()} {digit}")
            if count > 12:
                self._word(f"… {name.upper()} {count - 1}", 0.0)
        if strategy.workers < len(plan.problem.fabric.seats):
            self._stage(None, "spare")
        self._break()

    def loads(self, loads: list[Fraction], unit: str) -> None:
        """Add up to five of the loads that occur, from the smallest to the largest."""
        if not loads:
            return
        largest = loads[-1]
        steps = range(1, 6)
        picked = sorted({min(loads, key=lambda one: abs(one - largest * k / 5)) for k in steps})
        for load in loads if len(loads) <= len(steps) else picked:
            text = f"{load_text(load, unit)}{unit_text(unit, load)}"
            at = self._room(38, text)
            line = Curve((at[0], at[1] - 4), (at[0] + 30, at[1] - 4))
            self.samples.append(stroke((), (line,), load, float(load / largest), text))
            self._word(text, 38)
        self._break()

    def note(self, text: str) -> None:
        """Add a line of its own."""
        self._word(text, 0.0)
        self._break()

    def _stage(self, colour: str | None, text: str) -> None:
        x, y = self._room(26, text)
        self.cells.append(Cell((x + 9, y - 4.5), (18.0, 14.0), colour, text))
        self._word(text, 26)

    def _room(self, sample: float, text: str) -> Point:
        """Return where the next entry goes, on a new line when this one is full."""
        if self._x > MARGIN and self._x + sample + len(text) * 12 * TEXT_WIDTH > self._right:
            self._break()
        return self._x, self._y

    def _word(self, text: str, sample: float) -> None:
        self._room(sample, text)
        self.words.append(Words((self._x + sample, self._y), text, 12, "key"))
        self._x += sample + len(text) * 12 * TEXT_WIDTH + 18

    def _break(self) -> None:
        if self._x > MARGIN:
            self._x, self._y = MARGIN, self._y + 21
