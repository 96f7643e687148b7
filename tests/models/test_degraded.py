"""Fabrics with links and nodes that are down are planned to their own bound."""

from __future__ import annotations

from fractions import Fraction

import pytest

import fabric_plan
from fabric_plan.models.schedule.planners import schedule_of
from fabric_plan.planner.catalog import build
from fabric_plan.planner.degraded import degraded
from fabric_plan.planner.errors import Infeasible, InvalidInput
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.simulator.schedule import check

PLANE = ("plane3",)
LINKS = ("gpu0:plane1", "gpu5:plane2", "gpu9:plane3")
GI = 1 << 30


@pytest.mark.parametrize("failed", [PLANE, LINKS], ids=["plane", "links"])
@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter", "all-to-all", "scatter", "gather"])
def test_nvl72_after_failures(pattern: str, failed: tuple[str, ...]) -> None:
    """Within 1 % of the bound of what is left, which is 17 planes for some or all."""
    fabric, alive = degraded(build("nvl72"), failed)
    assert len(alive) == 72
    plan = schedule_of(ScheduleProblem.of(fabric, pattern, GI), "direct")
    key = plan.certificate.keys[0]
    assert key.bound is not None
    assert key.bound >= Fraction(GI) * 71 / 72 / (17 * 50 * 10**9)
    assert key.bound <= key.value <= key.bound * Fraction(101, 100)
    assert not check(plan)[1]


def test_odd_group() -> None:
    """37 of 72 GPUs."""
    problem = ScheduleProblem.of("nvl72", "all-gather", GI, group=range(37))
    key = schedule_of(problem, "direct").certificate.keys[0]
    assert key.bound is not None and key.value <= key.bound * Fraction(101, 100)


def test_in_network_on_seventeen_planes() -> None:
    """Planes that reach every rank reduce; a plane less costs its share."""
    fabric, _ = degraded(build("nvl72"), PLANE)
    key = schedule_of(ScheduleProblem.of(fabric, "all-reduce", GI), "in-network").certificate.keys[0]
    assert key.bound is not None and key.value <= key.bound * Fraction(101, 100)


def test_what_is_gone() -> None:
    """A node goes with all its links and its seat; links go one way or both."""
    fabric, alive = degraded(build("mesh:3x3"), ["(1,1)"])
    assert alive == (0, 1, 2, 3, 5, 6, 7, 8)
    assert all(4 not in (link.source, link.target) for link in fabric.links)
    assert len(degraded(build("ring:4"), ["npu0->npu1"])[0].links) == 7
    assert len(degraded(build("ring:4"), ["npu0:npu1"])[0].links) == 6
    assert degraded(build("ring:4"), []) == (build("ring:4"), (0, 1, 2, 3))


@pytest.mark.parametrize(
    ("what", "said"),
    [("npu9", "npu9"), ("npu0:npu2", "no link joins"), ("npu0->npu7", "npu7"), ("", "does not exist")],
)
def test_what_does_not_exist(what: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        degraded(build("ring:4"), [what])


@pytest.mark.parametrize("pattern", ["all-gather", "all-reduce", "all-to-all", "broadcast", "reduce", "gather"])
def test_ranks_that_are_cut_off(pattern: str) -> None:
    """Answered from the links alone, with the two names."""
    fabric, _ = degraded(build("ring:4"), ["npu0:npu1", "npu2:npu3"])
    with pytest.raises(Infeasible, match=r"no links of .* lead from"):
        fabric_plan.plan(ScheduleProblem.of(fabric, pattern, GI))


def test_one_way_is_enough_for_a_broadcast() -> None:
    fabric, _ = degraded(build("ring:3"), ["npu1->npu0", "npu2->npu0"])
    assert fabric_plan.plan(ScheduleProblem.of(fabric, "broadcast", GI)).certificate.keys[0].bound
    with pytest.raises(Infeasible, match="npu1 to npu0"):
        fabric_plan.plan(ScheduleProblem.of(fabric, "all-gather", GI))
