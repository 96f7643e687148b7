"""``fabric-plan fabric``: the catalog, and what a fabric looks like."""

from __future__ import annotations

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
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def show_command(name: str, output: str | None, as_json: bool) -> None:
    """Show a fabric: nodes, links, routing, diameter."""
    from fabric_plan.cli import console
    from fabric_plan.planner import files
    from fabric_plan.planner.formats.graph_json import write_graph

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
