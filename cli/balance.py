"""``fabric-plan balance``: which links withdraw reachability after failures in a disaggregated scheduled fabric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import budget_of, check_output, output, solving, talking

if TYPE_CHECKING:
    from collections.abc import Callable

    from fabric_plan.planner.dsf import Dsf
    from fabric_plan.planner.interface import Budget

POLICIES = ("optimal", "class-wide", "random", "aligned", "none")


def fabric_options(function: Any) -> Any:
    """Add the options that say what is planned."""
    options: list[Callable[[Any], Any]] = [
        click.option(
            "-f",
            "--fabric",
            "name",
            default="dsf:mini",
            metavar="NAME|FILE",
            show_default=True,
            help="dsf:mini, dsf:l1, dsf:l2, dsf:region, or an export.",
        ),
        click.option(
            "--fail",
            "failed",
            multiple=True,
            metavar="LINK|DEVICE",
            help="x/rdsw3:fdsw1, x/fdsw1:sdsw1#1, or a device: x/fdsw1; may be repeated.",
        ),
        click.option(
            "--fail-rate", default=None, metavar="RATE", help="Random failures as well, as in 1%, drawn by --seed."
        ),
        click.option(
            "--planes", type=click.IntRange(1), default=None, help="Of dsf:l1 and dsf:l2: fewer planes than two."
        ),
        click.option(
            "--devices", type=click.IntRange(1), default=None, help="Of them: fewer virtual devices than four."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.group(
    "balance",
    invoke_without_command=True,
    short_help="Choose the links that withdraw reachability after failures (DSF).",
)
@fabric_options
@click.option(
    "--objective", type=click.Choice(["total", "worst", "leximin", "load"]), default="leximin", show_default=True
)
@click.option(
    "--policy",
    type=click.Choice(POLICIES),
    default="optimal",
    show_default=True,
    help="The best, or what fabrics do today.",
)
@click.option(
    "--profiles",
    type=click.IntRange(1),
    default=None,
    help="At most so many selections between two zones (1: one choice for a class).",
)
@click.option("--bundle", is_flag=True, help="Virtual devices of a chassis withdraw the same ports.")
@click.option(
    "--min-links",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="A fabric node with fewer links to a destination advertises none.",
)
@click.option("--intra", is_flag=True, help="Balance within the destination's own zone too.")
@click.option("--explain", is_flag=True, help="Replay the propagation device by device.")
@click.option(
    "--drain",
    "drains",
    multiple=True,
    metavar="LINK|DEVICE",
    help="Plan maintenance instead: the fewest windows; may be repeated.",
)
@click.option(
    "--floor",
    default="90%",
    metavar="SHARE",
    show_default=True,
    help="Of the worst pair's capacity, kept in every window.",
)
@click.option("--tables", default=None, metavar="FILE", help="Write the operator tools' JSON tables here.")
@output("Write the plan here (.json, .json.gz; - for stdout).")
@solving
@talking
@click.pass_context
def command(context: click.Context, /, **options: Any) -> None:
    """Choose which links stop advertising reachability after failures, so that no device has more input than output.

    \b
    Examples:
      fabric-plan balance --fail x/rdsw3:fdsw1
      fabric-plan balance --fail x/fdsw1:sdsw1 --objective load --explain
      fabric-plan balance -f dsf:l2 --fail-rate 1% --seed 7
      fabric-plan balance --drain x/fdsw0:sdsw0 --drain y/fdsw1:sdsw1 --floor 50%
      fabric-plan balance rank --fail x/rdsw3:fdsw1
      fabric-plan balance compare --fail x/fdsw1:sdsw1
    """
    if context.invoked_subcommand is None:
        _plan(**options)


def _plan(
    *,
    name: str,
    failed: tuple[str, ...],
    fail_rate: str | None,
    planes: int | None,
    devices: int | None,
    objective: Any,
    policy: str,
    profiles: int | None,
    bundle: bool,
    min_links: int,
    intra: bool,
    explain: bool,
    drains: tuple[str, ...],
    floor: str,
    tables: str | None,
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
    from fabric_plan.cli import balance_console, console
    from fabric_plan.planner import balance_result, files
    from fabric_plan.planner.balance import BalanceProblem, Coupling
    from fabric_plan.planner.errors import InvalidInput

    check_output(output, as_json=as_json)
    if tables is not None:
        files.check_writable(tables)
    budget = budget_of(time_limit, workers, seed, deterministic)
    if name.strip().lower() == "dsf:region":
        if output is not None or tables is not None or drains or fail_rate is not None or explain:
            raise InvalidInput("dsf:region is planned part by part: it takes --fail, --objective and --json")
        _region(failed, objective, budget, as_json=as_json, quiet=quiet)
        return
    if policy != "optimal" and planner != "auto":
        raise InvalidInput("give --policy or --planner, one of them")
    fabric, down = load(name, failed, fail_rate, seed, planes, devices)
    coupling = Coupling(profiles=profiles, bundle=bundle, min_links=min_links)
    problem = BalanceProblem(fabric=fabric, failed=down, objective=objective, intra=intra, coupling=coupling)
    if drains:
        _drains(problem, drains, floor, budget, as_json=as_json)
        return
    plan = console.solve(problem, planner if policy == "optimal" else policy, budget, as_json=as_json, quiet=quiet)
    if output is not None:
        files.write_plan(plan, output)
    if tables is not None:
        from fabric_plan.planner.formats.dsf_export import tables_of

        files.write_atomically(tables, files.dump(tables_of(plan)))
    if as_json:
        console.emit(balance_result.result_document(plan))
        return
    if output == "-":
        return
    balance_console.print_plan(plan, verbose=verbose)
    if explain:
        from fabric_plan.planner.simulator.balance_story import explain as story

        for copy, chosen in enumerate(plan.copies):
            for line in story(problem, chosen, copy):
                print(line)
    if policy == "optimal":
        balance_console.print_distribution(plan)
    for path in (output, tables):
        if path is not None:
            print(f"Written to {path}")


def load(
    name: str, failed: tuple[str, ...], fail_rate: str | None, seed: int, planes: int | None, devices: int | None
) -> tuple[Dsf, tuple[str, ...]]:
    """Return (fabric, names of failed links) of the command line's options.

    Raises
    ------
    InvalidInput
        For an unknown fabric, device or link, a rate that makes no sense, or failures that leave nothing alive.
    """
    import random

    import msgspec

    from fabric_plan.planner import dsf_catalog, files
    from fabric_plan.planner.errors import InvalidInput

    down: list[str] = []
    if name.strip().lower().startswith("dsf:"):
        fabric = dsf_catalog.build(name)
        if planes is not None or devices is not None:
            fabric = msgspec.structs.replace(
                fabric,
                planes=min(planes or fabric.planes, fabric.planes),
                devices=min(devices or fabric.devices, fabric.devices),
            )
    else:
        from fabric_plan.planner.formats.dsf_export import read_export

        if planes is not None or devices is not None:
            raise InvalidInput("--planes and --devices are of dsf:l1 and dsf:l2; a file says what there is")
        export = read_export(files.read_bytes(name), name)
        fabric = export.fabric
        down += [*export.failed, *export.drained]
        for note in export.notes:
            click.echo(f"fabric-plan: {name}: {note}", err=True)
    for text in failed:
        links = [fabric.link(text)] if ":" in text else fabric.device_links(text)
        down += [fabric.link_name(link) for link in links]
    if fail_rate is not None:
        share = _share(fail_rate, "fail-rate")
        everything = [fabric.link_name(link) for link in fabric.all_links()]
        down += random.Random(seed).sample(everything, round(share * len(everything)))
    unique = tuple(dict.fromkeys(down))
    if unique and len(unique) >= fabric.links:
        raise InvalidInput(f"all {fabric.links:,} links of {fabric.name} have failed: nothing is left to plan")
    return fabric, unique


def _share(text: str, option: str) -> float:
    from fabric_plan.planner.errors import InvalidInput

    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise InvalidInput(f"{option} {text!r}: expected a share, as in 1%") from None
    if not 0 <= value <= 1:
        raise InvalidInput(f"{option} {text!r}: expected 0 to 100 %")
    return value


def _drains(problem: Any, drains: tuple[str, ...], floor: str, budget: Budget, *, as_json: bool) -> None:
    from fractions import Fraction

    from fabric_plan.cli import console
    from fabric_plan.models.balance.rank import plan_drains

    found = plan_drains(
        problem, list(dict.fromkeys(drains)), Fraction(_share(floor, "floor")).limit_denominator(10_000), budget
    )
    if as_json:
        console.emit(
            {
                "schema": "fabric-plan/drains/1",
                "windows": [
                    {"drains": list(names), "total": value.total, "worst": value.worst}
                    for names, value in zip(found.windows, found.values, strict=True)
                ],
                "floor": found.floor,
                "bound": found.bound,
            }
        )
        return
    print(f"{len(found.windows)} windows, proved fewest; the worst pair keeps {found.floor} links or more")
    for number, (names, value) in enumerate(zip(found.windows, found.values, strict=True), 1):
        print(f"  window {number}: {', '.join(names)}: total {value.total:,}, worst pair {value.worst}")


def _region(failed: tuple[str, ...], objective: Any, budget: Budget, *, as_json: bool, quiet: bool) -> None:
    from fabric_plan.cli import balance_console, console
    from fabric_plan.planner import balance_result
    from fabric_plan.planner.dsf_region import region

    built = region()
    problems = built.problems(failed, objective)
    plans = [(name, console.solve(problem, "auto", budget, as_json=as_json, quiet=quiet)) for name, problem in problems]
    if as_json:
        parts = [{"part": name, **balance_result.result_document(plan)} for name, plan in plans]
        console.emit({"schema": "fabric-plan/region/1", "oversubscription": built.oversubscription, "parts": parts})
        return
    links = (
        built.buildings * built.building.links + built.superspine.links - built.buildings * built.edge.interfaces * 16
    )
    print(
        f"dsf:region: {built.buildings} L2 zones, {links:,} links, oversubscription {built.oversubscription:g} : 1 "
        "at the super-spine (hosts at 400G, as published)"
    )
    if not plans:
        print("Nothing has failed: nobody withdraws anything")
    for name, plan in plans:
        print(f"{name}: ", end="")
        balance_console.print_plan(plan, verbose=False)


@command.command("rank", short_help="Which single failure, drain or repair costs or gains most.")
@fabric_options
@click.option(
    "--next", "depth", type=click.IntRange(1, 1), default=1, show_default=True, help="How many changes ahead."
)
@click.option("--kinds", default="failure,drain,repair", metavar="K,...", show_default=True)
@click.option("--top", type=click.IntRange(1), default=10, show_default=True, help="Rows of each kind.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of --fail-rate.")
@click.option("--time-limit", "time_limit", type=float, default=60.0, metavar="SECONDS", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def rank_command(
    name: str,
    failed: tuple[str, ...],
    fail_rate: str | None,
    planes: int | None,
    devices: int | None,
    depth: int,
    kinds: str,
    top: int,
    seed: int,
    time_limit: float,
    as_json: bool,
) -> None:
    """Rank what could happen next by what it does to the best selections: total capacity, and the worst pair.

    Links at devices that have failures already are tried first; when the time limit ends the rest is left out, and that is said.
    """
    from fabric_plan.cli import console
    from fabric_plan.models.balance.rank import rank
    from fabric_plan.planner.balance import BalanceProblem
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.interface import Budget

    wanted = [one.strip() for one in kinds.split(",") if one.strip()]
    unknown = [one for one in wanted if one not in ("failure", "drain", "repair")]
    if unknown or not wanted:
        raise InvalidInput(f"kinds {kinds!r}: expected failure, drain, repair")
    fabric, down = load(name, failed, fail_rate, seed, planes, devices)
    found, complete = rank(BalanceProblem(fabric=fabric, failed=down), wanted, Budget(seconds=time_limit))  # type: ignore[arg-type]
    if as_json:
        changes = [
            {"kind": one.kind, "name": one.name, "total": one.total, "worst": one.worst, "unreachable": one.impossible}
            for one in found
        ]
        console.emit({"schema": "fabric-plan/rank/1", "complete": complete, "changes": changes})
        return
    print(
        f"{len(found):,} changes tried"
        + ("" if complete else " before the time limit: the rest is not ranked (--time-limit)")
    )
    for kind in wanted:
        best = [one for one in found if one.kind == kind][:top]
        if not best:
            continue
        print(f"{kind}s, the most {'useful' if kind == 'repair' else 'costly'} first:")
        lines = [["", "total", "worst pair", "pairs cut off"]]
        lines += [[one.name, f"{one.total:+,}", str(one.worst), f"{one.impossible:+,}"] for one in best]
        console.table(lines)


@command.command("compare", short_help="Scheduled fabric against hashing, pinning, adaptive and planned paths.")
@fabric_options
@click.option(
    "--traffic",
    type=click.Choice(["elephants", "aligned", "permutation", "uniform", "incast", "hot-spot", "ring", "all-to-all"]),
    default="aligned",
    show_default=True,
)
@click.option(
    "--size", default="1MB", metavar="SIZE", show_default=True, help="Of a flow, or what a rail of a job reduces."
)
@click.option(
    "--rails",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="GPUs a host, attached by rails (ring, all-to-all).",
)
@click.option("--at", default="10us", metavar="TIME", show_default=True, help="When the links of --fail die.")
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--seeds", type=click.IntRange(1), default=3, show_default=True, help="Runs of each scheme that draws.")
@click.option("--latency", default="500ns", metavar="TIME", show_default=True, help="Of a link.")
@click.option("--cell", default="256B", metavar="SIZE", show_default=True)
@click.option(
    "--converge", default="10us", metavar="TIME", show_default=True, help="From a failure until devices elsewhere know."
)
@click.option(
    "--replan", default="1ms", metavar="TIME", show_default=True, help="Until centrally planned paths are new."
)
@click.option(
    "--hyperports", type=click.IntRange(1), default=1, show_default=True, help="Parallel links that act as one port."
)
@click.option("-o", "--output", "output", default=None, metavar="FILE", help="A chart of it (.svg).")
@click.option("--json", "as_json", is_flag=True, help="One JSON document.")
def compare_command(
    name: str,
    failed: tuple[str, ...],
    fail_rate: str | None,
    planes: int | None,
    devices: int | None,
    traffic: str,
    size: str,
    rails: int,
    at: str,
    seed: int,
    seeds: int,
    latency: str,
    cell: str,
    converge: str,
    replan: str,
    hyperports: int,
    output: str | None,
    as_json: bool,
) -> None:
    """Run the same flows over the fabric in five ways, before and after failures: completion, skew, queues, reordering.

    scheduled sprays cells under credits; ecmp hashes flows; pinned fixes uplinks by destination; adaptive takes the least queue for
    each packet; central plans paths, which are stale after a failure.
    """
    from fabric_plan.cli import balance_console, console
    from fabric_plan.planner import files
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.simulator.cells import CellParams, Failure, compare
    from fabric_plan.planner.units import parse_size, parse_time

    if output is not None:
        files.check_writable(output)
        if not output.endswith(".svg"):
            raise InvalidInput(f"{output}: expected a name that ends in .svg")
    fabric, down = load(name, failed, fail_rate, seed, planes, devices)
    flows = _flows(fabric, traffic, int(parse_size(size)), rails, seed)
    params = CellParams(
        link_latency_s=float(parse_time(latency)),
        cell_bytes=int(parse_size(cell)),
        converge_s=float(parse_time(converge)),
        replan_s=float(parse_time(replan)),
        hyperports=hyperports,
    )
    reports = [("healthy", compare(fabric, flows, params=params, seeds=seeds, first_seed=seed))]
    if down:
        failure = Failure(links=down, at_s=float(parse_time(at)))
        many = f"{len(down)} links die" if len(down) > 3 else f"{', '.join(down)} dies"
        reports.append(
            (f"{many} at {at}", compare(fabric, flows, failure=failure, params=params, seeds=seeds, first_seed=seed))
        )
    if output is not None:
        from fabric_plan.planner.drawing.bars import bar_chart

        groups = [one.scheme for one in reports[0][1]]
        series = [(title, [one.ratio for one in rows]) for title, rows in reports]
        title = f"{fabric.name}, {traffic} of {size}: completion over the ideal"
        files.write_atomically(output, bar_chart(title, groups, series).encode())
    if as_json:
        console.emit(_comparison(reports))
    else:
        print(f"{len(flows)} flows ({traffic}, {size}) over {fabric.name}")
        balance_console.print_schemes(reports)
        if output is not None:
            print(f"Written to {output}")


def _flows(fabric: Dsf, traffic: str, size: int, rails: int, seed: int) -> Any:
    from fabric_plan.planner import traffic as matrices

    if traffic in ("elephants", "aligned"):
        return matrices.elephants(fabric, size, seed=seed, aligned=traffic == "aligned")
    if traffic == "permutation":
        return matrices.permutation(fabric, size, seed=seed)
    if traffic == "uniform":
        return matrices.uniform(fabric, size)
    if traffic == "incast":
        return matrices.incast(fabric, (0, 0, 0), size, seed=seed)
    if traffic == "hot-spot":
        return matrices.hot_spot(fabric, size, seed=seed)
    hosts = range(len(matrices.rail_ports(fabric, rails)))
    make = matrices.ring if traffic == "ring" else matrices.all_to_all
    return make(fabric, list(hosts), size, rails=rails)


def _comparison(reports: Any) -> dict[str, Any]:
    return {
        "schema": "fabric-plan/schemes/1",
        "situations": [
            {
                "situation": title,
                "schemes": [
                    {
                        "scheme": one.scheme,
                        "completion": one.completion_s,
                        "worst_completion": one.worst_s,
                        "ratio_to_ideal": one.ratio,
                        "skew": one.skew,
                        "reordered": one.reordered,
                        "resent": one.resent,
                        "fabric_queue_bytes": max(run.queues.fabric for run in one.runs),
                        "voq_bytes": max(run.queues.voq for run in one.runs),
                        "seeds": len(one.runs),
                    }
                    for one in rows
                ],
            }
            for title, rows in reports
        ],
    }
