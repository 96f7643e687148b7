"""``fabric-plan schedule``: a collective as transfers of chunks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import Group, Volumes, budget_of, check_output, output, solving, talking

if TYPE_CHECKING:
    from fabric_plan.models.schedule.exchange import Exchange
    from fabric_plan.models.schedule.synchronous import Synchronous
    from fabric_plan.planner.interface import Budget
    from fabric_plan.planner.problem import ScheduleProblem
    from fabric_plan.planner.schedule import SchedulePlan

PATTERNS = ("all-reduce", "all-gather", "reduce-scatter", "broadcast", "reduce", "all-to-all", "gather", "scatter")


@click.command("schedule", short_help="Schedule a collective on a fabric.")
@click.argument("pattern", metavar="[COLLECTIVE]", type=click.Choice(PATTERNS), required=False)
@click.option(
    "-f",
    "--fabric",
    default=None,
    metavar="F",
    help="A catalog name (fabric-plan fabric list) or a graph file; with --jobs it goes before the file's.",
)
@click.option("--jobs", "jobs_file", default=None, metavar="TOML", help="Several collectives at once, packed together.")
@click.option(
    "--placement",
    "placement_file",
    default=None,
    metavar="PLAN",
    help="All collectives of a placement at once, each with the bytes of one iteration.",
)
@click.option(
    "--volumes",
    type=Volumes(),
    default=None,
    metavar="V",
    help="With --placement: other bytes, as in mp=64MiB,dp=1GiB.",
)
@click.option("--size", default=None, metavar="BYTES", help="As nccl-tests counts it.  [default: 64MiB]")
@click.option(
    "--group",
    type=Group(),
    default=None,
    metavar="SEATS",
    help="Ranks in order, as in 0-7,12 (default: all); the first is the root.",
)
@click.option(
    "--fail",
    "failed",
    multiple=True,
    metavar="WHAT",
    help="A node (plane3), links both ways (gpu0:plane3) or one way (gpu0->plane3) that are down; repeatable.",
)
@click.option(
    "--chunks", type=int, default=None, metavar="N", help="Chunks of a pipelined algorithm (default: it chooses)."
)
@click.option("--slots", type=int, default=None, metavar="N", help="Chunks that a reducing switch can have under way.")
@click.option(
    "--steps",
    type=click.IntRange(1, 10_000),
    default=None,
    metavar="S",
    help="In S synchronous steps, with the fewest rounds.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100_000),
    default=None,
    metavar="R",
    help="With --steps: no more rounds than these.",
)
@click.option(
    "--frontier",
    is_flag=True,
    help="Of schedules with up to --chunks chunks (6), those that no other beats in steps and in rounds a chunk.",
)
@click.option(
    "--to",
    "form",
    type=click.Choice(("json", "msccl-xml", "mscclpp-json", "chrome-trace")),
    default="json",
    show_default=True,
    help="What -o writes.",
)
@output("Write the schedule here (.json, .json.gz; - for stdout).")
@solving
@talking
def command(
    pattern: str | None,
    fabric: str | None,
    jobs_file: str | None,
    placement_file: str | None,
    volumes: Any,
    size: str | None,
    group: tuple[int, ...] | None,
    failed: tuple[str, ...],
    chunks: int | None,
    slots: int | None,
    steps: int | None,
    rounds: int | None,
    frontier: bool,
    form: str,
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

    With --jobs or --placement: several collectives at once, packed onto the same links, against one after another and all at once.

    \b
    Planners: auto (the quickest of all; pack for several), pack, ring, double-ring, chain,
    recursive-doubling, halving-doubling, binomial-tree, double-binary-tree,
    direct, dimension-wise, hierarchical, trees, rotations, spanning-trees,
    flows, in-network.
    \b
    Examples:
      fabric-plan schedule all-reduce --planner ring --fabric ring:8 -o s.json
      fabric-plan schedule all-gather --fabric torus:8x8 --size 1GiB
      fabric-plan schedule all-gather --fabric dgx1 --steps 3 --chunks 6
      fabric-plan schedule all-gather --fabric dgx1 --frontier
      fabric-plan schedule all-gather --fabric nvl72 --fail plane3
      fabric-plan schedule broadcast --fabric nvl72 --group 0-15 --planner in-network
      fabric-plan schedule --jobs jobs.toml --fabric mesh:4x5
      fabric-plan schedule --placement p.json -o s.json
    """
    from fabric_plan.cli import console, schedule_console
    from fabric_plan.planner import files, interface, schedule_result
    from fabric_plan.planner.degraded import degraded
    from fabric_plan.planner.errors import InvalidInput, PlanRejected
    from fabric_plan.planner.files import load_fabric
    from fabric_plan.planner.problem import ScheduleProblem

    check_output(output, as_json=as_json)
    if jobs_file is not None or placement_file is not None:
        single: dict[str, object] = {
            "COLLECTIVE": pattern,
            "--size": size,
            "--group": group,
            "--fail": failed or None,
            "--slots": slots,
            "--steps": steps,
            "--rounds": rounds,
            "--frontier": frontier or None,
        }
        if form in ("msccl-xml", "mscclpp-json"):
            raise InvalidInput(f"--to {form} writes one collective, not several at once")
        problem = _several(jobs_file, placement_file, volumes, fabric, chunks, single)
    else:
        if pattern is None or fabric is None:
            what = "a COLLECTIVE" if pattern is None else "--fabric"
            raise InvalidInput(
                f"schedule: {what} is missing: name one collective and its fabric, or give --jobs or --placement"
            )
        if volumes is not None:
            raise InvalidInput("--volumes goes with --placement")
        left, alive = degraded(load_fabric(fabric), failed)
        problem = ScheduleProblem.of(left, pattern, size or "64MiB", group=group or alive, chunks=chunks, slots=slots)
    budget = budget_of(time_limit, workers, seed, deterministic)
    if (rounds is not None and steps is None) or (frontier and steps is not None):
        raise InvalidInput("--rounds needs --steps, and --frontier goes without")
    if (steps is not None or frontier) and planner != "auto":
        raise InvalidInput("--steps and --frontier are a model of their own: give no --planner")
    if form != "json" and output is None:
        raise InvalidInput(f"--to {form} needs a file to write: give -o")
    if frontier:
        _frontier(problem, budget, as_json=as_json)
        return
    plan: SchedulePlan
    if steps is not None:
        from fabric_plan.models.schedule.planners import synchronous_plan

        plan, found = synchronous_plan(problem, steps, rounds, budget)
        plan, faults = interface.validate(plan)
        if faults:
            raise PlanRejected(f"the simulator refuses the synchronous schedule: {faults[0]}", tuple(faults))
        if not as_json and output != "-":
            print(_told(found))
    else:
        plan = console.solve(problem, planner, budget, as_json=as_json, quiet=quiet)
    if output is not None:
        if form == "json":
            files.write_plan(plan, output)
        else:
            from fabric_plan.cli.schedule_export import write_schedule

            write_schedule(plan, form, output)
    if as_json:
        console.emit(schedule_result.result_document(plan))
    elif output != "-":
        schedule_console.print_plan(plan, verbose=verbose)
        if output is not None:
            print(f"Written to {output}")


