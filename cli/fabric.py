"""``fabric-plan fabric``: the catalog, and what a fabric looks like."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import click

from fabric_plan.cli.options import output


@click.group("fabric", short_help="List, show and convert fabrics.")
def command() -> None:
    """List the catalog's fabrics, or show one of them or of a graph file."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def list_command(as_json: bool) -> None:
    """List the fabrics that have a name."""
    from fabric_plan.cli import console
    from fabric_plan.planner.catalog import CATALOG

    if as_json:
        entries = [{"name": e.pattern, "example": e.example, "summary": e.summary} for e in CATALOG.values()]
        console.emit({"schema": "fabric-plan/fabrics/1", "fabrics": entries})
        return
    width = max(len(entry.pattern) for entry in CATALOG.values())
    for entry in CATALOG.values():
        print(f"{entry.pattern:<{width}}  {entry.summary}")
    print("\nA plain graph file (nodes, links; see README) serves wherever a name does.")


@command.command("show")
@click.argument("name", metavar="FABRIC")
@output("Write it as a plain graph file (- for stdout).")
@click.option("--cost", is_flag=True, help="Micro-switches, area and power of a FRED switch (fred3:12) or of fred-20.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show_command(name: str, output: str | None, cost: bool, as_json: bool) -> None:
    """Show a fabric: nodes, links, routing, diameter; or what a FRED fabric costs."""
    from fabric_plan.cli import console
    from fabric_plan.planner import files
    from fabric_plan.planner.formats.graph_json import write_graph

    if cost:
        _show_cost(name, as_json=as_json)
        return
    fabric = files.load_fabric(name)
    if output is not None:
        files.write_atomically(output, write_graph(fabric))
        if output == "-":
            return
    facts = _facts(fabric)
    if as_json:
        console.emit({"schema": "fabric-plan/fabric/1", **facts})
        return
    for key, value in facts.items():
        if value not in (None, "", []):
            print(f"  {key.replace('_', ' '):<12} {value}")


def _show_cost(name: str, *, as_json: bool) -> None:
    from fabric_plan.cli import console
    from fabric_plan.planner import fred_cost
    from fabric_plan.planner.switch_flows import parse_switch

    if name.strip().lower() != "fred-20":
        one = fred_cost.switch_cost(*parse_switch(name))
        facts = {
            "micro_switches": one.micro_switches,
            "area_mm2": round(float(one.area), 2),
            "power_w": round(float(one.power), 3),
            "estimated": one.estimated,
        }
        if as_json:
            console.emit({"schema": "fabric-plan/cost/1", "switch": name, **facts})
            return
        how = "scaled from the nearest chiplet of table 4" if one.estimated else "table 4 of the FRED paper"
        print(f"  {one.micro_switches} micro-switches, {float(one.area):,.1f} mm2, {float(one.power):.2f} W ({how})")
        return
    lines = fred_cost.fred_20_cost()
    area = sum((line.area for line in lines if line.area is not None), start=Fraction(0))
    power = sum((line.power for line in lines), start=Fraction(0))
    wafer = fred_cost.wafer_watts(power)
    if as_json:
        parts = [
            {
                "name": line.name,
                "count": line.count,
                "area_mm2": None if line.area is None else float(line.area),
                "power_w": float(line.power),
            }
            for line in lines
        ]
        totals = {"area_mm2": float(area), "power_w": float(power), "wafer_w": float(wafer)}
        console.emit({"schema": "fabric-plan/cost/1", "fabric": name, "parts": parts, **totals})
        return
    rows = [("part", "count", "area mm2", "power W")]
    for line in lines:
        told = "-" if line.area is None else f"{float(line.area):,.0f}"
        rows.append((line.name, str(line.count), told, f"{float(line.power):.2f}"))
    rows.append(("total", "", f"{float(area):,.0f}", f"{float(power):.2f}"))
    console.table(rows)
    print(f"With 20 NPUs and 18 I/O controllers: {float(wafer):,.0f} of {float(fred_cost.BUDGET_WATTS):,.0f} W")


def _facts(fabric: Any) -> dict[str, Any]:
    from fabric_plan.planner.units import format_bandwidth, format_time

    kinds: dict[str, int] = {}
    for node in fabric.nodes:
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    classes: dict[tuple[int, Any, int], int] = {}
    for link in fabric.links:
        key = (link.bandwidth, link.latency, link.multiplicity)
        classes[key] = classes.get(key, 0) + 1
    named = {"npu": "NPUs", "switch": "switches", "io": "I/O controllers"}
    seats = len(fabric.seats)
    return {
        "name": fabric.name,
        "nodes": ", ".join(f"{count} {named[kind]}" for kind, count in kinds.items()),
        "links": "; ".join(
            f"{count} x {format_bandwidth(b)}{f' ({m} parallel)' if m > 1 else ''}, {format_time(lat)}"
            for (b, lat, m), count in sorted(classes.items(), key=lambda item: -item[1])
        ),
        "shape": "x".join(map(str, fabric.shape)),
        "routing": fabric.routing,
        "diameter": fabric.diameter() if seats <= 600 else None,
        "seat_classes": len(set(fabric.seat_orbits)) if fabric.symmetries else None,
        "note": fabric.note,
    }
