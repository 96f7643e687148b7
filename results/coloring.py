"""Colour every graph of a folder of DIMACS files, and prove as much as the limit allows.

    python results/coloring.py FOLDER    # measure (some minutes) and write coloring.jsonl and coloring.md
    python results/coloring.py --page    # only the page, from coloring.jsonl

Each file has 60 s of two threads, as ``fabric-plan color FILE --workers 2`` has.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from fabric_plan.models.routing.chromatic import chromatic
from fabric_plan.planner.formats.dimacs import parse_col
from fabric_plan.planner.interface import Budget

HERE = Path(__file__).resolve().parent
SECONDS = 60.0


def measure(path: Path) -> dict[str, Any]:
    """Return colours, bound and times of one file; the colouring is checked edge by edge."""
    graph = parse_col(path.read_text(errors="replace"), path.name)
    wall, work = time.perf_counter(), time.process_time()
    found = chromatic(graph, Budget(seconds=SECONDS, workers=2))
    assert all(found.colours[a] != found.colours[b] for a, beside in enumerate(graph) for b in beside)
    assert len(set(found.colours)) == found.used
    return {
        "graph": path.stem,
        "vertices": len(graph),
        "edges": sum(map(len, graph)) // 2,
        "colours": found.used,
        "bound": found.bound,
        "seconds": round(time.perf_counter() - wall, 2),
        "cpu": round(time.process_time() - work, 2),
    }


def page(records: list[dict[str, Any]]) -> str:
    """Return the page of some records."""
    rows = records[1:]
    proved = [one for one in rows if one["colours"] == one["bound"]]
    open_ = [one for one in rows if one["colours"] != one["bound"]]
    lines = [
        "# Chromatic numbers",
        "",
        f"`python results/coloring.py FOLDER`, {records[0]['host']}; {SECONDS:g} s and two threads a file.",
        f"{len(proved)} of {len(rows)} files are proved, all of those in {sum(one['seconds'] for one in proved):.0f} s.",
        "",
        "| graph | vertices | edges | colours | bound | seconds | CPU |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in [*open_, *sorted(proved, key=lambda one: -one["seconds"])]:
        bound = "=" if one in proved else one["bound"]
        lines.append(
            f"| {one['graph']} | {one['vertices']} | {one['edges']} | {one['colours']} | {bound} | {one['seconds']} | {one['cpu']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or only write the page."""
    store = HERE / "coloring.jsonl"
    if "--page" not in sys.argv:
        if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
            raise SystemExit("usage: python results/coloring.py FOLDER (of .col files)")
        host = f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}"
        records: list[dict[str, Any]] = [{"host": host, "date": time.strftime("%Y-%m-%d")}]
        for path in sorted(Path(sys.argv[1]).rglob("*.col")):
            records.append(measure(path))
            print(records[-1], flush=True)
        store.write_text("".join(json.dumps(one) + "\n" for one in records))
    records = [json.loads(line) for line in store.read_text().splitlines()]
    (HERE / "coloring.md").write_text(page(records))


if __name__ == "__main__":
    main()
