"""The propagation of reachability told device by device, as the fabric's published walk-throughs go."""

from __future__ import annotations

import numpy as np

from fabric_plan.planner.balance import BalanceProblem, Profile
from fabric_plan.planner.simulator.balance import propagated
from fabric_plan.planner.simulator.balance_rows import Row, device_name, rows
from fabric_plan.planner.simulator.reach import Pair

MOST = 12
"""Destinations that are told one by one; those that go alike are told once."""


def explain(problem: BalanceProblem, profiles: tuple[Profile, ...], copy: int) -> list[str]:
    """Return the story of a copy: failures, then, for each zone and destination, what each device advertises and withdraws.

    Destinations towards which everything goes the same way are told together; those without a failure on their way are only counted.
    """
    fabric = problem.fabric
    down = [fabric.link_name(link) for link in problem.failures if link.copy == copy]
    head = f"copy {copy}: " if fabric.copies > 1 else ""
    lines = [f"{head}links down: {', '.join(down[:MOST]) or 'none'}{' ...' if len(down) > MOST else ''}"]
    table: dict[tuple[int, int, int], list[Row]] = {}
    for row in rows(problem, profiles, copy):
        table.setdefault((row.zone, row.home, row.destination), []).append(row)
    told: dict[tuple[str, ...], list[Pair]] = {}
    for pair in propagated(problem, profiles, copy):
        steps = _pair(problem, pair, table.get((pair.zone, pair.home, pair.destination), []), copy)
        told.setdefault((str(pair.zone), str(pair.home), *steps), []).append(pair)
    quiet = 0
    shown = 0
    for (_, _, *story), pairs in told.items():
        first = pairs[0]
        if len(story) == 1:
            quiet += len(pairs)
            continue
        shown += 1
        if shown > MOST:
            continue
        home = fabric.zones[first.home]
        names = [home.interface_names[one.destination] for one in pairs]
        where = (
            f"{fabric.zones[first.zone].name} to {home.name}/{', '.join(names[:8])}{' ...' if len(names) > 8 else ''}"
        )
        lines.append(f"{head}{where}:")
        lines += [f"  {line}" for line in story]
    if shown > MOST:
        lines.append(f"{head}{shown - MOST} more kinds of destinations go in ways of their own")
    if quiet:
        lines.append(f"{head}{quiet} pairs of a zone and a destination: nothing is withdrawn, and nothing is missing")
    return lines


def _pair(problem: BalanceProblem, pair: Pair, found: list[Row], copy: int) -> list[str]:
    """Return the steps of one destination; one line alone where no device has anything to tell."""
    fabric = problem.fabric
    live = problem.live(copy)
    zone = fabric.zones[pair.zone]
    steps = []
    for row in found:
        name = device_name(problem, row)
        if not row.output:
            steps.append(f"{name} has no way on: it advertises nothing")
            continue
        if row.kind == "spine":
            gone = live.upper_links[pair.zone][:, row.index] & ~pair.upper_links[:, row.index]
            towards = zone.fabric_names
        else:
            gone = live.lower_links[pair.zone][:, row.index] & ~pair.lower_links[:, row.index]
            towards = zone.interface_names
        if row.before <= row.output and not gone.any():
            if row.input_failed or row.output_failed:
                steps.append(f"{name}: {_state(row)}: it may keep all")
            continue
        names = ", ".join(_links(towards[k], int(gone[k]), fabric.widest) for k in np.flatnonzero(gone))
        verb = f"it stops advertising to {names}" if names else "it keeps all"
        steps.append(
            f"{name}: input {row.before} over output {row.output}: {verb}: {row.before} -> {row.input} ({row.output})"
        )
    vector = ",".join(map(str, pair.capacity.tolist()[:24])) + (",..." if len(pair.capacity) > 24 else "")
    return [*steps, f"first-hop links of {zone.name}'s interface nodes: {vector}"]


def _state(row: Row) -> str:
    failed = (
        f", {row.input_failed} in and {row.output_failed} out down" if row.input_failed or row.output_failed else ""
    )
    return f"input {row.input}, output {row.output}{failed}"


def _links(name: str, mask: int, widest: int) -> str:
    """Return a mask of parallel links as names: the first without a number."""
    return ", ".join(name + (f"#{k}" if k else "") for k in range(max(1, widest)) if mask >> k & 1)
