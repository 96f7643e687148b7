"""``fabric-plan place``: where each worker should sit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import Volumes, budget_of, check_output, output, solving, talking

if TYPE_CHECKING:
    from fabric_plan.planner.plan import PlacementPlan


@click.command("place", short_help="Place the workers of a 3D-parallel job on a fabric's NPUs.")
@click.option(
    "-s",
    "--strategy",
    required=True,
    metavar="S",
    help="As in MP3-DP3-PP2, MP(3)_DP(3)_PP(2) or tp3,dp3,pp2; also CP and EP.",
)
@click.option(
    "-f",
    "--fabric",
    default="mesh:4x5",
    metavar="F",
    show_default=True,
    help="A catalog name (fabric-plan fabric list) or a graph file.",
)
@click.option(
    "--workload",
    default=None,
    metavar="W",
    help="transformer-17b, gpt3, resnet-152 or transformer-1t: gives every volume.",
)
@click.option(
    "--volumes",
    type=Volumes(),
    default=None,
    metavar="V",
    help="Bytes per iteration, as in mp=64MiB,dp=1GiB,pp=8MiB*8 (8 of them).",
)
@click.option(
    "--objective",
    type=click.Choice(["congestion", "time"]),
    default="congestion",
    show_default=True,
    help="Largest link load; or that plus latency.",
)
@click.option(
    "--concurrent/--phases", "concurrent", default=True, help="All groups at once (default), or each dimension alone."
)
@click.option(
    "--ring",
    type=click.Choice(["fixed", "free"]),
    default="fixed",
    show_default=True,
    help="Rings in the order of the digits, or as the planner likes.",
)
@click.option(
    "--pp",
    type=click.Choice(["unicast", "multicast"]),
    default="unicast",
    show_default=True,
    help="Each worker to its counterpart; or one to the next stage's MP group.",
)
@click.option(
    "--pp-direction",
    "direction",
    type=click.Choice(["forward", "both", "f", "fb"]),
    default=None,
    help="Activations only, or gradients back too (default with --workload).",
)
@output("Write the plan here (.json, .json.gz; - for stdout).")
@solving
@talking
def command(
    strategy: str,
    fabric: str,
    workload: str | None,
    volumes: Any,
    objective: Any,
    concurrent: bool,
    ring: Any,
    pp: Any,
    direction: str | None,
    output: str | None,
    planner: str,
    time_limit: float,
    workers: int | None,
    seed: int,
    deterministic: bool,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Place the workers of a hybrid-parallel job on a fabric's NPUs, with a proven bound.

    \b
    Examples:
      fabric-plan place --strategy MP3-DP3-PP2
      fabric-plan place -s MP2-DP5-PP2 --phases --pp multicast -o plan.json
      fabric-plan place -s tp8,dp8 --fabric torus:8x8 --volumes mp=64MiB,dp=1GiB
    """
    from fabric_plan.cli import console
    from fabric_plan.planner import files
    from fabric_plan.planner.problem import PlacementProblem

    ways = {"f": "forward", "fb": "both"}
    problem = PlacementProblem.of(
        fabric,
        strategy,
        workload=workload,
        volumes=volumes,
        objective=objective,
        concurrent=concurrent,
        ring=ring,
        pp=pp,
        direction=ways.get(direction, direction) if direction else None,  # type: ignore[arg-type]
    )
    check_output(output, as_json=as_json)
    budget = budget_of(time_limit, workers, seed, deterministic)
    plan = console.solve(problem, planner, budget, as_json=as_json, quiet=quiet)
    if output != "-":
        show(plan, as_json=as_json, verbose=verbose, stopped=budget.stop.is_set())
    if output is not None:
        files.write_plan(plan, output)


def show(plan: PlacementPlan, *, as_json: bool, verbose: bool, stopped: bool) -> None:
    """Print a plan that has just been made."""
    from fabric_plan.cli import console
    from fabric_plan.planner import result

    if as_json:
        console.emit(result.result_document(plan))
        return
    print(console.describe(plan))
    if stopped:
        print("  stopped by Ctrl-C: this is the best plan so far")
    console.print_certificate(plan, verbose=verbose)
    print()
    if plan.report is not None:
        console.print_report(plan, plan.report, verbose=verbose)
        print()
    from fabric_plan.planner.drawing import text

    drawn = text.grid(plan)
    if drawn:
        print(drawn)
        print()
    sentence = result.gain(plan)
    print(f"{sentence[0].upper()}{sentence[1:]}.")
