"""What several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared data; tests that need it are skipped where it is not at hand."""
    folder = Path(os.environ.get("FABRIC_PLAN_SHARED", ROOT.parent / "shared"))
    if not (folder / "data").is_dir():
        pytest.skip("the shared data is not here: set FABRIC_PLAN_SHARED to the folder that holds data")
    return folder


@pytest.fixture(scope="session")
def topologies(shared: Path) -> Path:
    """The folder of the project's topology files; tests that compare with it are skipped where it is not at hand."""
    folder = shared / "data" / "topologies"
    if not folder.is_dir():
        pytest.skip("the topology files are not here: set FABRIC_PLAN_SHARED to the folder that holds data/topologies")
    return folder
