"""``fabric-plan calibrate``: a fabric that predicts what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import output, talking

if TYPE_CHECKING:
    from fabric_plan.planner.calibration import Calibration


@click.command("calibrate", short_help="Fit a fabric's latency and bandwidth to a measured nccl-tests log.")
@click.argument("log_file", metavar="LOG")
@click.option(
    "-f", "--fabric", required=True, metavar="F", help="The fabric that was measured: catalog name or graph file."
)
@click.option("--collective", default=None, metavar="C", help="all-reduce, ... (default: what the log says).")
@click.option(
    "--algorithm",
    type=click.Choice(["ring", "in-network", "direct"]),
    default="ring",
    show_default=True,
    help="What the library ran.",
)
@click.option("--ranks", type=int, default=None, metavar="P", help="How many took part (default: the log's, else all).")
@click.option(
    "--class",
    "link_class",
    default=None,
    metavar="NAME",
    help="The class of links that the curve measures (default: the one that bounds the routes).",
)
@click.option(
    "--protocol", default=None, metavar="NAME", help="The one protocol that was measured (NCCL_PROTO), as in ll128."
)
@click.option(
    "--protocols",
    type=click.Choice(["auto", "1", "2", "3"]),
    default="auto",
    show_default=True,
    help="Ranges of sizes that are fitted apart.",
)
@click.option(
    "--alpha", default=None, metavar="TIME", help="Latency from rank to rank, as in 3.4us (default: the fabric's)."
)
@click.option(
    "--hold-out",
    type=int,
    default=None,
    metavar="K",
    help="Leave every K-th point out of the fit (default: each once).",
)
@output("Write the calibrated fabric (a graph file; - for stdout).")
@talking
def command(
    log_file: str,
    fabric: str,
    collective: str | None,
    algorithm: str,
    ranks: int | None,
    link_class: str | None,
    protocol: str | None,
    protocols: str,
    alpha: str | None,
    hold_out: int | None,
    output: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Fit latency, bandwidth and a fixed cost to the log (- for stdin) of nccl-tests or rccl-tests.

    The time of n bytes is taken as fixed + L alpha + W n / B. A table under the header "size,time_us" is read as well.

    \b
    Examples:
      fabric-plan calibrate all_reduce.log --fabric nvl72 -o mine.json
      fabric-plan compare all-reduce --fabric mine.json
    """
    from fabric_plan.cli import console
    from fabric_plan.planner import files
    from fabric_plan.planner.calibration import calibrate
    from fabric_plan.planner.formats.graph_json import write_graph
    from fabric_plan.planner.formats.nccl_tests import parse_log
    from fabric_plan.planner.units import parse_time

    if output is not None:
        files.check_writable(output)
    log = parse_log(files.read_bytes(log_file).decode("utf-8", "replace"), log_file)
    known = files.load_fabric(fabric)
    found = calibrate(
        known,
        log.points,
        collective=collective or log.collective or "all-reduce",
        algorithm=algorithm,
        ranks=ranks if ranks is not None else log.ranks,
        alpha=None if alpha is None else parse_time(alpha),
        link_class=link_class,
        protocols=None if protocols == "auto" else int(protocols),
        protocol=protocol,
        hold_out=hold_out,
    )
    if output is not None:
        files.write_atomically(output, write_graph(found.fabric))
    if as_json:
        if output != "-":
            console.emit(document(found))
    elif output != "-":
        _print(found)
        if output is not None:
            print(f"Written to {output}")


def document(found: Calibration) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    from fabric_plan.planner.result import number

    def points(some: Any) -> list[dict[str, Any]]:
        return [
            {
                "size": one.size,
                "measured": number(one.measured),
                "predicted": number(one.predicted),
                "error": one.error,
                "outside": one.outside,
            }
            for one in some
        ]

    return {
        "schema": "fabric-plan/calibration/1",
        "fabric": found.fabric.name,
        "collective": found.collective,
        "algorithm": found.algorithm,
        "ranks": found.ranks,
        "link_class": found.link_class,
        "ranges": [
            {
                "name": one.name,
                "max_size": one.max_size,
                "alpha": number(one.alpha),
                "fixed": number(one.fixed),
                "bandwidth": one.bandwidth,
                "points": one.points,
            }
            for one in found.ranges
        ],
        "points": points(found.points),
        "worst": found.worst,
        "held_out": points(found.held_out),
        "worst_held_out": found.worst_held_out,
        "notes": list(found.notes),
    }


def _print(found: Calibration) -> None:
    from fabric_plan.cli.console import table
    from fabric_plan.planner.units import format_bandwidth, format_size, format_time

    print(
        f"{found.collective} by {found.algorithm} over {found.ranks} ranks on {found.fabric.name}, "
        f"links {found.link_class!r}: time = fixed + L alpha + W n / B"
    )
    rows = [("protocol", "up to", "alpha", "B between neighbours", "fixed", "points")]
    for fit in found.ranges:
        top = "-" if fit.max_size is None else format_size(fit.max_size)
        rows.append(
            (
                fit.name,
                top,
                format_time(fit.alpha),
                format_bandwidth(fit.bandwidth),
                format_time(fit.fixed),
                str(fit.points),
            )
        )
    table(rows)
    unseen = {one.size: one for one in found.held_out}
    sizes = [("size", "measured", "predicted", "error", "unseen")]
    seen = {one.size: one for one in found.points}
    for size in sorted({*unseen, *seen}):
        one = seen.get(size) or unseen[size]
        blind = unseen.get(size)
        told = "-" if blind is None else f"{blind.error * 100:+.2f} %{' (outside)' if blind.outside else ''}"
        fitted = f"{one.error * 100:+.2f} %" if size in seen else "-"
        sizes.append((format_size(size), format_time(one.measured), format_time(one.predicted), fitted, told))
    table(sizes)
    held = found.worst_held_out
    tail = "" if held is None else f"; {held * 100:.2f} % at points that a fit had not seen, between others"
    print(f"Largest error {found.worst * 100:.2f} %{tail}")
    for note in found.notes:
        print(f"  {note}")
