"""Line charts over sizes as SVG, for light and dark pages, with a tooltip on every point."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8a6d3b", "#4d4d4d", "#2f4b7c", "#a05195"
)  # fmt: skip

_STYLE = """
.ch-ground{fill:#fff}.ch-grid{stroke:#dfe5ec}.ch-text{fill:#56606b}.ch-title{fill:#1b1f24;font-weight:600}
@media (prefers-color-scheme:dark){
.ch-ground{fill:#14181d}.ch-grid{stroke:#353d46}.ch-text{fill:#a3adb8}.ch-title{fill:#e8ecf1}}
"""

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 860, 420, 78, 190, 36, 46


@dataclass(frozen=True)
class Series:
    """A line: its name, points (x, y) with x and y greater than zero, and whether it is dashed (a bound, say)."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_text: Callable[[float], str],
    y_text: Callable[[float], str],
    log_y: bool,
) -> str:
    """Return an ``<svg>`` element; the x axis is logarithmic."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points]
    low_x, high_x = math.log2(min(xs)), math.log2(max(xs))
    low_y, high_y = (math.log10(min(ys)), math.log10(max(ys))) if log_y else (0.0, max(ys) * 1.05)
    inner_x, inner_y = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM

    def at_x(x: float) -> float:
        return _LEFT + inner_x * (math.log2(x) - low_x) / ((high_x - low_x) or 1)

    def at_y(y: float) -> float:
        value = math.log10(y) if log_y else y
        return _TOP + inner_y * (1 - (value - low_y) / ((high_y - low_y) or 1))

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="ch-ground" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>',
        f'<text class="ch-title" x="{_LEFT}" y="22" font-size="14">{escape(title)}</text>',
    ]
    for x in _ticks_x(low_x, high_x):
        lines.append(f'<path class="ch-grid" d="M{at_x(x):.1f} {_TOP}v{inner_y}"/>')
        lines.append(
            f'<text class="ch-text" x="{at_x(x):.1f}" y="{_HEIGHT - 24}" text-anchor="middle">{escape(x_text(x))}</text>'
        )
    for y in _ticks_y(low_y, high_y, log_y):
        lines.append(f'<path class="ch-grid" d="M{_LEFT} {at_y(y):.1f}h{inner_x}"/>')
        lines.append(
            f'<text class="ch-text" x="{_LEFT - 8}" y="{at_y(y) + 4:.1f}" text-anchor="end">{escape(y_text(y))}</text>'
        )
    for index, one in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if one.dashed else ""
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in one.points)
        lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, y in one.points:
            told = escape(f"{one.name}: {x_text(x)}, {y_text(y)}")
            lines.append(
                f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="3" fill="{colour}"><title>{told}</title></circle>'
            )
        place = _TOP + 10 + 18 * index
        lines.append(
            f'<path d="M{_WIDTH - _RIGHT + 16} {place - 4}h22" stroke="{colour}" stroke-width="2"{dash}/>'
            f'<text class="ch-text" x="{_WIDTH - _RIGHT + 44}" y="{place}">{escape(one.name)}</text>'
        )
    lines.append("</svg>")
    return "\n".join(lines)


def _ticks_x(low: float, high: float) -> list[float]:
    step = max(1, round((high - low) / 7))
    return [2.0**k for k in range(math.ceil(low), math.floor(high) + 1, step)]


def _ticks_y(low: float, high: float, log_y: bool) -> list[float]:
    if log_y:
        return [10.0**k for k in range(math.ceil(low), math.floor(high) + 1)]
    raw = high / 6 if high > 0 else 1.0
    scale = 10.0 ** math.floor(math.log10(raw))
    step = scale * next(k for k in (1, 2, 5, 10) if k * scale >= raw)
    return [step * k for k in range(int(high / step) + 1)]
