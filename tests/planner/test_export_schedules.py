"""Exported schedules: each is right for every interleaving, by the checker and by running it at random."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from schedules import interleaving

from fabric_plan.models.schedule.planners import ALGORITHMS, schedule_of
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.export.drafts import Exported
from fabric_plan.planner.export.msccl import write_msccl
from fabric_plan.planner.export.mscclpp import write_mscclpp
from fabric_plan.planner.export.pieces import NAMES
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import SchedulePlan
from fabric_plan.planner.threads import check_msccl, check_mscclpp

CASES = [
    (fabric, name, pattern)
    for fabric in ("ring:4", "full:4", "torus:3x3", "dgx1")
    for name, one in ALGORITHMS.items()
    for pattern in one.patterns
    if pattern in NAMES
]


def plan_of(fabric: str, name: str, pattern: str) -> SchedulePlan:
    chunks = 4 if ALGORITHMS[name].pipelined and name != "trees" else None
    try:
        return schedule_of(ScheduleProblem.of(fabric, pattern, "1MiB", chunks=chunks), name)
    except InvalidInput:
        pytest.skip("the planner does not suit the fabric")


@pytest.mark.parametrize(("fabric", "name", "pattern"), CASES)
def test_files_are_right(fabric: str, name: str, pattern: str) -> None:
    plan = plan_of(fabric, name, pattern)
    for checked in (
        check_msccl.check(write_msccl(plan).data, root=0),
        check_mscclpp.check(write_mscclpp(plan).data, root=0),
    ):
        verdict = checked.verdict
        assert verdict.verdict == "valid", verdict.findings
        assert not verdict.refused_by("executor")
        assert not [one for one in verdict.findings if one.code == "race"]
        assert checked.collective is not None
        assert checked.collective.name == pattern.replace("-", "")
        assert checked.collective.ranks == len(plan.problem.jobs[0].group)


@pytest.mark.parametrize("write", [write_msccl, write_mscclpp])
@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("ring", "all-reduce"),
        ("direct", "all-to-all"),
        ("direct", "all-reduce"),
        ("chain", "broadcast"),
        ("chain", "reduce"),
        ("recursive-doubling", "all-gather"),
        ("halving-doubling", "reduce-scatter"),
    ],
)
def test_random_interleavings_end_right(write: Callable[[SchedulePlan], Exported], name: str, pattern: str) -> None:
    data = write(plan_of("full:4", name, pattern)).data
    found = interleaving.run(interleaving.load(data.decode()), seed=1)
    assert found.done, found.detail


@pytest.mark.parametrize("fabric", ["h100:4", "h100:8", "nvl72"])
@pytest.mark.parametrize("pattern", [one for one in ALGORITHMS["in-network"].patterns if one in NAMES])
def test_switches_reduce_and_copy(fabric: str, pattern: str) -> None:
    group = range(9) if fabric == "nvl72" else None
    plan = schedule_of(ScheduleProblem.of(fabric, pattern, "1MiB", chunks=4, group=group), "in-network")
    data = write_mscclpp(plan).data
    assert (b"gstore" if pattern in ("all-gather", "broadcast") else b"glres") in data
    found = interleaving.run(interleaving.load(data.decode()), seed=1)
    assert found.done, found.detail
    with pytest.raises(InvalidInput, match="mscclpp-json") as caught:
        write_msccl(plan)
    assert "\n" not in str(caught.value)


def test_boxes_talk_over_ports() -> None:
    plan = schedule_of(ScheduleProblem.of("instances/fabrics/h100_2box.json", "all-reduce", "1MiB"), "hierarchical")
    assert b'"port"' in write_mscclpp(plan).data


def test_what_does_not_fit_is_told_with_what_would() -> None:
    plan = schedule_of(ScheduleProblem.of("ring:8", "all-reduce", "1GiB", chunks=2048), "double-binary-tree")
    with pytest.raises(InvalidInput, match=r"the executor takes .*chunks fit") as caught:
        write_msccl(plan)
    assert "\n" not in str(caught.value)
