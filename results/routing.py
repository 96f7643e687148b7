"""Measure routing on random workloads: how many route, by each protocol and by the joint model, and how long that takes.

    python results/routing.py            # measure (some minutes) and write routing.jsonl and routing.md
    python results/routing.py --page     # only the page, from routing.jsonl

A workload is disjoint groups that all-reduce, drawn at random over all ports (seeds 0, 1, 2, ...). Every routing that is
counted was walked through the configured switch; every refusal of the joint model is a proof.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from fabric_plan.models.routing.protocols import dsatur, exactly, first_fit, level_by_level
from fabric_plan.models.routing.words import Joint
from fabric_plan.planner.fred import configure
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import SwitchFlow
from fabric_plan.planner.simulator.fred_walk import walk

HERE = Path(__file__).resolve().parent
CASES = [
    # ports, middle networks, least and greatest size of a group, workloads
    (32, 3, 4, 4, 100),
    (64, 3, 4, 4, 100),
    (128, 3, 4, 4, 30),
    (128, 3, 2, 8, 30),
    (128, 4, 8, 8, 30),
]
KNOWN = {
    (64, 3, 4, 4): "12/74/96/100",
    (128, 3, 4, 4): "0/67/97/100",
    (128, 3, 2, 8): "0/23/30/40",
    (128, 4, 8, 8): "0/50/73/73",
}


def workload(ports: int, low: int, high: int, seed: int) -> list[SwitchFlow]:
    """Return disjoint groups over all ports; what is left over at the end stays idle."""
    source = random.Random(seed)
    places = list(range(ports))
    source.shuffle(places)
    flows = []
    while places:
        size = source.randint(low, high)
        if size > len(places):
            break
        group, places = tuple(sorted(places[:size])), places[size:]
        flows.append(SwitchFlow(inputs=group, outputs=group))
    return flows


def measure(ports: int, middles: int, low: int, high: int, count: int) -> dict[str, Any]:
    """Return how many of so many workloads each way routes, and the joint model's times."""
    routed = dict.fromkeys(("first-fit", "dsatur", "level by level", "joint"), 0)
    times, refusals, undecided = [], [], 0
    for seed in range(count):
        flows = workload(ports, low, high, seed)
        ways = {"first-fit": first_fit, "dsatur": dsatur, "level by level": exactly(Budget(seconds=30, workers=2))}
        for name, colour in ways.items():
            words = level_by_level(flows, ports, middles, colour)
            routed[name] += words is not None and not walk(
                middles, ports, configure(middles, ports, flows, words), flows
            )
        begun = time.perf_counter()
        found = Joint(flows, ports, middles).solve(Budget(seconds=60, workers=2))
        taken = time.perf_counter() - begun
        if found.words:
            words = [word or () for word in found.words]
            routed["joint"] += not walk(middles, ports, configure(middles, ports, flows, words), flows)
            times.append(taken)
        elif found.answer == "infeasible":
            refusals.append(taken)
        else:
            undecided += 1
    return {
        "ports": ports,
        "middles": middles,
        "sizes": [low, high],
        "workloads": count,
        "routed": routed,
        "undecided": undecided,
        "seconds_routed": [round(statistics.median(times), 3), round(max(times), 3)] if times else None,
        "seconds_refuted": [round(statistics.median(refusals), 3), round(max(refusals), 3)] if refusals else None,
    }


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of some records."""
    lines = [
        "# Random workloads through FRED switches",
        "",
        f"`python results/routing.py`, {records[0]['host']}. Share of random disjoint all-reduces that route, in percent: first-fit /",
        "DSATUR / exact colours level by level / joint model. Seconds of the joint model, median and greatest, two threads.",
        "",
        "| switch | group sizes | workloads | routed | as known | routed in | refuted in | undecided |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in records[1:]:
        low, high = one["sizes"]
        shares = "/".join(str(round(100 * count / one["workloads"])) for count in one["routed"].values())
        known = KNOWN.get((one["ports"], one["middles"], low, high), "")
        spans = [
            "-" if one[key] is None else f"{one[key][0]}, {one[key][1]} s"
            for key in ("seconds_routed", "seconds_refuted")
        ]
        sizes = str(low) if low == high else f"{low}..{high}"
        lines.append(
            f"| fred{one['middles']}:{one['ports']} | {sizes} | {one['workloads']} | {shares} | {known} | {spans[0]} | {spans[1]} "
            f"| {one['undecided']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or only write the page."""
    store = HERE / "routing.jsonl"
    if "--page" not in sys.argv:
        host = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        records: list[dict[str, Any]] = [{"host": host, "date": time.strftime("%Y-%m-%d")}]
        for case in CASES:
            records.append(measure(*case))
            print(records[-1], flush=True)
        store.write_text("".join(json.dumps(one) + "\n" for one in records))
    records = [json.loads(line) for line in store.read_text().splitlines()]
    (HERE / "routing.md").write_text(page(records))


if __name__ == "__main__":
    main()
