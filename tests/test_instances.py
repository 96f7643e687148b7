"""The fabrics that come with the project: each reads, is described, and can be placed on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabric_plan.planner.formats import graph_json
from fabric_plan.planner.interface import Budget, plan
from fabric_plan.planner.plan import Status
from fabric_plan.planner.problem import PlacementProblem

FOLDER = Path(__file__).parents[1] / "instances" / "fabrics"

STRATEGIES = {
    "a100_2box": ("MP4-DP2-PP2", 16),
    "dgx1": ("MP2-DP2-PP2", 8),
    "dgx2_2chassis": ("MP8-DP2-PP2", 32),
    "h100_2box": ("MP8-DP2", 16),
    "hier_4x8_oversub4": ("MP8-DP2-PP2", 32),
    "hypercube3": ("MP2-DP2-PP2", 8),
    "mesh2d_4x4": ("MP2-DP4-PP2", 16),
    "mi250_1box": ("MP2-EP2-DP2-PP2", 16),
    "ndv2_2chassis": ("MP4-DP2-PP2", 16),
    "nvl72_1hub": ("MP8-DP3-PP3", 72),
    "torus2d_4x4": ("MP4-DP4", 16),
}


def test_every_file_is_tried_below_and_described() -> None:
    files = {path.stem for path in FOLDER.glob("*.json")}
    assert files == set(STRATEGIES)
    lines = (FOLDER / "SOURCES.md").read_text(encoding="utf-8").splitlines()
    rows = {line.split("|")[1].strip().removesuffix(".json"): line for line in lines if ".json |" in line}
    assert set(rows) == files
    for name, row in rows.items():
        note = json.loads((FOLDER / f"{name}.json").read_text())["note"]
        assert note in row, name
        assert "made for this project" in row


@pytest.mark.parametrize(("name", "strategy", "npus"), [(name, *rest) for name, rest in STRATEGIES.items()])
def test_a_shipped_fabric_can_be_placed_on(name: str, strategy: str, npus: int) -> None:
    fabric = graph_json.read_graph(FOLDER / f"{name}.json")
    assert (fabric.name, len(fabric.seats)) == (name, npus)
    assert fabric.diameter() is not None
    problem = PlacementProblem.of(fabric, strategy)
    found = plan(problem, planner="megatron", budget=Budget(seconds=60, workers=1, deterministic=True))
    assert found.certificate.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert 0 < found.certificate.bound <= found.certificate.objective
    assert found.report.together.max_load == found.certificate.objective


@pytest.mark.parametrize("name", sorted(STRATEGIES))
def test_a_shipped_fabric_is_the_projects_own(topologies: Path, name: str) -> None:
    assert (FOLDER / f"{name}.json").read_bytes() == (topologies / f"{name}.json").read_bytes()
