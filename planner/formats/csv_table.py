"""Placements as a table: one line a worker, for spreadsheets and scripts."""

from __future__ import annotations

import csv
import io

from fabric_plan.planner.fabric import coordinates
from fabric_plan.planner.plan import PlacementPlan


def write_csv(plan: PlacementPlan) -> bytes:
    """Return a plan as comma-separated values with a header, one line a worker in rank order.

    The columns are ``worker`` (its name), its digit along each dimension of the strategy, ``rank`` (in Megatron's
    order), ``seat`` (the number of the NPU), ``node`` (its name) and ``position`` (row:column on a grid, else empty).
    """
    fabric, strategy = plan.problem.fabric, plan.problem.strategy
    stream = io.StringIO()
    table = csv.writer(stream, lineterminator="\n")
    table.writerow(["worker", *strategy.dimensions, "rank", "seat", "node", "position"])
    for rank, seat in enumerate(plan.seats):
        position = ":".join(map(str, coordinates(seat, fabric.shape))) if fabric.shape else ""
        node = fabric.nodes[fabric.seats[seat]].name
        table.writerow([strategy.name(rank), *strategy.digits(rank), rank, seat, node, position])
    return stream.getvalue().encode()
