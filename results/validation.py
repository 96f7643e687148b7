"""Write results/validation.md: how long validate takes, as whole processes, and what it keeps in memory.

``python results/validation.py [FOLDER]``; FOLDER is the corpus of schedules, for the files of about a megabyte; without it the
project's own files stand in.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPEATS = 5


def measured(path: Path, repeats: int) -> tuple[float, float, float, str]:
    """Return (median and least wall seconds, mebibytes at the peak, the last line) of ``fabric-plan validate PATH``."""
    times, peak, last = [], 0.0, ""
    for _ in range(repeats):
        began = time.perf_counter()
        with subprocess.Popen(
            [str(Path(sys.executable).with_name("fabric-plan")), "validate", str(path)],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            out = process.stdout.read()
            _, _, usage = os.wait4(process.pid, 0)
            process.returncode = 0
        times.append(time.perf_counter() - began)
        peak = max(peak, usage.ru_maxrss / 1024)
        last = out.strip().splitlines()[-1].split(": ", 1)[1]
    return statistics.median(times), min(times), peak, last


def main() -> None:
    """Measure and write."""
    corpus = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    lines = [
        "# Validation of schedules: speed",
        "",
        f"`python results/validation.py [FOLDER]` on {os.cpu_count()} cores, Python {platform.python_version()}: whole processes, Python's start included. "
        "All-pairs all-reduce files are written by `python results/all_pairs.py RANKS`.",
        "",
        "| file | MB | median s | least s | peak MiB | verdict |",
        "|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        files: list[tuple[str, Path, int]] = []
        for ranks, repeats in ((16, REPEATS), (32, REPEATS), (64, 3)):
            path = Path(folder) / f"all_pairs_{ranks}.xml"
            with path.open("w") as stream:
                subprocess.run(
                    [sys.executable, str(ROOT / "results" / "all_pairs.py"), str(ranks)], stdout=stream, check=True
                )
            files.append((f"all-pairs all-reduce of {ranks}", path, repeats))
        if corpus is not None:
            large = sorted(corpus.glob("*/*"), key=lambda one: -one.stat().st_size)[:3]
            files += [(f"{one.parent.name}/{one.name}", one, REPEATS) for one in large]
        else:
            files += [
                (one.name, one, REPEATS) for one in sorted((ROOT / "instances" / "schedules").glob("msccl_ring*"))
            ]
        for name, path, repeats in files:
            middle, least, peak, verdict = measured(path, repeats)
            size = path.stat().st_size / 1e6
            lines.append(f"| {name} | {size:.2f} | {middle:.2f} | {least:.2f} | {peak:.0f} | {verdict} |")
            print(lines[-1], flush=True)
    (ROOT / "results" / "validation.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
