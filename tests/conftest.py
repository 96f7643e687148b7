"""What several test modules share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def topologies() -> Path:
    """The folder of the project's topology files; tests that compare with it are skipped where it is not at hand."""
    shared = Path(os.environ.get("FABRIC_PLAN_SHARED", ROOT.parent / "shared"))
    folder = shared / "data" / "topologies"
    if not folder.is_dir():
        pytest.skip("the topology files are not here: set FABRIC_PLAN_SHARED to the folder that holds data/topologies")
    return folder
