"""Run the placement benchmark and record it: ``python results/placement.py [--only TEXT] [--page]``.

Each instance is one ``fabric-plan place`` in a process of its own, followed by ``fabric-plan validate`` of what it wrote.
A JSON line a run goes to results/placement.jsonl; results/placement.md is made from that file (``--page``: only that).
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORD, PAGE = HERE / "placement.jsonl", HERE / "placement.md"
COMMAND = Path(sys.executable).with_name("fabric-plan")


@dataclass(frozen=True)
class Case:
    """An instance: the arguments of ``place``, its time limit in seconds, and the objective to reach (None: open)."""

    arguments: str
    limit: int
    target: str
    proved: bool = True


def cases() -> list[Case]:
    """Return the instances, those with known values first."""
    found = []
    for strategy in ("MP3-DP3-PP2", "MP2-DP5-PP2"):
        found.append(Case(f"-s {strategy} -f mesh:4x5 --phases", 20, "3 (1 in each phase)"))
        for ring in ("fixed", "free"):
            for pp in ("unicast", "multicast"):
                found.append(Case(f"-s {strategy} -f mesh:4x5 --ring {ring} --pp {pp}", 60, "2"))
    for fabric, strategy, together, apart in (
        ("mesh:4x4", "MP2-DP4-PP2", "2", "3"),
        ("mesh:4x4", "MP5-DP3-PP1", "2", "2"),
        ("mesh:4x5", "MP5-DP3-PP1", "1", "2"),
        ("mesh:4x5", "MP5-DP4-PP1", "1", "2"),
        ("mesh:4x5", "MP4-DP5-PP1", "1", "2"),
    ):
        found.append(Case(f"-s {strategy} -f {fabric}", 60, together))
        found.append(Case(f"-s {strategy} -f {fabric} --phases", 60, apart))
    found.append(Case("-s MP4-DP4-PP2 -f mesh:4x8", 60, "open", proved=False))
    found.append(Case("-s MP3-DP4-PP3 -f mesh:6x6", 60, "3, bound 2", proved=False))
    found.append(Case("-s MP4-DP4-PP4 -f mesh:8x8", 60, "3, bound 2", proved=False))
    for extra in ("", " --phases", " --objective time"):
        found.append(Case(f"-s MP3-DP3-PP2 -f mesh:4x5 --workload transformer-17b{extra}", 60, "open", proved=False))
    found.append(Case("-s MP2-DP5-PP2 -f mesh:4x5 --workload gpt3", 60, "open", proved=False))
    found += [
        Case(f"-s {s} -f {f}", 60, "open", proved=False)
        for s, f in (
            ("MP4-DP4-PP4", "torus:4x4x4"),
            ("MP8-DP9", "nvl72"),
            ("MP2-DP4", "dgx1"),
            ("MP5-DP4", "fred-20"),
            ("MP2-DP4", "ring:8"),
        )
    ]
    return found


def run(case: Case) -> dict[str, Any]:
    """Solve and validate one instance; return what the record keeps of it."""
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.json"
        arguments = [
            "place",
            *shlex.split(case.arguments),
            "--json",
            "--time-limit",
            str(case.limit),
            "--workers",
            "2",
            "-o",
            str(plan),
        ]
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
        wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{case.arguments}: exit {done.returncode}: {done.stderr.strip().splitlines()[-1]}")
        result = json.loads(done.stdout)
        checked = subprocess.run(
            [COMMAND, "validate", str(plan), "--json"], capture_output=True, text=True, check=False
        )
        problem = json.loads(plan.read_text())["problem"]
    progress = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    return {
        "case": case.arguments,
        "command": f"fabric-plan place {case.arguments} --time-limit {case.limit} --workers 2",
        "problem": hashlib.sha256(json.dumps(problem, sort_keys=True).encode()).hexdigest()[:16],
        "target": case.target,
        "limit": case.limit,
        "seed": result["seed"],
        "status": result["status"],
        "objective": result["objective"],
        "bound": result["bound"],
        "gap": result["gap"],
        "further": result["further"],
        "baselines": result["baselines"],
        "proof": result["explanation"][1:],
        "simulated": {
            phase["name"]: [phase["max_link_load"], phase["seconds"]] for phase in result["simulation"]["phases"]
        },
        "verdict": json.loads(checked.stdout)["verdict"],
        "wall": round(wall, 2),
        "cpu": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 2),
        "trajectory": [[p["seconds"], p["objective"], p["bound"]] for p in progress],
        "versions": {name: importlib.metadata.version(name) for name in ("fabric-plan", "ortools", "numba", "numpy")},
        "python": platform.python_version(),
        "host": f"{_processor()}, {os.cpu_count()} cores",
        "date": datetime.date.today().isoformat(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def number(value: float | None) -> str:
    """Return a load for the page."""
    if value is None:
        return "-"
    return str(value) if isinstance(value, int) or float(value).is_integer() else f"{value:.5g}"


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of the records."""
    first = records[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    lines = [
        "# Placement: results",
        "",
        "Made by `python results/placement.py` from results/placement.jsonl (`make bench` runs it in the project's environment).",
        f"Host: {first['host']}; Python {first['python']}; {versions}; {first['date']}.",
        "Loads are flows, or seconds where a workload gives volumes. Wall and CPU seconds are those of the whole process,",
        "with the compiled kernel already on disk; a plan that is not proved optimal spends its whole limit.",
        "",
        "| `fabric-plan place` | to reach | objective | bound | status | best row-major | greedy | wall s | CPU s | limit s | valid |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in records:
        cells = [
            f"`{one['case']}`",
            one["target"],
            number(one["objective"]["value"]),
            number(one["bound"]),
            one["status"],
            number(one["baselines"].get("row-major")),
            number(one["baselines"].get("greedy")),
            f"{one['wall']:.1f}",
            f"{one['cpu']:.1f}",
            str(one["limit"]),
            one["verdict"],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "## Where the bounds come from", ""]
    for one in records:
        if one["proof"]:
            lines.append(f"- `{one['case']}`: {one['proof'][-1]}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the cases, write the record, make the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", default="", help="run the cases whose arguments contain this text, and keep the record of the others"
    )
    parser.add_argument("--page", action="store_true", help="make the page from the record, run nothing")
    options = parser.parse_args()
    if not options.page:
        chosen = [case for case in cases() if options.only in case.arguments]
        subprocess.run(
            [COMMAND, "place", "-s", "MP2", "-f", "mesh:1x2", "-q"], capture_output=True, check=True
        )  # compiles
        records = []
        failed = False
        for case in chosen:
            one = run(case)
            records.append(one)
            missed = one["verdict"] != "valid" or (case.proved and one["status"] != "optimal")
            reached = case.target == "open" or number(one["objective"]["value"]) == case.target.partition(" ")[
                0
            ].rstrip(",")
            failed |= missed or not reached
            mark = "ok" if reached and not missed else "MISSED"
            print(
                f"{mark:7}{one['wall']:6.1f} s  {one['status']:9} {number(one['objective']['value'])} >= {number(one['bound'])}  {case.arguments}",
                flush=True,
            )
        known = (
            [json.loads(line) for line in RECORD.read_text().splitlines()] if options.only and RECORD.exists() else []
        )
        kept = {one["case"]: one for one in [*known, *records]}
        ordered = [kept[case.arguments] for case in cases() if case.arguments in kept]
        RECORD.write_text("".join(json.dumps(one) + "\n" for one in ordered))
        if failed:
            raise SystemExit(1)
    PAGE.write_text(page([json.loads(line) for line in RECORD.read_text().splitlines()]))


if __name__ == "__main__":
    main()
