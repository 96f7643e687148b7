"""Measure input-balanced mode at production counts: policies at failure rates, plans of whole fabrics, one failure more.

    python results/balance.py            # measure (some minutes) and write balance.jsonl and balance.md
    python results/balance.py --page     # only the page, from balance.jsonl

A copy is one virtual device of one plane: 4 zones of 128 RDSWs and 40 FDSWs under 128 SDSWs, every link single. Rates are of all links of
a copy, drawn by seeds 0, 1, 2; capacities are in links of 40, of all pairs of different zones, and plans are what the judge accepts.
"""

from __future__ import annotations

import json
import os
import platform
import random
import resource
import sys
import time
from pathlib import Path
from typing import Any

import fabric_plan
from fabric_plan.models.balance import protocol
from fabric_plan.models.balance.planners import best_copies
from fabric_plan.models.balance.standing import Standing
from fabric_plan.planner.balance import BalancePlan, BalanceProblem
from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.dsf_catalog import l2
from fabric_plan.planner.dsf_region import region
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.plan import Certificate, Status
from fabric_plan.planner.simulator.balance import measure, propagated

HERE = Path(__file__).resolve().parent
RATES = (0.002, 0.005, 0.01, 0.02)
KNOWN = {0.002: "35.7, 35.0, 38.0", 0.005: "33.0, 33.7, 37.0", 0.01: "31.0, 32.3, 36.7", 0.02: "31.0, 30.0, 36.0"}
SAMPLE = 24
"""Destinations of the sampled worst pairs (from one zone's 128 senders), as the known figures have them."""


def copy_fabric() -> Dsf:
    """Return one copy of the L2 zone without its edge pod."""
    return Dsf(name="copy", zones=tuple(Zone(name=name, interfaces=128, fabrics=40) for name in "abcd"), spines=128)


def failures(fabric: Dsf, rate: float, seed: int) -> tuple[str, ...]:
    """Return the names of links that fail."""
    names = [fabric.link_name(link) for link in fabric.all_links()]
    return tuple(random.Random(seed).sample(names, round(rate * len(names))))


def sampled_worst(problem: BalanceProblem, profiles: Any) -> int:
    """Return the worst pair from zone a to 24 destinations of the other zones."""
    wanted = set(random.Random(99).sample([(home, number) for home in (1, 2, 3) for number in range(128)], SAMPLE))
    pairs = propagated(problem, tuple(one for one in profiles if one.zone == 0), 0)
    return min(int(pair.capacity.min()) for pair in pairs if (pair.home, pair.destination) in wanted)


def policies(rate: float) -> dict[str, Any]:
    """Return worst pairs (of 24 destinations, of all pairs) and lost capacity of each policy, means over three draws."""
    row: dict[str, Any] = {"kind": "policies", "rate": rate}
    fabric = copy_fabric()
    names = ("random", "class-wide", "aligned", "optimal")
    sums: dict[str, list[float]] = {name: [0.0, 0.0, 0.0] for name in names}
    for seed in range(3):
        problem = BalanceProblem(fabric=fabric, failed=failures(fabric, rate, seed))
        for name in names:
            if name == "optimal":
                profiles = best_copies(problem, Budget(seconds=600, workers=2), lambda progress: None)[0]
            else:
                profiles = tuple(protocol.POLICIES[name](problem, 0, seed))  # type: ignore[index]
            draft = BalancePlan(
                problem=problem, copies=(profiles,), certificate=Certificate(status=Status.UNKNOWN, keys=())
            )
            report = measure(draft)[0]
            for k, value in enumerate(
                (sampled_worst(problem, profiles), report.worst or 0, 1 - report.total / report.built)
            ):
                sums[name][k] += value / 3
    row["rows"] = {name: [round(value, 4) for value in values] for name, values in sums.items()}
    return row


