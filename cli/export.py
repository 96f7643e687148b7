"""``fabric-plan export``: a plan in a form that other tools load."""

from __future__ import annotations

import click

from fabric_plan.cli.options import output

FORMS = ("csv", "megatron-order")


@click.command("export", short_help="Write a plan in a form that other tools load.")
@click.argument("plan_file", metavar="PLAN")
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMS),
    required=True,
    help="csv: a table of all workers; megatron-order: which NPU each global rank takes.",
)
@output("Write it here (default: stdout).")
def command(plan_file: str, form: str, output: str | None) -> None:
    """Write a plan file (- for stdin) in another form.

    \b
    Examples:
      fabric-plan export plan.json --to csv -o plan.csv
      fabric-plan export plan.json --to megatron-order
    """
    from fabric_plan.cli.show import placement_of, valid_plan
    from fabric_plan.planner import files
    from fabric_plan.planner.formats import csv_table, megatron

    output = output or "-"
    files.check_writable(output)
    write = {"csv": csv_table.write_csv, "megatron-order": megatron.write_megatron_order}[form]
    files.write_atomically(output, write(placement_of(valid_plan(plan_file), plan_file)))
