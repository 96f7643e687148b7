"""What a comparison of algorithms says: documents, tables, and a page with charts."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from typing import Any

import msgspec

from fabric_plan.planner.collective import bus_factor
from fabric_plan.planner.drawing.chart import Series, line_chart
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.result import number
from fabric_plan.planner.units import format_bandwidth, format_size, format_time

SCHEMA = "fabric-plan/comparison/1"


@dataclass(frozen=True)
class Facts:
    """What a fabric offers a collective's ranks.

    Parameters
    ----------
    bandwidth
        Bytes/s that a rank can send at once over all its links (the least of all ranks).
    pair
        Bytes/s from one rank to another when nobody else sends (the least from rank 0).
    total
        Bytes/s of all ranks together, both directions.
    in_switch
        What all ranks' traffic would be without the switches' help, when they reduce: twice the total; None if not.
    latency
        Seconds from rank 0 to rank 1.
    in_flight
        Bytes that must be under way to keep a rank's links busy over a round trip (Little's law).
    crossover
        Bytes at which a ring's latency and bandwidth terms are equal, p alpha B; B as of one hop of the ring.
    """

    ranks: int
    bandwidth: int
    pair: int
    total: int
    in_switch: int | None
    latency: Fraction
    in_flight: Fraction
    requests: Fraction
    crossover: Fraction


@dataclass(frozen=True)
class Row:
    """An algorithm over all sizes.

    Parameters
    ----------
    seconds
        By size; None where it was refused.
    alphas
        Latency on the critical path at the smallest size, in latencies from rank 0 to rank 1.
    volume
        All of the time that is not latency, at the largest size, in times that a rank needs to send that size.
    links
        The part of the fabric's links that it uses.
    """

    name: str
    seconds: tuple[Fraction | None, ...]
    alphas: Fraction
    volume: Fraction
    links: Fraction


@dataclass(frozen=True)
class Comparison:
    """Every algorithm that suits a fabric over sizes; ``crossovers`` are (size, winner below, winner above), sizes by interpolation."""

    fabric: Fabric
    pattern: str
    sizes: tuple[Fraction, ...]
    discipline: str
    facts: Facts
    endpoint_floor: tuple[Fraction, ...]
    in_network_floor: tuple[Fraction, ...] | None
    rows: tuple[Row, ...]
    refused: dict[str, str]
    crossovers: tuple[tuple[Fraction, str, str], ...]

    def winner(self, index: int) -> str:
        """Return the quickest algorithm at a size."""
        times = [(row.seconds[index], row.name) for row in self.rows if row.seconds[index] is not None]
        return min(times, key=lambda one: one[0] or Fraction(0))[1]


def headline(found: Comparison) -> str:
    """Return what is compared, in a line."""
    return f"{found.pattern} over {found.facts.ranks} ranks on {found.fabric.name} ({found.discipline})"


def fact_rows(found: Comparison) -> list[tuple[str, str]]:
    """Return what the fabric offers, as (name, text)."""
    facts = found.facts
    rows = [
        (
            "a rank sends",
            f"{format_bandwidth(facts.bandwidth)} a direction, {format_bandwidth(facts.pair)} to one peer",
        ),
        ("all ranks", f"{format_bandwidth(facts.total)}, both directions"),
    ]
    if facts.in_switch is not None:
        rows.append(("all-reduce in switches", f"counts as {format_bandwidth(facts.in_switch)}"))
    rows += [
        ("latency (alpha)", f"{format_time(facts.latency)} from rank 0 to rank 1"),
        ("bytes in flight", f"{float(facts.in_flight):,.0f} a rank, {float(facts.requests):,.0f} requests of 256 B"),
        ("ring crossover", f"{float(facts.crossover):,.0f} bytes (p alpha B)"),
    ]
    return rows


def summary_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return a table: each algorithm's latency, volume, links used, busbw and time over the floor."""
    rows: list[tuple[str, ...]] = [("algorithm", "latency", "bytes", "links used", "algbw", "busbw", "of the floor")]
    factor = bus_factor(found.pattern, found.facts.ranks)
    size, floor = found.sizes[-1], found.endpoint_floor[-1]
    for row in found.rows:
        seconds = row.seconds[-1]
        rates = ("-", "-", "-")
        if seconds:
            rate = size / seconds
            over = f"{float(seconds / floor):.3g} x" if floor else "-"
            rates = (format_bandwidth(rate), format_bandwidth(rate * factor), over)
        alphas, volume = f"{float(row.alphas):.4g} alpha", f"{float(row.volume):.4g} n/B"
        rows.append((row.name, alphas, volume, f"{float(row.links) * 100:.3g} %", *rates))
    return rows


def time_rows(found: Comparison) -> list[tuple[str, ...]]:
    """Return a table: by size each algorithm's time, the floors, and the winner."""
    floors = ("floor", *(("in switches",) if found.in_network_floor else ()))
    rows: list[tuple[str, ...]] = [("size", *(row.name for row in found.rows), *floors, "winner")]
    for k, size in enumerate(found.sizes):
        times = [*(row.seconds[k] for row in found.rows), found.endpoint_floor[k]]
        if found.in_network_floor:
            times.append(found.in_network_floor[k])
        told = ["-" if one is None else format_time(one) for one in times]
        rows.append((format_size(size), *told, found.winner(k)))
    return rows


