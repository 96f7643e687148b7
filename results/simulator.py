"""Measure the simulator: user CPU seconds of each engine on the workloads of results/simulator.md, and write that page.

    python results/simulator.py            # measure and write simulator.jsonl and simulator.md
    python results/simulator.py --page     # only the page, from simulator.jsonl

Times are medians of CPU seconds in this process, after compilation, kernels with what prepares them; the least is given
too, since machines are shared. Compile and start-up times are measured in processes of their own.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from fabric_plan.planner.fabric import Link
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator import engine
from fabric_plan.planner.simulator.compiled import compiled
from fabric_plan.planner.simulator.program import Program, timing
from fabric_plan.planner.simulator.service import Service
from fabric_plan.planner.simulator.sweep import sweep

HERE = Path(__file__).resolve().parent
RUNS = 15
TARGETS = {
    ("ring-1024", "sweep"): 0.025,
    ("ring-1024", "sweep, the kernel alone"): 0.025,
    ("ring-1024", "events"): 0.10,
    ("ring-1024-unequal", "events"): 0.40,
    ("all-to-all-72x18", "events"): 0.02,
    ("all-to-all-torus-16x16", "events"): 0.12,
    ("process: simulate a 64-rank ring", "sweep"): 0.25,
}
PEERS = {
    "ring-1024": "0.320 (ASTRA-sim, network alone), 16-19 (SimGrid), 14-17 (LogGOPSim)",
    "ring-1024-unequal": "28.8 (ASTRA-sim, network alone)",
    "all-to-all-72x18": "0.057 (ASTRA-sim, network alone), 187 (SimGrid)",
    "all-to-all-torus-16x16": "0.344 (ASTRA-sim, network alone)",
}


def ring(ranks: int, *, unequal: bool) -> tuple[Program, list[Link]]:
    """All-reduce by a ring: 2 (p - 1) steps of p messages; sizes equal, or all different."""
    steps = 2 * (ranks - 1)
    count = steps * ranks
    need = np.roll(np.arange(count).reshape(steps, ranks)[:-1], 1, axis=1).reshape(-1)
    sizes = np.full(count, 65536)
    if unequal:
        sizes = np.random.default_rng(0).integers(32768, 98304, count)
    program = Program(
        hop_start=np.arange(count + 1, dtype=np.int32),
        hop_link=np.tile(np.arange(ranks, dtype=np.int32), steps),
        hop_parent=np.full(count, -1, dtype=np.int32),
        hop_size=sizes.astype(np.int64),
        need_start=np.concatenate([np.zeros(ranks), np.arange(count - ranks + 1)]).astype(np.int32),
        need=need.astype(np.int32),
    )
    return program, [Link(k, (k + 1) % ranks, 50 * 10**9, Fraction(1, 2 * 10**6)) for k in range(ranks)]


def planes() -> tuple[Program, list[Link]]:
    """All-to-all of 72 ranks through 18 planes: one two-hop message a pair and plane."""
    ranks, many = 72, 18
    plane, k, i = np.meshgrid(np.arange(many), np.arange(1, ranks), np.arange(ranks), indexing="ij")
    source, target, plane = i.ravel(), ((i + k) % ranks).ravel(), plane.ravel()
    count = len(source)
    hops = np.empty(2 * count, dtype=np.int32)
    hops[0::2] = source * many + plane
    hops[1::2] = ranks * many + target * many + plane
    parents = np.full(2 * count, -1, dtype=np.int32)
    parents[1::2] = np.arange(0, 2 * count, 2)
    program = Program(
        hop_start=np.arange(0, 2 * count + 1, 2, dtype=np.int32),
        hop_link=hops,
        hop_parent=parents,
        hop_size=np.full(2 * count, 50_000, dtype=np.int64),
        need_start=np.zeros(count + 1, dtype=np.int32),
        need=np.zeros(0, dtype=np.int32),
    )
    return program, [Link(0, 1, 50 * 10**9, Fraction(1, 2 * 10**6))] * (2 * ranks * many)


def torus() -> tuple[Program, list[Link]]:
    """All-to-all on a 16 x 16 torus by its routes, all messages at once."""
    from fabric_plan.models.schedule.planners import draft_of
    from fabric_plan.planner.simulator.schedule import lower

    problem = ScheduleProblem.of("torus:16x16", "all-to-all", 256 * 65536)
    return lower(draft_of(problem, "direct"), problem.fabric), list(problem.fabric.links)


def cpu(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return (median and least CPU seconds, the last result); the first run, which compiles, does not count."""
    result = work()
    times = []
    for _ in range(RUNS):
        before = time.process_time()
        result = work()
        times.append(time.process_time() - before)
    return statistics.median(times), min(times), result


