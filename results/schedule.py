"""Write results/schedule.md: bounds, packed trees, synchronous steps and large tori, with what they took.

``python results/schedule.py FOLDER``: FOLDER holds graph files; the project's own, instances/fabrics, by default.
"""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable
from fractions import Fraction
from math import ceil
from pathlib import Path
from typing import Any

import fabric_plan
from fabric_plan.models.schedule import exchange
from fabric_plan.models.schedule.cuts import gather_cut
from fabric_plan.models.schedule.forest import MOST_EDGES, packing_of
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.logical import logical
from fabric_plan.models.schedule.metric import all_to_all_bound
from fabric_plan.models.schedule.packing import seconds_of
from fabric_plan.models.schedule.planners import schedule_of
from fabric_plan.models.schedule.synchronous import fewest_rounds, frontier, net_of
from fabric_plan.planner.degraded import degraded
from fabric_plan.planner.errors import FabricPlanError
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem

ROOT = Path(__file__).parents[1]
CELLS = [
    *(("dgx1", s, c) for s, c in [(2, 1), (2, 2), (2, 3), (2, 4), (2, 5), (2, 6), (3, 2), (3, 3), (3, 4), (3, 5), (3, 6)]),
    ("torus:4x4", 4, 1), ("torus:4x4", 4, 4), ("torus:3x3x3", 5, 1), ("hypercube3", 3, 3), ("mesh:4x4", 6, 1),
    ("torus:8x8", 16, 1), ("torus:4x4x4", 11, 1), ("torus:4x4x4", 21, 2),
]  # fmt: skip
BLOCKS = [("dgx1", 2, 1), ("dgx1", 2, 3), ("dgx1", 8, 3), ("ring:8", 4, 1), ("hypercube3", 3, 1), ("torus:3x3", 2, 1)]
UNEQUAL = [
    ("torus:4x8", ""), ("torus:8x16", ""), ("torus:4x4x8", ""), ("torus:8x8x4", ""),
    ("torus:8x8", "(3,3)"), ("torus:4x4x4", "(1,1,1)"), ("torus:16x16", "(3,3)"),
]  # fmt: skip
DOWN = [
    ("a plane", ("plane3",), None), ("3 links", ("gpu0:plane1", "gpu5:plane2", "gpu9:plane3"), None), ("37 GPUs", (), range(37)),
]  # fmt: skip
TORI = ("torus:8x8", "torus:16x16", "torus:8x8x8")
MOST_RANKS = 130


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what some work gave, and its CPU seconds."""
    began = time.process_time()
    found = work()
    return found, time.process_time() - began


def group_of(name: str, pattern: str = "all-gather") -> Group:
    """Return the group of all seats of a fabric."""
    path = ROOT / "instances" / "fabrics" / f"{name}.json"
    fabric = load_fabric(str(path) if path.exists() else name)
    return Group(fabric, ScheduleProblem.of(fabric, pattern, Fraction(1 << 30)).jobs[0])


def fabrics(folder: Path) -> list[str]:
    """Return the table of bounds and trees."""
    lines = [
        "## Bounds and trees",
        "",
        "Bound: the worst cut, exact; all-to-all by lengths of links, exact for the lengths found. Trees: throughput as a part of the bound's (1 is exact, in rationals), greatest height, different trees a root, CPU "
        "seconds. Gap: how far the simulated time of the schedule along them (1 GiB) is above the lower bound, latency included.",
        "",
        "| fabric | NPUs | all-gather bound GB/s | bound s | all-to-all bound GB/s | bound s | of the bound | height | trees a root | pack s | all-gather gap | reduce-scatter gap | all-reduce gap |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for path in sorted(folder.glob("*.json")):
        group = group_of(str(path))
        if group.size > MOST_RANKS:
            continue
        cut, bound_seconds = timed(lambda group=group: gather_cut(group.fabric, group.nodes.tolist()))
        rate = float(group.size / cut.seconds) / 1e9
        pairs, pairs_seconds = timed(lambda group=group: all_to_all_bound(group.fabric, group.nodes.tolist()))
        blocks = f"{float(group.size / pairs) / 1e9:.3f}" if pairs else "-"
        row = f"| {path.stem} | {group.size} | {rate:.3f} | {bound_seconds:.3f} | {blocks} | {pairs_seconds:.2f} |"
        try:
            packing, seconds = timed(lambda group=group: packing_of(group))
        except FabricPlanError:
            lines.append(f"{row} more than {MOST_EDGES:,} pairs: not packed | | | | | | |")
            print(lines[-1], flush=True)
            continue
        part = cut.seconds / seconds_of(packing, logical(group, cut.seconds).width)
        row += f" {'1' if part == 1 else f'{float(part):.4f}'} | {packing.height} | {len(packing.trees) / group.size:.3g} | {seconds:.2f} |"
        for pattern in ("all-gather", "reduce-scatter", "all-reduce"):
            problem = ScheduleProblem.of(group.fabric, pattern, Fraction(1 << 30))
            try:
                key = fabric_plan.plan(problem, planner="trees", budget=Budget(seconds=120)).certificate.keys[0]
                row += f" {(float(key.value / key.bound) - 1) * 100:.2f} % |" if key.bound else " - |"
            except FabricPlanError as error:
                row += f" {str(error)[:40]} |"
        lines.append(row)
        print(row, flush=True)
    return lines


def steps() -> list[str]:
    """Return the table of synchronous steps."""
    lines = [
        "",
        "## Synchronous steps",
        "",
        "All-gathers: fewest rounds for steps S and chunks C, the bound proved, and wall seconds on two workers.",
        "",
        "| fabric | S | C | rounds | bound | by | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, many, chunks in CELLS:
        net = net_of(group_of(name))
        began = time.perf_counter()
        one = fewest_rounds(net, many, chunks, Budget(seconds=60, workers=2))
        wall = time.perf_counter() - began
        lines.append(f"| {name} | {many} | {chunks} | {one.total} | {one.bound} | {one.proof} | {wall:.2f} |")
        print(lines[-1], flush=True)
    points, seconds = timed(lambda: frontier(net_of(group_of("dgx1")), Budget(seconds=60, workers=2)))
    told = "; ".join(f"S={one.steps}: {Fraction(one.total, one.chunks)}" for one in points)
    lines += ["", f"Frontier of dgx1 (rounds a chunk): {told}; {seconds:.2f} s of CPU."]
    return lines


def tori() -> list[str]:
    """Return the table of rotations."""
    lines = [
        "",
        "## Tori of equal sides",
        "",
        "`rotations`, one chunk a rank, 1 GiB: the whole plan made, simulated and judged.",
        "",
        "| fabric | transfers | gap | CPU s |",
        "|---|---|---|---|",
    ]
    for name in TORI:
        problem = ScheduleProblem.of(name, "all-gather", Fraction(1 << 30))
        plan, seconds = timed(
            lambda problem=problem: fabric_plan.plan(problem, planner="rotations", budget=Budget(seconds=120))
        )
        key = plan.certificate.keys[0]
        assert key.bound is not None
        lines.append(
            f"| {name} | {len(plan.transfers):,} | {(float(key.value / key.bound) - 1) * 100:.2f} % | {seconds:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def exchanges() -> list[str]:
    """Return the tables of all-to-alls in steps, of all-gathers on unequal and damaged tori, and of NVL72 after failures."""
    lines = [
        "",
        "All-to-alls: blocks a pair, fewest rounds.",
        "",
        "| fabric | S | blocks | rounds | bound | by | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, many, blocks in BLOCKS:
        group = group_of(name, "all-to-all")
        began = time.perf_counter()
        one = exchange.fewest_rounds(group, net_of(group), many, blocks, Budget(seconds=60, workers=2))
        lines.append(
            f"| {name} | {many} | {blocks} | {one.total} | {one.bound} | {one.proof} | {time.perf_counter() - began:.2f} |"
        )
        print(lines[-1], flush=True)
    lines += [
        "",
        "Tori of unequal sides, and without a chip: all-gathers of one chunk in the fewest steps.",
        "",
        "| fabric | without | bound | steps | s |",
        "|---|---|---|---|---|",
    ]
    for name, chip in UNEQUAL:
        fabric, alive = degraded(load_fabric(name), [chip] if chip else [])
        group = Group(fabric, ScheduleProblem.of(fabric, "all-gather", 1 << 30, group=alive).jobs[0])
        net = net_of(group)
        least = max(net.diameter, ceil(net.per_chunk))
        began = time.perf_counter()
        found = fewest_rounds(net, least, 1, Budget(seconds=60, workers=2))
        lines.append(f"| {name} | {chip or '-'} | {least} | {found.total} | {time.perf_counter() - began:.2f} |")
        print(lines[-1], flush=True)
    lines += [
        "",
        "## NVL72 after failures",
        "",
        "1 GiB; gap of the simulated time above the bound of what is left.",
        "",
        "| down | all-gather | reduce-scatter | all-to-all | all-reduce, in-network |",
        "|---|---|---|---|---|",
    ]
    for what, failed, ranks in DOWN:
        fabric, alive = degraded(load_fabric("nvl72"), failed)
        row = f"| {what} |"
        for pattern, name in (
            ("all-gather", "direct"),
            ("reduce-scatter", "direct"),
            ("all-to-all", "direct"),
            ("all-reduce", "in-network"),
        ):
            key = schedule_of(
                ScheduleProblem.of(fabric, pattern, 1 << 30, group=ranks or alive), name
            ).certificate.keys[0]
            assert key.bound
            row += f" {(float(key.value / key.bound) - 1) * 100:.2f} % |"
        lines.append(row)
        print(row, flush=True)
    return lines


def best(folder: Path) -> list[str]:
    """Return the table of the quickest all-reduces and all-to-alls."""
    lines = [
        "", "## All-reduce and all-to-all", "",
        "The quickest of the algorithms named: how far its simulated time is above the bound, and wall seconds for all of them with their simulation.", "",
        "| fabric | all-reduce 64 MiB | by | 1 GiB | by | s | all-to-all 1 GiB | by | s |", "|---|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for path in sorted(folder.glob("*.json")):
        fabric = load_fabric(str(path))
        if len(fabric.seats) > 100:
            continue
        row = f"| {path.stem} |"
        for pattern, sizes, names in (
            ("all-reduce", (1 << 26, 1 << 30), ("ring", "double-ring", "direct", "trees", "spanning-trees", "hierarchical", "halving-doubling")),
            ("all-to-all", (1 << 30,), ("direct", "flows")),
        ):  # fmt: skip
            began = time.perf_counter()
            for size in sizes:
                found = []
                for name in names:
                    try:
                        key = schedule_of(ScheduleProblem.of(fabric, pattern, size), name).certificate.keys[0]
                    except FabricPlanError:
                        continue
                    if key.bound:
                        found.append((float(key.value / key.bound) - 1, name))
                gap, name = min(found)
                row += f" {gap * 100:.2f} % | {name} |"
            row += f" {time.perf_counter() - began:.1f} |"
        lines.append(row)
        print(row, flush=True)
    return lines


def main() -> None:
    """Measure and write."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "instances" / "fabrics"
    head = [
        "# Schedules of collectives",
        "",
        f"`python results/schedule.py [FOLDER]`, {os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}.",
        "",
    ]
    (ROOT / "results" / "schedule.md").write_text(
        "\n".join([*head, *fabrics(folder), *steps(), *exchanges(), *tori(), *best(folder)]) + "\n"
    )


if __name__ == "__main__":
    main()
