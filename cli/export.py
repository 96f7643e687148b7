"""``fabric-plan export``: a plan in a form that other tools load."""

from __future__ import annotations

import click

from fabric_plan.cli.options import output

SCHEDULES = ("msccl-xml", "mscclpp-json", "chrome-trace")
FORMS = ("csv", "megatron-order", *SCHEDULES)


@click.command("export", short_help="Write a plan in a form that other tools load.")
@click.argument("plan_file", metavar="PLAN")
@click.option(
    "--to",
    "form",
    type=click.Choice(FORMS),
    required=True,
    help="Of placements: csv (a table of all workers), megatron-order (which NPU each global rank takes). Of schedules: msccl-xml, mscclpp-json, chrome-trace.",
)
@output("Write it here (default: stdout).")
def command(plan_file: str, form: str, output: str | None) -> None:
    """Write a plan file (- for stdin) in another form.

    \b
    Examples:
      fabric-plan export plan.json --to csv -o plan.csv
      fabric-plan export plan.json --to megatron-order
      fabric-plan export schedule.json --to msccl-xml -o ag.xml
    """
    from fabric_plan.cli.show import placement_of, valid_plan
    from fabric_plan.planner import files
    from fabric_plan.planner.formats import csv_table, megatron

    output = output or "-"
    files.check_writable(output)
    if form in SCHEDULES:
        from fabric_plan.cli.schedule_export import schedule_in, write_schedule

        write_schedule(schedule_in(valid_plan(plan_file), plan_file, form), form, output)
        return
    write = {"csv": csv_table.write_csv, "megatron-order": megatron.write_megatron_order}[form]
    files.write_atomically(output, write(placement_of(valid_plan(plan_file), plan_file)))
