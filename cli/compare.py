"""``fabric-plan compare``: which algorithm of a collective wins at which size."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from fabric_plan.cli.options import Group, output, talking
from fabric_plan.cli.schedule import PATTERNS

if TYPE_CHECKING:
    from fabric_plan.planner.comparison import Comparison

SUFFIXES = (".html", ".svg", ".png", ".csv", ".json")


@click.command("compare", short_help="Compare the algorithms of a collective over sizes.")
@click.argument("pattern", metavar="COLLECTIVE", type=click.Choice(PATTERNS))
@click.option("-f", "--fabric", required=True, metavar="F", help="A catalog name or a graph file.")
@click.option(
    "--sizes",
    default="1KiB:1GiB",
    metavar="FROM:TO[:FACTOR]",
    show_default=True,
    help="From one size to another, each four times the last (or FACTOR); or a list, as in 1KiB,64MiB.",
)
@click.option(
    "--group", type=Group(), default=None, metavar="SEATS", help="Ranks in order, as in 0-7,12 (default: all)."
)
@click.option("--discipline", type=click.Choice(["fifo", "fair"]), default="fifo", show_default=True)
@click.option(
    "--switching",
    type=click.Choice(["store-forward", "cut-through"]),
    default=None,
)
@output("Draw into this file: .html, .svg, .png; or write .csv, .json.")
@talking
def command(
    pattern: str,
    fabric: str,
    sizes: str,
    group: tuple[int, ...] | None,
    discipline: str,
    switching: str | None,
    output: str | None,
    as_json: bool,
    quiet: bool,
    verbose: bool,
) -> None:
    """Simulate every algorithm that suits a fabric, over sizes, beside the floors that no algorithm of its kind beats.

    \b
    Examples:
      fabric-plan compare all-reduce --fabric torus:8x8
      fabric-plan compare all-reduce --fabric nvl72 --sizes 1MiB:1GiB -o nvl72.html
    """
    from fabric_plan.cli import console
    from fabric_plan.models.schedule.compare import compare
    from fabric_plan.planner import files
    from fabric_plan.planner.comparison import document
    from fabric_plan.planner.simulator.service import Service

    suffix = None if output is None else PurePath(output).suffix.lower()
    if suffix is not None and suffix not in SUFFIXES:
        raise click.UsageError(f"-o {output}: expected a file name that ends in {', '.join(SUFFIXES)}")
    if output is not None:
        files.check_writable(output)
    live = sys.stderr.isatty() and not quiet and not as_json

    def progress(note: str) -> None:
        if live:
            sys.stderr.write(f"\r{note:<60}")
            sys.stderr.flush()

    known = files.load_fabric(fabric)
    found = compare(
        known,
        pattern,
        parse_sizes(sizes),
        group=group,
        service=Service(discipline=discipline, switching=switching or known.costs.switching),
        on_progress=progress,
    )
    if live:
        sys.stderr.write("\r" + " " * 60 + "\r")
    if output is not None and suffix is not None:
        files.write_atomically(output, _written(found, suffix))
    if as_json:
        console.emit(document(found))
    else:
        _print(found, verbose=verbose)


def parse_sizes(text: str) -> list[Fraction]:
    """Return the sizes that ``FROM:TO[:FACTOR]`` or a list names, in ascending order.

    Raises
    ------
    InvalidInput
        When they cannot be read, or are too many.
    """
    from fabric_plan.planner.errors import InvalidInput
    from fabric_plan.planner.units import parse_size

    if ":" not in text:
        return sorted({parse_size(part) for part in text.split(",")})
    parts = text.split(":")
    if len(parts) not in (2, 3):
        raise InvalidInput(f"sizes {text!r}: expected FROM:TO or FROM:TO:FACTOR, as in 1KiB:1GiB:2")
    low, high = parse_size(parts[0]), parse_size(parts[1])
    try:
        factor = Fraction(parts[2]) if len(parts) == 3 else Fraction(4)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if low > high or factor <= 1:
        raise InvalidInput(f"sizes {text!r}: the first must not be larger than the last, and the factor greater than 1")
    found = [low]
    while found[-1] * factor <= high:
        found.append(found[-1] * factor)
        if len(found) > 200:
            raise InvalidInput(f"sizes {text!r}: more than 200 sizes")
    return found if found[-1] == high else [*found, high]


def _written(found: Comparison, suffix: str) -> bytes:
    from fabric_plan.planner import comparison

    write: Any = {
        ".html": comparison.write_html,
        ".svg": comparison.write_svg,
        ".png": comparison.write_png,
        ".csv": comparison.write_csv,
        ".json": comparison.write_json,
    }[suffix]
    data: bytes = write(found)
    return data


def _print(found: Comparison, *, verbose: bool) -> None:
    from fabric_plan.cli.console import table
    from fabric_plan.planner import comparison
    from fabric_plan.planner.units import format_size

    print(comparison.headline(found))
    for name, text in comparison.fact_rows(found):
        print(f"  {name:<22} {text}")
    table(comparison.time_rows(found))
    print("At the largest size:")
    table(comparison.summary_rows(found))
    for size, before, after in found.crossovers:
        print(f"  {before} up to about {format_size(size)}, then {after}")
    if verbose:
        for name, reason in found.refused.items():
            print(f"  {name} does not suit: {reason}")
