"""Which room imports what, and what the command line loads before it is asked for anything."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fabric_plan

ROOT = Path(__file__).parents[1]
ROOMS = ("planner", "models", "cli")
SOLVERS = ("ortools", "pandas", "networkx", "scipy", "matplotlib")
HEAVY = (*SOLVERS, "numpy", "numba")
COMPILES_WHEN_LOADED = {"fabric_plan.planner.simulator.events_compiled"}


def modules(room: str) -> list[str]:
    """Return the names of all modules of a room, from the files that there are."""
    found = []
    for path in sorted((ROOT / room).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if "__pycache__" not in parts:
            found.append(".".join(("fabric_plan", *(parts[:-1] if parts[-1] == "__init__" else parts))))
    return found


EVERYTHING = [name for room in ROOMS for name in modules(room)]


def loaded_by(code: str) -> set[str]:
    """Return the names of all modules that a fresh interpreter has loaded after some code."""
    ending = "import json, sys; print(); print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", f"{code}\n{ending}"], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def heavy(loaded: set[str], names: tuple[str, ...] = HEAVY) -> list[str]:
    return [name for name in names if name in loaded]


def test_there_is_something_to_import() -> None:
    assert len(EVERYTHING) > 30
    assert {"fabric_plan.planner.fabric", "fabric_plan.models.solve", "fabric_plan.cli.main"} <= set(EVERYTHING)


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_module_imports(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__name__ == name
    assert module.__doc__


def imported(path: Path) -> set[str]:
    """Return every module that a file imports anywhere, in functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            module = node.module or ""
            found |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return found


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("planner", ("fabric_plan.models", "fabric_plan.cli", *SOLVERS)),
        ("planner/simulator", ("fabric_plan.models", "fabric_plan.cli", *SOLVERS)),
        ("models", ("fabric_plan.cli", "click", "rich")),
    ],
)
def test_rooms_import_only_downwards(folder: str, forbidden: tuple[str, ...]) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    # PNG drawings are made by an extra, loaded where it is used.
    allowed = {"matplotlib"} if folder == "planner" else set()
    for path in files:
        for name in imported(path):
            for package in forbidden:
                if package not in allowed:
                    assert not within(name, package), f"{path.relative_to(ROOT)} imports {name}"


def test_the_solver_is_talked_to_in_one_place() -> None:
    """Only models/solve.py makes a solver; the others build models."""
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            if path != ROOT / "models" / "solve.py":
                assert "CpSolver" not in path.read_text(encoding="utf-8"), path


def test_importing_all_of_planner_loads_no_solver() -> None:
    names = [name for name in modules("planner") if name not in COMPILES_WHEN_LOADED]
    loaded = loaded_by("\n".join(f"import {name}" for name in names))
    assert "fabric_plan.planner.simulator.placement" in loaded
    assert heavy(loaded, (*SOLVERS, "numba")) == []
    assert [name for name in loaded if within(name, "fabric_plan.models") or within(name, "fabric_plan.cli")] == []


def test_importing_the_package_loads_nothing() -> None:
    loaded = loaded_by("import fabric_plan; fabric_plan.__version__; dir(fabric_plan)")
    assert heavy(loaded) == []
    assert [name for name in loaded if within(name, "fabric_plan.planner")] == []


def test_simulating_a_small_plan_loads_neither_solver_nor_compiler() -> None:
    code = """
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.simulator.placement import simulate
simulate(PlacementProblem.of("mesh:2x2", "MP2-DP2"), range(4), {})
"""
    loaded = loaded_by(code)
    assert heavy(loaded, (*SOLVERS, "numba")) == []
    assert not any(within(name, "fabric_plan.models") for name in loaded)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["place", "--help"], ["fabric", "list"]])
def test_help_loads_no_solver(arguments: list[str]) -> None:
    code = f"""
from fabric_plan.cli.main import command
command.main({arguments!r}, standalone_mode=False)
"""
    loaded = loaded_by(code)
    assert "fabric_plan.cli.main" in loaded
    assert heavy(loaded) == []
    assert "rich" not in loaded or arguments != ["--help"]


def test_the_installed_command_helps_without_a_solver() -> None:
    script = Path(sys.executable).with_name("fabric-plan")
    if not script.is_file():
        pytest.skip("the command is not installed beside this interpreter")
    run = subprocess.run(
        [sys.executable, "-X", "importtime", str(script), "--help"], capture_output=True, text=True, timeout=120
    )
    assert run.returncode == 0
    assert "Usage: fabric-plan" in run.stdout
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert "fabric_plan.cli.main" in loaded
    assert heavy(loaded) == []


def test_public_names_are_there() -> None:
    for name in fabric_plan.__all__:
        assert getattr(fabric_plan, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fabric_plan.nonsense


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_refuses_to_be_imported_by_its_folders_name(room: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {room}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode != 0
    assert f"import this folder as fabric_plan.{room}" in run.stderr
