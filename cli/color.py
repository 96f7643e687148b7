"""``fabric-plan color``: the chromatic number of a graph, proved."""

from __future__ import annotations

from pathlib import PurePath

import click

from fabric_plan.cli.options import output


@click.command("color", short_help="Prove the chromatic number of a DIMACS graph.")
@click.argument("graph_file", metavar="GRAPH")
@output("Write the colouring here: vertex and colour a line, both from 1 (- for stdout).")
@click.option("--time-limit", "time_limit", type=float, default=60.0, metavar="SECONDS", show_default=True)
@click.option("--workers", type=int, default=None, metavar="N", help="Threads of the exact solver (default: up to 8).")
@click.option("--seed", type=int, default=0, metavar="N", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def command(
    graph_file: str, output: str | None, time_limit: float, workers: int | None, seed: int, as_json: bool
) -> None:
    """Colour a graph (.col, - for stdin) with the fewest colours, and prove that fewer do not do.

    The machinery is that of routing: flows that must take different middle networks are vertices that are joined.
    """
    from dataclasses import replace

    from fabric_plan.cli import console
    from fabric_plan.models.routing.chromatic import chromatic
    from fabric_plan.planner import files
    from fabric_plan.planner.formats.dimacs import parse_col
    from fabric_plan.planner.interface import Budget, interruptible

    if output is not None:
        files.check_writable(output)
    graph = parse_col(files.read_bytes(graph_file).decode("utf-8", "replace"), graph_file)
    budget = Budget(seconds=time_limit, seed=seed)
    if workers is not None:
        budget = replace(budget, workers=workers)
    with interruptible(budget.stop):
        found = chromatic(graph, budget)
    proved = found.used == found.bound
    if output is not None:
        rows = "".join(f"{vertex} {colour + 1}\n" for vertex, colour in enumerate(found.colours, 1))
        files.write_atomically(output, rows.encode())
    edges = sum(map(len, graph)) // 2
    if as_json:
        console.emit(
            {
                "schema": "fabric-plan/colouring/1",
                "graph": PurePath(graph_file).name,
                "vertices": len(graph),
                "edges": edges,
                "status": "optimal" if proved else "feasible",
                "colours": found.used,
                "bound": found.bound,
                "proof": found.proof,
                "seconds": round(budget.elapsed, 3),
                "colouring": [colour + 1 for colour in found.colours],
            }
        )
    elif output != "-":
        verdict = "proved" if proved else f"at least {found.bound}"
        print(f"{PurePath(graph_file).name}: {len(graph)} vertices, {edges} edges")
        print(f"  colours     {found.used}, {verdict} ({found.proof}; {budget.elapsed:.2f} s)")