def whole_copy() -> dict[str, Any]:
    """Return seconds and memory of planning a copy with 1 % of its links failed, and of one failure more."""
    fabric = copy_fabric()
    problem = BalanceProblem(fabric=fabric, failed=failures(fabric, 0.01, 7))
    begun, work = time.perf_counter(), time.process_time()
    plan = fabric_plan.plan(problem, budget=Budget(seconds=600, workers=2))
    taken = time.perf_counter() - begun, time.process_time() - work
    begun = time.perf_counter()
    standing = Standing(problem, 0)
    prepared = time.perf_counter() - begun
    times = []
    alive = [one for one in fabric.all_links() if one not in set(problem.failures)]
    for link in random.Random(5).sample(alive, 20):
        begun = time.perf_counter()
        standing.after([link]).profiles()
        times.append(time.perf_counter() - begun)
    times.sort()
    return {
        "kind": "copy",
        "seconds": round(taken[0], 2),
        "cpu": round(taken[1], 2),
        "worst": plan.report.worst if plan.report else None,
        "bound": int(plan.certificate.key("worst").bound or 0),
        "standing": round(prepared, 2),
        "next_median": round(times[10], 3),
        "next_most": round(times[-1], 3),
        "memory_MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def whole_l2() -> dict[str, Any]:
    """Return seconds of planning a whole L2 zone, 8 copies with 1 % of all links failed."""
    fabric = l2()
    problem = BalanceProblem(fabric=fabric, failed=failures(fabric, 0.01, 7))
    begun = time.perf_counter()
    plan = fabric_plan.plan(problem, budget=Budget(seconds=600, workers=2))
    return {
        "kind": "l2",
        "links": fabric.links,
        "failed": len(problem.failed),
        "seconds": round(time.perf_counter() - begun, 1),
        "status": plan.certificate.status.value,
        "memory_MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def whole_region() -> dict[str, Any]:
    """Return seconds of building the region, and of planning one failure inside a building and one above it."""
    begun = time.perf_counter()
    built = region()
    links = built.buildings * built.building.links + built.superspine.links
    build = time.perf_counter() - begun
    begun = time.perf_counter()
    for _, problem in built.problems(("b2/a/rdsw3:fdsw1", "b2/edge/edsw5:ss1#2")):
        fabric_plan.plan(problem, budget=Budget(seconds=600, workers=2))
    return {
        "kind": "region",
        "links": links,
        "build": round(build, 3),
        "seconds": round(time.perf_counter() - begun, 1),
        "memory_MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of some records."""
    lines = [
        "# Input-balanced mode at production counts",
        "",
        f"`python results/balance.py`, {records[0]['host']}. Worst pair in links of 40, per virtual device: of 24 destinations from one zone's",
        "128 senders, and of all pairs of different zones; capacity lost of all pairs. Means of three draws of failures.",
        "",
        "| links failed | random | class-wide | aligned | optimum | as known (random, class-wide, optimum) |",
        "|---|---|---|---|---|---|",
    ]
    for one in records[1:]:
        if one["kind"] == "policies":
            cells = [f"{a:.1f}, {b:.1f}; {100 * c:.2f} %" for a, b, c in one["rows"].values()]
            lines.append(f"| {100 * one['rate']:g} % | {' | '.join(cells)} | {KNOWN[one['rate']]} |")
    lines.append("")
    for one in records[1:]:
        if one["kind"] == "copy":
            lines.append(
                f"- A copy with 1 % of its links failed: planned, judged and set beside four baselines in {one['seconds']} s ({one['cpu']} s CPU), "
                f"{one['memory_MB']} MB; worst pair {one['worst']}, proved bound {one['bound']}. One failure more: {one['next_median']} s "
                f"(median of 20; at most {one['next_most']} s), after {one['standing']} s once."
            )
        if one["kind"] == "l2":
            lines.append(
                f"- The whole L2 zone ({one['links']:,} links in 8 copies, {one['failed']:,} failed): {one['seconds']} s with two processes, "
                f"{one['status']}, {one['memory_MB']} MB."
            )
        if one["kind"] == "region":
            lines.append(
                f"- The region ({one['links']:,} links): built in {one['build']} s; a failure inside a building and one above it planned in "
                f"{one['seconds']} s, {one['memory_MB']} MB."
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or only write the page."""
    store = HERE / "balance.jsonl"
    if "--page" not in sys.argv:
        host = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        records: list[dict[str, Any]] = [{"host": host, "date": time.strftime("%Y-%m-%d")}]
        for make in (whole_region, whole_copy, *(lambda rate=rate: policies(rate) for rate in RATES), whole_l2):
            records.append(make())
            print(records[-1], flush=True)
        store.write_text("".join(json.dumps(one) + "\n" for one in records))
    records = [json.loads(line) for line in store.read_text().splitlines()]
    (HERE / "balance.md").write_text(page(records))


if __name__ == "__main__":
    main()
