"""Options that several commands share, and the types that read their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from fabric_plan.planner.interface import Budget
    from fabric_plan.planner.workload import Volume

Command = TypeVar("Command", bound=Callable[..., Any])


class Volumes(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.2 on only
    """Sizes per dimension: ``mp=64MiB,dp=1GiB,pp=8MiB``, with ``*COUNT`` for several collectives."""

    name = "volumes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, Volume]:
        """Return a dict from dimension to volume."""
        from fabric_plan.planner.parallelism import DIMENSIONS
        from fabric_plan.planner.workload import Volume

        if isinstance(value, dict):
            return value
        found: dict[str, Volume] = {}
        for part in str(value).split(","):
            name, sign, size = part.strip().partition("=")
            key = {"tp": "mp"}.get(name.lower(), name.lower())
            if not sign or key not in DIMENSIONS:
                self.fail(f"cannot read {part!r}: expected sizes per dimension, as in mp=64MiB,dp=1GiB,pp=8MiB")
            if key in found:
                self.fail(f"{name} is given twice")
            found[key] = Volume.parse(size)
        return found


class Group(click.ParamType):  # type: ignore[type-arg]
    """Seats in order: ``0-7,12``."""

    name = "seats"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the seats, in the order given."""
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for part in str(value).split(","):
            first, dash, last = part.strip().partition("-")
            if not first.isascii() or not first.isdigit() or (dash and not (last.isascii() and last.isdigit())):
                self.fail(f"cannot read {part!r}: expected seats, as in 0-7,12")
            if max(len(first), len(last)) > 9:
                self.fail(f"{part!r}: there is no such seat")
            a, b = int(first), int(last or first)
            if b - a > 1_000_000:
                self.fail(f"{part!r}: more seats than any fabric has")
            found += range(a, b + 1) if a <= b else range(a, b - 1, -1)
        return tuple(found)


def solving(function: Command) -> Command:
    """Add the options of every command that solves."""
    options = [
        click.option(
            "--planner",
            default="auto",
            metavar="NAME",
            help="auto, or a method by its name.",
            show_default=True,
        ),
        click.option(
            "--time-limit",
            "time_limit",
            type=float,
            default=60.0,
            metavar="SECONDS",
            help="Wall seconds to spend at most.",
            show_default=True,
        ),
        click.option(
            "--workers", type=int, default=None, metavar="N", help="Threads of the exact solver (default: up to 8)."
        ),
        click.option("--seed", type=int, default=0, metavar="N", help="Of every random choice.", show_default=True),
        click.option(
            "--deterministic", is_flag=True, help="Same seed, same bytes: one thread, work limits instead of time."
        ),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def talking(function: Command) -> Command:
    """Add the options of every command that reports."""
    options = [
        click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; everything else on stderr."),
        click.option("-q", "--quiet", is_flag=True, help="No progress."),
        click.option("-v", "--verbose", is_flag=True, help="More detail: every load, every step of the proof."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def output(help_text: str) -> Callable[[Command], Command]:
    """Add ``-o/--output``."""
    return click.option("-o", "--output", "output", default=None, metavar="FILE", help=help_text)


def check_output(output: str | None, *, as_json: bool) -> None:
    """Refuse now what could not be written later."""
    from fabric_plan.planner.files import check_writable

    if output is not None:
        check_writable(output)
        if output == "-" and as_json:
            raise click.UsageError("--json and -o - both write to stdout: give -o a file")


def budget_of(time_limit: float, workers: int | None, seed: int, deterministic: bool) -> Budget:
    """Return the budget of the options of :func:`solving`."""
    from fabric_plan.planner.interface import Budget

    if workers is None:
        return Budget(seconds=time_limit, seed=seed, deterministic=deterministic)
    return Budget(seconds=time_limit, workers=workers, seed=seed, deterministic=deterministic)
