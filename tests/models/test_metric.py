"""The bound of all-to-all by lengths: known values of the multicommodity flow, and no schedule below it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import fabric_plan
from fabric_plan.models.schedule import metric
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem

FABRICS = Path(__file__).parents[2] / "instances" / "fabrics"

# Rounds of the slowest link's unit (GB/s) that a block for every pair takes, by the linear program.
KNOWN = {
    "ring:4": (Fraction(2), 50), "ring:8": (Fraction(8), 50), "full:8": (Fraction(1), 50), "hypercube3": (Fraction(4), 50),
    "dgx1": (Fraction(8, 3), 25), "torus2d_4x4": (Fraction(8), 50), "mesh2d_4x4": (Fraction(16), 50), "mi250_1box": (Fraction(32, 3), 50),
    "a100_2box": (Fraction(8), 25), "h100_2box": (Fraction(8), 50), "ndv2_2chassis": (Fraction(64), Fraction(25, 2)),
    "dgx2_2chassis": (Fraction(32), Fraction(25, 2)), "hier_4x8_oversub4": (Fraction(96), 100), "nvl72_1hub": (Fraction(71), 900),
}  # fmt: skip


def fabric_of(name: str) -> object:
    path = FABRICS / f"{name}.json"
    return load_fabric(str(path) if path.exists() else name)


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_the_flows_bound(name: str) -> None:
    fabric = fabric_of(name)
    if ":" in name:
        unit = fabric.links[0].bandwidth  # type: ignore[attr-defined]
        rounds = KNOWN[name][0]
    else:
        rounds, gbps = KNOWN[name]
        unit = gbps * 10**9
    found = metric.all_to_all_bound(fabric, list(fabric.seats))  # type: ignore[attr-defined,arg-type]
    assert found <= rounds / unit
    assert float(found * unit / rounds) > 0.9999


@pytest.mark.parametrize("name", ["dgx1", "torus2d_4x4", "h100_2box", "mesh2d_4x4"])
def test_lengths_without_the_linear_program_hold_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric, "MOST_LP", 0)
    fabric = fabric_of(name)
    rounds, gbps = KNOWN[name]
    found = metric.all_to_all_bound(fabric, list(fabric.seats))  # type: ignore[attr-defined,arg-type]
    assert 0.8 < float(found * gbps * 10**9 / rounds) <= 1


@pytest.mark.parametrize("name", ["ring:8", "full:8", "torus:4x4", "dgx1", "hub:8"])
def test_no_schedule_is_below_it(name: str) -> None:
    problem = ScheduleProblem.of(fabric_of(name), "all-to-all", Fraction(1 << 26))  # type: ignore[arg-type]
    key = fabric_plan.plan(problem, budget=Budget(seconds=30)).certificate.keys[0]
    assert key.bound is not None and 0 < key.bound <= key.value
