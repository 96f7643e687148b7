"""The plain shapes that a picture is made of, in pixels, and the colours of loads and stages."""

from __future__ import annotations

import colorsys
import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.drawing.layout import Bar, Curve, Point

MARGIN = 28.0
TEXT_WIDTH = 0.56
"""Of a letter, in font sizes: an upper estimate of the average."""

_STAGES = (
    "#a8d5ff", "#ffd59e", "#b8e6b8", "#f3b8d8", "#d3c2f5", "#ffe98a", "#9fe3dc", "#ffbfb0", "#cfd8a8", "#d9d9e3",
)  # fmt: skip
_HEAT = ((0.0, (143, 176, 208)), (0.4, (240, 178, 60)), (0.7, (236, 112, 36)), (1.0, (198, 12, 58)))


@dataclass(frozen=True, slots=True)
class Stroke:
    """One direction of a link (or of several, folded): its curves, the arrow heads at their ends, and how it is drawn.

    ``colour`` is None for a link that carries nothing.
    """

    links: tuple[int, ...]
    load: Fraction
    curves: tuple[Curve, ...]
    heads: tuple[tuple[Point, Point, Point], ...]
    colour: str | None
    width: float
    title: str


@dataclass(frozen=True, slots=True)
class Cell:
    """A seat, or a sample of the legend: a rounded rectangle around a middle; ``colour`` is None for a spare seat."""

    middle: Point
    size: tuple[float, float]
    colour: str | None
    title: str


@dataclass(frozen=True, slots=True)
class Words:
    """A line of text; ``at`` is on its baseline. The role is title, note, worker, switch, caption or key (of the legend)."""

    at: Point
    text: str
    size: float
    role: str
    anchor: str = "start"


@dataclass(frozen=True, slots=True)
class Scene:
    """A whole picture, in drawing order: strokes, bars, cells, words."""

    width: float
    height: float
    title: str
    strokes: tuple[Stroke, ...]
    bars: tuple[Bar, ...]
    cells: tuple[Cell, ...]
    words: tuple[Words, ...]
    samples: tuple[Stroke, ...]


def stroke(
    links: tuple[int, ...],
    curves: tuple[Curve, ...],
    load: Fraction,
    share: float,
    title: str,
    slender: float = 1.0,
) -> Stroke:
    """Return a stroke for a load that is ``share`` of the largest, with arrow heads if it is not zero."""
    if not load:
        return Stroke(links, load, curves, (), None, 1.2, title)
    width = (1.4 + 4.0 * share) * slender
    lines, heads = zip(*(_pointed(curve, width) for curve in curves), strict=True)
    return Stroke(links, load, lines, heads, heat(share), width, title)


def _pointed(curve: Curve, width: float) -> tuple[Curve, tuple[Point, Point, Point]]:
    """Return a curve that ends inside its arrow head (a blunt end would show on both sides of the tip), and the head."""
    back = curve.control or curve.start
    length = math.dist(back, curve.end) or 1.0
    way = (curve.end[0] - back[0]) / length, (curve.end[1] - back[1]) / length
    reach, half = 5.0 + 1.3 * width, 2.2 + 0.85 * width
    neck = curve.end[0] - way[0] * reach, curve.end[1] - way[1] * reach
    inside = curve.end[0] - way[0] * reach * 0.8, curve.end[1] - way[1] * reach * 0.8
    head = (
        curve.end,
        (neck[0] - way[1] * half, neck[1] + way[0] * half),
        (neck[0] + way[1] * half, neck[1] - way[0] * half),
    )
    return Curve(curve.start, inside, curve.control), head


def heat(share: float) -> str:
    """Return the colour of a load, given as its share of the largest: blue-grey, orange, red."""
    for (low, cool), (high, warm) in itertools.pairwise(_HEAT):
        if share <= high:
            part = (share - low) / (high - low)
            return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in zip(cool, warm, strict=True))
    return heat(1.0)


def stage_colour(digit: int) -> str:
    """Return the colour of a pipeline stage (or another group): light, for dark letters on it."""
    if digit < len(_STAGES):
        return _STAGES[digit]
    hue = digit * 0.61803398875 % 1.0  # the golden ratio keeps hues of neighbours apart, however many there are
    red, green, blue = colorsys.hls_to_rgb(hue, 0.8, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"
