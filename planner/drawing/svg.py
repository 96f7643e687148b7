"""Pictures as SVG: one file that needs nothing else, with tooltips, for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable
from xml.sax.saxutils import escape as _escape

from fabric_plan.planner.drawing.labels import printable
from fabric_plan.planner.drawing.layout import Bar, Curve, Point
from fabric_plan.planner.drawing.picture import scene
from fabric_plan.planner.drawing.shapes import Cell, Scene, Stroke, Words
from fabric_plan.planner.plan import PlacementPlan

_STYLE = """
.fp-ground{fill:#fff}
.fp-link path{fill:none;stroke-linecap:butt}
.fp-idle path{stroke:#d3d9e0;stroke-linecap:round}
.fp-bar rect{fill:#dfe5ec}
.fp-cell rect{stroke:#5b6570;stroke-opacity:.55}
.fp-spare rect{fill:none;stroke:#9aa4b0;stroke-dasharray:4 3}
.fp-title{font-weight:600}
.fp-worker{font-weight:600;fill:#1b1f24}
.fp-title,.fp-switch{fill:#1b1f24}
.fp-note,.fp-caption,.fp-key{fill:#56606b}
@media (prefers-color-scheme:dark){
.fp-ground{fill:#14181d}
.fp-idle path{stroke:#353d46}
.fp-bar rect{fill:#2c353f}
.fp-spare rect{stroke:#5b6570}
.fp-title,.fp-switch{fill:#e8ecf1}
.fp-note,.fp-caption,.fp-key{fill:#a3adb8}
}
"""


def write_svg(plan: PlacementPlan, *, phase: str = "all") -> bytes:
    """Return the picture of a simulated plan as an SVG file.

    Parameters
    ----------
    phase
        The name of a phase of the plan's report, or ``all`` for all phases together.

    Raises
    ------
    InvalidInput
        As :func:`fabric_plan.planner.drawing.picture.scene`.
    """
    return standalone(scene(plan, phase=phase))


def standalone(picture: Scene) -> bytes:
    """Return a picture as an SVG file."""
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + render(picture)).encode()


def render(picture: Scene) -> str:
    """Return a picture as an ``<svg>`` element, which can also stand in an HTML page."""
    width, height = number(picture.width), number(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="fp-picture" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">',
        f"<title>{escape(picture.title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="fp-ground" width="{width}" height="{height}" rx="10"/>',
        *map(_stroke, picture.strokes),
        *map(_bar, picture.bars),
        *map(_cell, picture.cells),
        *map(_stroke, picture.samples),
        *map(_words, picture.words),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Return text for an element or an attribute, without letters that XML does not allow."""
    return _escape(printable(text, 4000), {'"': "&quot;"})


def number(value: float) -> str:
    """Return a coordinate with one decimal, and none where it is whole."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _points(points: Iterable[Point]) -> str:
    return " ".join(f"{number(x)},{number(y)}" for x, y in points)


def _path(curves: Iterable[Curve]) -> str:
    parts = []
    for curve in curves:
        way = f"L{_points([curve.end])}" if curve.control is None else f"Q{_points([curve.control, curve.end])}"
        parts.append(f"M{_points([curve.start])}{way}")
    return "".join(parts)


def _stroke(stroke: Stroke) -> str:
    path = _path(stroke.curves)
    if stroke.colour is None:
        return (
            f'<g class="fp-link fp-idle"><title>{escape(stroke.title)}</title>'
            f'<path d="{path}" stroke-width="{number(stroke.width)}"/></g>'
        )
    heads = "".join(f'<polygon points="{_points(head)}" fill="{stroke.colour}"/>' for head in stroke.heads)
    role = "fp-link" if stroke.links else "fp-link fp-sample"
    return (
        f'<g class="{role}" data-load="{stroke.load}"><title>{escape(stroke.title)}</title>'
        f'<path d="{path}" stroke="{stroke.colour}" stroke-width="{number(stroke.width)}"/>{heads}</g>'
    )


def _bar(bar: Bar) -> str:
    rectangles = "".join(
        f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" rx="5"/>'
        for x, y, width, height in bar.rectangles
    )
    return f'<g class="fp-bar"><title>{escape(bar.title)}</title>{rectangles}</g>'


def _cell(cell: Cell) -> str:
    (x, y), (width, height) = cell.middle, cell.size
    role, fill = ("fp-cell fp-spare", "") if cell.colour is None else ("fp-cell", f' fill="{cell.colour}"')
    return (
        f'<g class="{role}"><title>{escape(cell.title)}</title><rect x="{number(x - width / 2)}" '
        f'y="{number(y - height / 2)}" width="{number(width)}" height="{number(height)}" rx="{number(min(7, height / 4))}"{fill}/></g>'
    )


def _words(words: Words) -> str:
    anchor = "" if words.anchor == "start" else f' text-anchor="{words.anchor}"'
    return (
        f'<text class="fp-{words.role}" x="{number(words.at[0])}" y="{number(words.at[1])}" '
        f'font-size="{number(words.size)}"{anchor}>{escape(words.text)}</text>'
    )
