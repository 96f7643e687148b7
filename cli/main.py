"""The command ``fabric-plan``: its commands, loaded one by one as they are called, and what every error becomes."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

COMMANDS = {
    "place": ("place", "Place the workers of a 3D-parallel job on a fabric's NPUs."),
    "schedule": ("schedule", "Schedule a collective on a fabric."),
    "route": ("route", "Route collectives through a FRED switch."),
    "balance": ("balance", "Choose the links that withdraw reachability after failures (DSF)."),
    "overlap": ("overlap", "Simulate overlapping phases on a FRED switch, packet by packet."),
    "simulate": ("simulate", "Simulate a plan: times, link loads, critical path, traces."),
    "compare": ("compare", "Compare the algorithms of a collective over sizes."),
    "calibrate": ("calibrate", "Fit a fabric's latency and bandwidth to a measured nccl-tests log."),
    "validate": ("validate", "Check a plan against every rule; exit 1 when it is not valid."),
    "show": ("show", "Draw a plan: in the terminal, or as SVG, HTML or PNG."),
    "export": ("export", "Write a plan in a form that other tools load."),
    "color": ("color", "Prove the chromatic number of a DIMACS graph."),
    "prove": ("prove", "Check a claim case by case: which strategies route on a FRED switch."),
    "fabric": ("fabric", "List, show and convert fabrics."),
}

EXIT_NO, EXIT_INPUT, EXIT_NOTHING, EXIT_DEFECT = 1, 2, 3, 70


class _Group(click.Group):
    """Loads a command's module only when that command is called, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"fabric_plan.cli.{COMMANDS[name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            from fabric_plan.planner.errors import suggest

            raise click.UsageError(
                f"unknown command {args[0]!r}{suggest(args[0], list(COMMANDS))}: expected one of {', '.join(COMMANDS)}"
            ) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _version() -> str:
    from fabric_plan import __version__

    return __version__


@click.command(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), "-V", "--version", prog_name="fabric-plan")
def command() -> None:
    """Plan the networks inside AI machines, with proofs and an independent simulator.

    Every answer carries its status, objective, proven bound and gap, and has been simulated before you see it.

    \b
    Exit codes: 0 done; 1 the answer is no; 2 bad input; 3 nothing found in
    time; 70 a defect of fabric-plan.
    """


def run() -> None:
    """Run the command line; every foreseen error is one line on stderr and an exit code."""
    from fabric_plan.planner import errors

    # No command multiplies matrices, and starting a thread pool for that takes longer than many commands.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = command.main(standalone_mode=False, prog_name="fabric-plan")
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        _fail("interrupted", EXIT_NOTHING)
    except click.NoSuchOption as error:
        hint = f" (did you mean {error.possibilities[0]}?)" if error.possibilities else ""
        _fail(f"no such option {error.option_name}{hint}: fabric-plan {_where(error)}--help lists them", EXIT_INPUT)
    except click.ClickException as error:
        _fail(error.format_message().rstrip("."), EXIT_INPUT)
    except errors.Infeasible as error:
        core = f" (in conflict: {', '.join(error.core)})" if error.core else ""
        _fail(f"infeasible: {error}{core}", EXIT_NO)
    except errors.LimitReached as error:
        _fail(str(error), EXIT_NOTHING)
    except errors.PlanRejected as error:
        _fail(f"a defect of fabric-plan: {error}; please report the command line and this message", EXIT_DEFECT)
    except errors.FabricPlanError as error:
        _fail(str(error), EXIT_INPUT)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_NOTHING)
    except BrokenPipeError:
        # The reader of a pipe has gone; there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except MemoryError:
        _fail("out of memory: the problem is too large for this machine", EXIT_NOTHING)
    except Exception as error:
        if os.environ.get("FABRIC_PLAN_DEBUG"):
            raise
        what = f"{type(error).__name__}: {error}"
        _fail(f"a defect of fabric-plan: {what}; please report it (FABRIC_PLAN_DEBUG=1 shows where)", EXIT_DEFECT)


def _where(error: click.UsageError) -> str:
    name = error.ctx.info_name if error.ctx is not None and error.ctx.parent is not None else ""
    return f"{name} " if name else ""


def _fail(message: str, code: int) -> Any:
    text = " ".join(message.split())
    print(f"fabric-plan: {text}", file=sys.stderr)
    sys.exit(code)