def kernel_alone(program: Program, links: list[Link]) -> tuple[float, float]:
    """Return (median, least) CPU seconds of the sweep's kernel, without ticks, checks and fresh memory."""
    ticks, count = timing(program, links), len(links)
    start, finish = np.zeros(program.hops, np.int64), np.zeros(len(program), np.int64)
    columns = (program.hop_start, program.hop_link, program.hop_parent, ticks.size, ticks.rate, ticks.latency)
    needs = (program.need_start, program.need, ticks.release, ticks.after)
    nothing = np.zeros(0, np.int64)
    median, least, _ = cpu(
        lambda: compiled(sweep)(
            *columns, *needs, False, start, nothing, finish, np.zeros(count, np.int64), np.zeros(count, np.int64)
        )
    )
    return median, least


def process(code: list[str], *, cache: str | None = None) -> float:
    """Return the median user CPU seconds of a command, over five runs (one, where it compiles into an empty cache)."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    times = []
    for _ in range(1 if cache else 5):
        with subprocess.Popen(code, stdout=subprocess.DEVNULL, env=environment) as child:
            _, _, used = os.wait4(child.pid, 0)
            child.returncode = 0
        times.append(used.ru_utime)
    return statistics.median(times)


def measure() -> list[dict[str, Any]]:
    """Run everything; one record a measurement."""
    records: list[dict[str, Any]] = []

    def record(work: str, name: str, seconds: float, **more: Any) -> None:
        target = TARGETS.get((work, name))
        records.append({"work": work, "engine": name, "seconds": round(seconds, 4), "target": target, **more})
        print(records[-1], flush=True)

    works = {
        "ring-1024": ring(1024, unequal=False),
        "ring-1024-unequal": ring(1024, unequal=True),
        "all-to-all-72x18": planes(),
        "all-to-all-torus-16x16": torus(),
    }
    for work, (program, links) in works.items():
        ends = set()
        for name in ("sweep", "events", "queued"):
            try:
                seconds, least, found = cpu(lambda p=program, w=links, n=name: engine.run(p, w, engine=n, compile=True))
            except engine.InvalidInput:
                continue
            ends.add(found.finish.tobytes())
            more = {
                "hops": program.hops,
                "ns_per_hop": round(seconds / program.hops * 1e9, 1),
                "least": round(least, 4),
            }
            record(work, name, seconds, **more, finish=float(found.seconds))
        assert len(ends) == 1, "engines differ"
        if work.startswith("ring"):
            median, least = kernel_alone(program, links)
            more = {"hops": program.hops, "ns_per_hop": round(median / program.hops * 1e9, 1), "least": round(least, 4)}
            record(work, "sweep, the kernel alone", median, **more)
    program, links = works["all-to-all-72x18"]
    seconds, _, found = cpu(lambda: engine.run(program, links, Service(switching="cut-through"), compile=True))
    record("all-to-all-72x18, cut-through", found.engine, seconds, hops=program.hops, finish=float(found.seconds))

    python = sys.executable
    script = str(Path(python).with_name("fabric-plan"))
    with tempfile.TemporaryDirectory() as folder:
        plan = f"{folder}/s.json"
        subprocess.run(
            [script, "schedule", "all-reduce", "--planner", "ring", "-f", "ring:64", "-o", plan, "-q"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        record("process: simulate a 64-rank ring", "sweep", process([script, "simulate", plan]))
        record("process: Python and numpy alone", "-", process([python, "-c", "import numpy"]))
        record("process: fabric-plan --help", "-", process([script, "--help"]))
        for name in ("sweep", "events"):
            code = [python, __file__, "--once", name]
            cached = process(code)
            cold = process(code, cache=f"{folder}/{name}")
            bare = process([python, __file__, "--once", "nothing"])
            record(f"process: 1,024-rank ring, {name}, kernels cached", name, cached, without_simulation=round(bare, 3))
            record(f"process: 1,024-rank ring, {name}, kernels compiled", name, cold)
            told = subprocess.run(code, check=True, capture_output=True, text=True).stdout
            record("memory", name, 0, bytes_per_transfer=float(told))
    return records


def once(name: str) -> None:
    """Build the 1,024-rank ring and simulate it once; print the bytes of memory that a transfer takes at the peak."""
    engine.run(*ring(2, unequal=False), engine="sweep", compile=name != "nothing")  # loads what has to be loaded
    before = memory("VmRSS")
    program, links = ring(1024, unequal=False)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of building it
    if name != "nothing":
        engine.run(program, links, engine=name)
    print(round((memory("VmHWM") - before) / program.hops, 1))


def memory(what: str) -> int:
    """Return the resident memory of this process in bytes, now (VmRSS) or at its peak (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of some records."""
    lines = [
        "# The simulator's speed",
        "",
        f"`python results/simulator.py`, {records[0]['host']}. CPU seconds, medians of {RUNS} runs after compilation (and",
        "the least), with all that prepares a kernel (ticks, inverse dependencies). All engines finish at the same times.",
        "",
        "| work | engine | hops | seconds | least | ns a hop | target | others on the same work, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in records[1:]:
        if "bytes_per_transfer" in one:
            continue
        target = "" if one["target"] is None else f"{one['target']}{_verdict(one)}"
        hops = f"{one['hops']:,}" if "hops" in one else ""
        peers = PEERS.get(one["work"], "") if one["engine"] == "events" else ""
        lines.append(
            f"| {one['work']} | {one['engine']} | {hops} | {one['seconds']} | {one.get('least', '')} | {one.get('ns_per_hop', '')} | {target} | {peers} |"
        )
    lines += [
        "",
        "Others: their own figures come from runs on a like machine (2 x86-64 cores at 2.8 GHz, 2026).",
        "",
        "| memory at the peak of the 1,024-rank ring | bytes a transfer |",
        "|---|---|",
    ]
    for one in records[1:]:
        if "bytes_per_transfer" in one:
            lines.append(f"| {one['engine']}, with the program itself | {one['bytes_per_transfer']} |")
    return "\n".join(lines) + "\n"


def _verdict(one: dict[str, Any]) -> str:
    if one["seconds"] <= one["target"]:
        return ""
    return " (missed by the median)" if one.get("least", one["seconds"]) <= one["target"] else " (missed)"


def main() -> None:
    """Measure, or only write the page."""
    if "--once" in sys.argv:
        once(sys.argv[-1])
        return
    store = HERE / "simulator.jsonl"
    if "--page" not in sys.argv:
        host = (
            f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, numpy {np.__version__}"
        )
        records = [{"host": host, "date": time.strftime("%Y-%m-%d")}, *measure()]
        store.write_text("".join(json.dumps(one) + "\n" for one in records))
    records = [json.loads(line) for line in store.read_text().splitlines()]
    (HERE / "simulator.md").write_text(page(records))


if __name__ == "__main__":
    main()
