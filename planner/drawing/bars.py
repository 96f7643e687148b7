"""Bar charts in groups, as SVG for light and dark pages, with a tooltip on every bar."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from fabric_plan.planner.drawing.chart import COLOURS

_STYLE = """
.br-ground{fill:#fff}.br-grid{stroke:#dfe5ec}.br-text{fill:#56606b}.br-title{fill:#1b1f24;font-weight:600}
@media (prefers-color-scheme:dark){
.br-ground{fill:#14181d}.br-grid{stroke:#353d46}.br-text{fill:#a3adb8}.br-title{fill:#e8ecf1}}
"""

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 360, 56, 64, 40


def bar_chart(
    title: str, groups: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, most: float = 5.0
) -> str:
    """Return a chart: for each group a bar of each series; bars beyond ``most`` are cut there and say their value."""
    top = min(most, max((value for _, values in series for value in values), default=1.0)) * 1.08 or 1.0
    inner, width = _HEIGHT - _TOP - _BOTTOM, (_WIDTH - _LEFT - 24) / max(1, len(groups))
    bar = width * 0.72 / max(1, len(series))

    def at(value: float) -> float:
        return _TOP + inner * (1 - min(value, top) / top)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        'role="img" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<rect class="br-ground" width="{_WIDTH}" height="{_HEIGHT}" rx="10"/>',
        f'<text class="br-title" x="{_LEFT}" y="24" font-size="14">{escape(title)}</text>',
    ]
    step = 1.0 if top > 2 else 0.25
    value = 0.0
    while value <= top:
        lines.append(
            f'<line class="br-grid" x1="{_LEFT}" x2="{_WIDTH - 24}" y1="{at(value):.1f}" y2="{at(value):.1f}"/>'
        )
        lines.append(
            f'<text class="br-text" x="{_LEFT - 8}" y="{at(value) + 4:.1f}" text-anchor="end">{value:g}</text>'
        )
        value += step
    for k, (name, values) in enumerate(series):
        lines.append(
            f'<rect x="{_LEFT + 170 * k}" y="36" width="12" height="12" rx="2" fill="{COLOURS[k % len(COLOURS)]}"/>'
        )
        lines.append(f'<text class="br-text" x="{_LEFT + 170 * k + 18}" y="46">{escape(name[:26])}</text>')
        for group, number in enumerate(values):
            x, y = _LEFT + width * (group + 0.14) + bar * k, at(number)
            lines.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{bar * 0.92:.1f}" height="{_TOP + inner - y:.1f}" fill="{COLOURS[k % len(COLOURS)]}">'
                f"<title>{escape(groups[group])}, {escape(name)}: {number:.4g}</title></rect>"
            )
            lines.append(
                f'<text class="br-text" x="{x + bar * 0.46:.1f}" y="{y - 4:.1f}" text-anchor="middle" font-size="11">{number:.3g}</text>'
            )
    for group, name in enumerate(groups):
        lines.append(
            f'<text class="br-text" x="{_LEFT + width * (group + 0.5):.1f}" y="{_HEIGHT - 16}" text-anchor="middle">{escape(name)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"
