"""Coverage-guided fuzzing of all readers of foreign schedules, with atheris (libFuzzer), which has to be installed for it.

``python results/fuzz.py CORPUS_DIR [-max_total_time=600] [-seed=1]``: the project's own files are copied into CORPUS_DIR first; put others
beside them. What raises anything but the project's own one-line errors, or hangs, is kept as crash-* or timeout-* by libFuzzer.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fabric_plan.planner.formats", "fabric_plan.planner.threads"]):
    from fabric_plan.planner.errors import FabricPlanError
    from fabric_plan.planner.threads import check_mscclpp, others  # noqa: F401
    from fabric_plan.planner.threads.validate import HEAD, Source, read_source

ROOT = Path(__file__).parents[1]


def attempt(data: bytes) -> None:
    """Read and check one input."""
    try:
        read_source(Source("fuzz", data or b"\n", data[:HEAD]))
    except FabricPlanError as error:
        if "\n" in str(error):
            raise AssertionError(f"an error of several lines: {error!r}") from None


def main() -> None:
    """Copy the seeds and fuzz."""
    folders = [one for one in sys.argv[1:] if not one.startswith("-")]
    if not folders:
        sys.exit(__doc__)
    folder = Path(folders[0])
    folder.mkdir(parents=True, exist_ok=True)
    for one in (ROOT / "instances" / "schedules").iterdir():
        if one.suffix != ".md":
            shutil.copy(one, folder / one.name)
    options = ["-max_len=20000", "-timeout=20", "-rss_limit_mb=6000", "-max_total_time=600"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:]], attempt)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
