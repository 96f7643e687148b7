"""Write results/packing.md: the collectives of placements packed together, against their bound and what one would do without.

``python results/packing.py``: each case is placed (15 s at most) with Transformer-17B's volumes of one iteration, then scheduled.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

import fabric_plan
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.placed_jobs import placed_jobs
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.units import format_time

CASES = (("MP3-DP3-PP2", "mesh:4x5"), ("MP2-DP5-PP2", "mesh:4x5"), ("MP4-DP4-PP4", "torus:8x8"))
PLACERS = ("auto", "mp-pp-dp")
WORKLOAD = "transformer-17b"
PLACING_S, PACKING_S = 15.0, 60.0

HEAD = """# Packing the collectives of placements

All MP, DP and PP collectives of one iteration of {workload} at once, on a placement that `fabric-plan place` finds (in {placing:g} s, one
worker) and on the usual order (MP, then PP, then DP on consecutive NPUs). *Bound*: what any schedule takes at least; *packed*: the time of `fabric-plan schedule --placement`, simulated,
its data followed; *together*: each collective by its best standard algorithm, all started at once; *in turn*: the same, one
collective after another; *by dimension*: MP, then DP, then PP. *Transfers*: of the schedule; *CPU*: of `schedule`, placing not counted.

{machine}

| strategy | fabric | placed by | jobs | bound | packed | gap | status | together | by dimension | in turn | transfers | CPU |
|---|---|---|--:|--:|--:|--:|---|--:|--:|--:|--:|--:|
"""


def row(strategy: str, fabric: str, placer: str) -> str:
    """Return a row of the table."""
    problem = PlacementProblem.of(fabric, strategy, workload=WORKLOAD)
    placement = fabric_plan.plan(problem, planner=placer, budget=Budget(seconds=PLACING_S, workers=1))
    began = time.process_time()
    found = fabric_plan.plan(placed_jobs(placement), budget=Budget(seconds=PACKING_S, workers=1))
    spent = time.process_time() - began
    certificate, usual = found.certificate, {one.name: format_time(one.value) for one in found.baselines}
    assert certificate.bound is not None and certificate.gap is not None
    cells = [
        strategy, fabric, placer, str(len(found.problem.jobs)), format_time(certificate.bound), format_time(certificate.objective),
        f"{float(certificate.gap) * 100:.2g} %", certificate.status.value, usual["together"], usual["by priority"],
        usual["one after another"], f"{len(found.transfers):,}", f"{spent:.1f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Run all cases and write the page."""
    machine = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}."
    rows = []
    for strategy, fabric in CASES:
        for placer in PLACERS:
            rows.append(row(strategy, fabric, placer))
            print(rows[-1], flush=True)
    page = HEAD.format(workload=WORKLOAD, placing=PLACING_S, machine=machine) + "\n".join(rows) + "\n"
    Path(__file__).with_suffix(".md").write_text(page)


if __name__ == "__main__":
    main()
