"""``fabric-plan schedule``: a collective as transfers of chunks."""

from __future__ import annotations

import click

from fabric_plan.cli.options import Group, budget_of, check_output, output, solving, talking

PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all")


@click.command("schedule", short_help="Schedule a collective on a fabric.")
@click.argument("pattern", metavar="COLLECTIVE", type=click.Choice(PATTERNS))
@click.option(
    "-f",
    "--fabric",
    required=True,
    metavar="F",
    help="A catalog name (fabric-plan fabric list) or a graph file.",
)
@click.option("--size", default="64MiB", metavar="BYTES", show_default=True, help="As nccl-tests counts it.")
@click.option(
    "--group",
    type=Group(),
    default=None,
    metavar="SEATS",
    help="Ranks in order, as in 0-7,12 (default: all); the first is the root.",
)
@click.option(
    "--chunks", type=int, default=None, metavar="N", help="Chunks of a pipelined algorithm (default: it chooses)."
)
@click.option("--slots", type=int, default=None, metavar="N", help="Chunks that a reducing switch can have under way.")
@output("Write the schedule here (.json, .json.gz; - for stdout).")
@solving
@talking
def command(
    pattern: str,
    fabric: str,
    size: str,
    group: tuple[int, ...] | None,
    chunks: int | None,
    slots: int | None,
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
    """Schedule a collective, simulate it, and bound the time of any schedule.

    \b
    Planners: auto (the quickest of all), ring, double-ring, chain,
    recursive-doubling, halving-doubling, binomial-tree, double-binary-tree,
    direct, dimension-wise, hierarchical, in-network.
    \b
    Examples:
      fabric-plan schedule all-reduce --planner ring --fabric ring:8 -o s.json
      fabric-plan schedule all-gather --fabric torus:8x8 --size 1GiB
      fabric-plan schedule broadcast --fabric nvl72 --group 0-15 --planner in-network
    """
    from fabric_plan.cli import console, schedule_console
    from fabric_plan.planner import files, schedule_result
    from fabric_plan.planner.problem import ScheduleProblem

    check_output(output, as_json=as_json)
    problem = ScheduleProblem.of(fabric, pattern, size, group=group, chunks=chunks, slots=slots)
    budget = budget_of(time_limit, workers, seed, deterministic)
    plan = console.solve(problem, planner, budget, as_json=as_json, quiet=quiet)
    if output is not None:
        files.write_plan(plan, output)
    if as_json:
        console.emit(schedule_result.result_document(plan))
    elif output != "-":
        schedule_console.print_plan(plan, verbose=verbose)
        if output is not None:
            print(f"Written to {output}")
