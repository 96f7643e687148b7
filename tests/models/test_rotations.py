"""All-gathers on equal-sided tori without a search: steps at the bound, each direction once a step, and the judge's word."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from math import ceil

import pytest

import fabric_plan
from fabric_plan.models.schedule.rotations import tree_of
from fabric_plan.planner import interface
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.interface import Budget
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan


@pytest.mark.parametrize(
    ("side", "axes"),
    [
        (3, 2),
        (4, 2),
        (5, 2),
        (6, 2),
        (7, 2),
        (8, 2),
        (16, 2),
        (32, 2),
        (64, 2),
        (3, 3),
        (4, 3),
        (5, 3),
        (6, 3),
        (8, 3),
        (16, 3),
    ],
)
def test_steps_at_the_bound(side: int, axes: int) -> None:
    hops = tree_of(side, axes)
    ranks = side**axes
    assert max(hop.step for hop in hops) + 1 == ceil((ranks - 1) / (2 * axes))
    used: Counter[tuple[int, tuple[int, ...]]] = Counter()
    reached = {(0,) * axes: -1}
    for hop in hops:
        direction = tuple((a - b) % side for a, b in zip(hop.place, hop.parent, strict=True))
        assert sum(min(one, side - one) for one in direction) == 1
        assert reached[hop.parent] < hop.step and hop.place not in reached
        reached[hop.place] = hop.step
        used[hop.step, direction] += 1
    assert len(reached) == ranks and max(used.values()) == 1


@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter", "all-reduce"])
@pytest.mark.parametrize("fabric", ["torus:4x4", "torus:5x5", "torus:3x3x3", "torus:8x8"])
def test_schedules_pass_the_judge(fabric: str, pattern: str) -> None:
    problem = ScheduleProblem.of(fabric, pattern, Fraction(1 << 30))
    plan = fabric_plan.plan(problem, planner="rotations", budget=Budget(seconds=60))
    assert isinstance(plan, SchedulePlan)
    assert interface.validate(plan)[1] == []
    key = plan.certificate.keys[0]
    assert key.bound is not None and key.bound <= key.value <= key.bound * Fraction(6, 5)


def test_what_it_does_not_cover() -> None:
    with pytest.raises(InvalidProblem, match="equal sides"):
        tree_of(2, 2)
    for fabric in ("torus:4x8", "mesh:4x4", "ring:8"):
        with pytest.raises(InvalidProblem):
            fabric_plan.plan(ScheduleProblem.of(fabric, "all-gather", Fraction(1 << 20)), planner="rotations")