def document(found: Comparison) -> dict[str, Any]:
    """Return what ``fabric-plan compare --json`` prints; times in seconds, bandwidths in bytes/s."""
    factor = bus_factor(found.pattern, found.facts.ranks)

    def rates(row: Row, factor: Fraction) -> list[Any]:
        pairs = zip(found.sizes, row.seconds, strict=True)
        return [number(size / seconds * factor) if seconds else None for size, seconds in pairs]

    return {
        "schema": SCHEMA,
        "fabric": found.fabric.name,
        "collective": found.pattern,
        "discipline": found.discipline,
        "facts": {name: number(getattr(found.facts, name)) for name in found.facts.__dataclass_fields__},
        "sizes": [number(size) for size in found.sizes],
        "endpoint_floor": [number(one) for one in found.endpoint_floor],
        "in_network_floor": None if found.in_network_floor is None else [number(one) for one in found.in_network_floor],
        "algorithms": {
            row.name: {
                "seconds": [number(one) for one in row.seconds],
                "algbw": rates(row, Fraction(1)),
                "busbw": rates(row, factor),
                "alphas": number(row.alphas),
                "volume": number(row.volume),
                "links_used": number(row.links),
            }
            for row in found.rows
        },
        "winners": [found.winner(k) for k in range(len(found.sizes))],
        "crossovers": [{"size": number(size), "below": a, "above": b} for size, a, b in found.crossovers],
        "refused": found.refused,
    }


def write_json(found: Comparison) -> bytes:
    """Return :func:`document` as a file."""
    return msgspec.json.format(msgspec.json.encode(document(found)), indent=1) + b"\n"


def write_csv(found: Comparison) -> bytes:
    """Return a table: size, algorithm, seconds, algbw, busbw."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["size_bytes", "algorithm", "seconds", "algbw_bytes_per_s", "busbw_bytes_per_s"])
    for name, row in document(found)["algorithms"].items():
        columns = zip(found.sizes, row["seconds"], row["algbw"], row["busbw"], strict=True)
        rows.writerows([number(size), name, seconds, rate, bus] for size, seconds, rate, bus in columns)
    return text.getvalue().encode()


def _series(found: Comparison, *, rates: bool) -> list[Series]:
    factor = bus_factor(found.pattern, found.facts.ranks)

    def line(name: str, times: Any, *, dashed: bool = False) -> Series:
        pairs = [(float(size), float(time)) for size, time in zip(found.sizes, times, strict=True) if time]
        return Series(name, [(x, x / y * float(factor)) if rates else (x, y) for x, y in pairs], dashed)

    found_lines = [line(row.name, row.seconds) for row in found.rows]
    found_lines.append(line("endpoint floor", found.endpoint_floor, dashed=True))
    if found.in_network_floor:
        found_lines.append(line("in-network floor", found.in_network_floor, dashed=True))
    return found_lines


def _chart(found: Comparison, *, rates: bool) -> str:
    what = "bus bandwidth" if rates else "time"
    return line_chart(
        f"{headline(found)}: {what} by size",
        _series(found, rates=rates),
        x_text=lambda x: format_size(Fraction(x)),
        y_text=(lambda y: format_bandwidth(Fraction(y))) if rates else format_time,
        log_y=not rates,
    )


def write_svg(found: Comparison) -> bytes:
    """Return the chart of times."""
    return ('<?xml version="1.0" encoding="UTF-8"?>\n' + _chart(found, rates=False)).encode()


def write_html(found: Comparison) -> bytes:
    """Return a page that needs nothing else: facts, charts, tables."""
    title = escape(headline(found))
    facts = "".join(f"<tr><th>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in fact_rows(found))
    turns = "".join(
        f"<li>{escape(a)} up to about {escape(format_size(size))}, then {escape(b)}</li>"
        for size, a, b in found.crossovers
    )
    gone = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in found.refused.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body{{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}}
table{{border-collapse:collapse;margin:1rem 0;font-size:13px}}td,th{{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}}
th:first-child,td:first-child{{text-align:left}}.wide{{overflow-x:auto}}svg{{max-width:100%;height:auto}}
</style></head><body><h1>{title}</h1>
<table>{facts}</table>
{_chart(found, rates=False)}
{_chart(found, rates=True)}
<h2>At {escape(format_size(found.sizes[-1]))}</h2><div class="wide">{_table(summary_rows(found))}</div>
<p>Latency in alphas is that of the critical path at the smallest size; bytes are the rest of the time at the largest, in
times that a rank needs to send that size over all its links. Below 1 x the floor only switches that reduce can go.</p>
<h2>Times</h2><div class="wide">{_table(time_rows(found))}</div>
<ul>{turns}</ul>
{f"<h2>What does not suit</h2><ul>{gone}</ul>" if gone else ""}
</body></html>
""".encode()


def _table(rows: Any) -> str:
    head, *rest = rows
    lines = ["<table><tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rest]
    return "\n".join([*lines, "</table>"])


def write_png(found: Comparison) -> bytes:
    """Return both charts as a PNG; needs the extra ``plot``."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InvalidInput("PNG needs matplotlib: pip install 'fabric-plan[plot]', or choose .svg or .html") from None
    figure = Figure(figsize=(9, 9), dpi=120, layout="constrained")
    for place, rates in enumerate((False, True)):
        axes = figure.add_subplot(2, 1, place + 1)
        for one in _series(found, rates=rates):
            xs, ys = [x for x, _ in one.points], [y / 1e9 if rates else y for _, y in one.points]
            axes.plot(xs, ys, "--" if one.dashed else "-o", markersize=3, label=one.name)
        axes.set_xscale("log", base=2)
        if not rates:
            axes.set_yscale("log")
        axes.set_xlabel("bytes")
        axes.set_ylabel("bus bandwidth, GB/s" if rates else "seconds")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    figure.suptitle(headline(found))
    data = io.BytesIO()
    figure.savefig(data, format="png")
    return data.getvalue()