def _several(
    jobs_file: str | None,
    placement_file: str | None,
    volumes: Any,
    fabric: str | None,
    chunks: int | None,
    single: dict[str, object],
) -> ScheduleProblem:
    """Return the problem of a file of jobs, or of a placement's collectives; ``single``: what goes with one collective only."""
    from fabric_plan.planner.errors import InvalidInput

    if jobs_file is not None and placement_file is not None:
        raise InvalidInput("--jobs and --placement exclude each other")
    for name, given in single.items():
        if given is not None:
            raise InvalidInput(f"{name} is of one collective: leave it out with --jobs or --placement")
    if jobs_file is not None:
        from fabric_plan.planner.jobs_file import read_jobs

        if volumes is not None:
            raise InvalidInput("--volumes goes with --placement; a file of jobs has sizes")
        return read_jobs(jobs_file, fabric, chunks=chunks)
    from fabric_plan.cli.show import placement_of, valid_plan
    from fabric_plan.planner.placed_jobs import placed_jobs

    assert placement_file is not None
    if fabric is not None:
        raise InvalidInput("--fabric: a placement has its own")
    return placed_jobs(placement_of(valid_plan(placement_file), placement_file), volumes, chunks=chunks)


def _told(one: Synchronous | Exchange) -> str:
    proved = "no fewer, proved" if one.total == one.bound else f"at least {one.bound}"
    return f"{one.steps} steps, {one.chunks} chunks, {one.total} rounds ({proved} by {one.proof}): {one.total / one.chunks:.4g} rounds a chunk"


def _frontier(problem: ScheduleProblem, budget: Budget, *, as_json: bool) -> None:
    """Print or emit the schedules that no other beats in steps and in rounds a chunk."""
    from fabric_plan.cli import console
    from fabric_plan.models.schedule.group import Group
    from fabric_plan.models.schedule.synchronous import frontier, net_of
    from fabric_plan.planner.errors import InvalidInput

    job = problem.jobs[0]
    if job.pattern not in ("all-gather", "reduce-scatter"):
        raise InvalidInput(f"--frontier is of all-gather and reduce-scatter, not of {job.pattern}")
    net = net_of(Group(problem.fabric.for_size(job.size), job), reverse=job.pattern == "reduce-scatter")
    found = frontier(net, budget, most_chunks=problem.chunks or 6)
    if as_json:
        rows = [
            {"steps": one.steps, "chunks": one.chunks, "rounds": one.total, "bound": one.bound, "proof": one.proof}
            for one in found
        ]
        console.emit(
            {"schema": "fabric-plan/frontier/1", "fabric": problem.fabric.name, "pattern": job.pattern, "points": rows}
        )
        return
    for one in found:
        print(_told(one))
    end = found[-1].total == net.per_chunk * found[-1].chunks
    most = problem.chunks or 6
    print(
        f"Of schedules with up to {most} chunks; "
        + (
            "the last meets the worst cut, so nothing has fewer rounds a chunk"
            if end
            else "with more steps some may have fewer rounds"
        )
    )
    print(f"Diameter {net.diameter}; {float(net.per_chunk):.6g} rounds a chunk by the worst cut ({net.per_chunk})")
