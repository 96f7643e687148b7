"""All-to-alls in synchronous steps: known least rounds, and what cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabric_plan.models.schedule.exchange import fewest_rounds
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import synchronous_plan
from fabric_plan.models.schedule.synchronous import net_of
from fabric_plan.planner.errors import Infeasible
from fabric_plan.planner.files import load_fabric
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator.schedule import check

FABRICS = Path(__file__).parents[2] / "instances" / "fabrics"


def problem_of(name: str, blocks: int) -> ScheduleProblem:
    path = FABRICS / f"{name}.json"
    return ScheduleProblem.of(load_fabric(str(path) if path.exists() else name), "all-to-all", 1 << 20, chunks=blocks)


@pytest.mark.parametrize(
    ("name", "steps", "blocks", "rounds"),
    [
        ("dgx1", 2, 1, 3),
        ("dgx1", 2, 3, 8),
        ("dgx1", 3, 3, 8),
        ("dgx1", 8, 3, 8),
        ("ring:8", 4, 1, 8),
        ("hypercube3", 3, 1, 4),
        ("torus:3x3", 2, 1, 3),
        ("full:8", 1, 1, 1),
        ("mesh:2x3", 3, 1, 4),
    ],
)
def test_known_rounds(name: str, steps: int, blocks: int, rounds: int) -> None:
    """Found, proved, and a schedule whose data are followed."""
    plan, found = synchronous_plan(problem_of(name, blocks), steps, None, Budget(seconds=60, workers=1))
    assert (found.total, found.bound) == (rounds, rounds)
    assert not check(plan)[1]
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value


@pytest.mark.parametrize(("steps", "rounds", "why"), [(1, None, "hops"), (2, 2, "no fewer than 3")])
def test_what_cannot_be(steps: int, rounds: int | None, why: str) -> None:
    problem = problem_of("dgx1", 1)
    group = Group(problem.fabric, problem.jobs[0])
    with pytest.raises(Infeasible, match=why):
        fewest_rounds(group, net_of(group), steps, 1, Budget(seconds=60, workers=1), rounds=rounds)
