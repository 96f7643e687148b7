"""Builds sdist -> wheel, installs it in a new environment outside the repository, and lets it place.

Not a test of pytest's: it needs minutes and the network. ``make test`` runs it after the tests.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command and return its output; show it and stop when it fails."""
    done = subprocess.run([str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel check: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def tracked_modules() -> set[str]:
    """Return the modules of the package that git knows, as paths inside the wheel."""
    files = run("git", "ls-files", "planner", "models", "cli", "fabric_plan", cwd=ROOT).splitlines()
    found = {name for name in files if name.startswith("fabric_plan/") and name.endswith((".py", "py.typed"))}
    return found | {
        f"fabric_plan/{name}" for name in files if not name.startswith("fabric_plan/") and name.endswith(".py")
    }


def main() -> None:
    """Check the wheel."""
    with tempfile.TemporaryDirectory() as folder:
        away = Path(folder)
        run(sys.executable, "-m", "build", "--outdir", away / "dist", ROOT, cwd=away)
        (wheel,) = (away / "dist").glob("*.whl")
        packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
        if packed != tracked_modules():
            sys.exit(f"wheel check: the wheel and git differ in {sorted(packed ^ tracked_modules())}")
        venv.create(away / "venv", with_pip=True)
        python = away / "venv" / "bin" / "python"
        run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=away)
        where = run(python, "-c", "import fabric_plan; print(fabric_plan.__file__)", cwd=away).strip()
        if not Path(where).is_relative_to(away):
            sys.exit(f"wheel check: fabric_plan was imported from {where}, not from the wheel")
        place = ("place", "--strategy", "MP2-DP2", "--fabric", "mesh:2x2", "--quiet", "-o", "plan.json")
        run(python.with_name("fabric-plan"), *place, cwd=away)
        run(python.with_name("fabric-plan"), "validate", "plan.json", cwd=away)
    print(f"wheel check: {wheel.name}: {len(packed)} files, installed outside the repository, places and validates")


if __name__ == "__main__":
    main()
