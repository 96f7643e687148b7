"""List schedules: what goes first, that simulation finds the times that they were made for, and that compiled and plain code agree."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import numpy as np
import pytest

from fabric_plan.models.schedule import listed
from fabric_plan.models.schedule.group import Group
from fabric_plan.models.schedule.planners import draft_of
from fabric_plan.planner.catalog import build
from fabric_plan.planner.fabric import Fabric, Link, Node
from fabric_plan.planner.problem import ScheduleProblem
from fabric_plan.planner.schedule import Columns, padded
from fabric_plan.planner.simulator.dataflow import NOT, Found
from fabric_plan.planner.simulator.dataflow import check as dataflow_check
from fabric_plan.planner.simulator.schedule import simulate

MI = 1 << 20


def work(served: list[list[tuple[int, int]]], needs: list[list[int]], cut_through: bool = False) -> listed.Work:
    """Return work with no latency from hops (link, ticks)."""
    starts = np.cumsum([0, *(len(one) for one in served)])
    hops = np.array([hop for one in served for hop in one])
    need_start = np.cumsum([0, *(len(one) for one in needs)])
    need = np.array([other for one in needs for other in one], dtype=np.int64)
    return listed.Work(starts, hops[:, 0], hops[:, 1], 0 * hops[:, 0], need_start, need, cut_through)


def test_the_lowest_rank_goes_first() -> None:
    some = work([[(0, 5)], [(0, 5)], [(1, 5)]], [[], [], [0]])
    times = listed.listed(some, np.array([1, 0, 2]))
    assert times.start.tolist() == [5, 0, 10]
    assert times.ready.tolist() == [0, 0, 10]
    assert times.end.tolist() == [10, 5, 15]
    # Going back and forward finds that what something waits for should go first.
    assert [one.whole for one in listed.improved(some, np.array([1, 0, 2]))] == [15, 10]


def test_a_hop_follows_the_one_before() -> None:
    assert listed.listed(work([[(0, 5), (1, 7)]], [[]]), np.zeros(1)).end.tolist() == [12]
    assert listed.listed(work([[(0, 5), (1, 7)]], [[]], cut_through=True), np.zeros(1)).end.tolist() == [7]


def test_work_goes_back() -> None:
    some = work([[(0, 5), (1, 7)], [(0, 2)], [(2, 1)]], [[], [0], [0, 1]])
    back = some.reversed
    assert back.hop_link.tolist() == [1, 0, 0, 2]
    assert back.need_start.tolist() == [0, 2, 3, 3]
    assert back.need.tolist() == [1, 2, 2]
    again = back.reversed
    assert again.hop_link.tolist() == some.hop_link.tolist()
    assert again.need.tolist() == some.need.tolist()


def _random(seed: int, count: int) -> listed.Work:
    random = np.random.default_rng(seed)
    served = [
        [(int(link), int(random.integers(1, 9))) for link in random.permutation(6)[: random.integers(1, 4)]]
        for _ in range(count)
    ]
    needs = [
        sorted({int(one) for one in random.integers(0, k, random.integers(0, 3))}) if k else [] for k in range(count)
    ]
    return work(served, needs)


@pytest.mark.parametrize("seed", range(20))
def test_no_list_schedule_is_shorter_than_its_busiest_link_or_its_longest_chain(seed: int) -> None:
    some = _random(seed, 60)
    busiest = int(np.bincount(some.hop_link, some.hop_ticks).max())
    chain = [0] * len(some)
    for one in range(len(some)):
        before = [chain[other] for other in some.need[some.need_start[one] : some.need_start[one + 1]]]
        chain[one] = max(before, default=0) + int(some.hop_ticks[some.hop_start[one] : some.hop_start[one + 1]].sum())
    found = [one.whole for one in listed.improved(some)]
    assert found == sorted(set(found), reverse=True)
    assert min(found) >= max(busiest, *chain)


def test_compiled_and_plain_code_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    some = _random(1, 500)
    rank = np.random.default_rng(2).integers(0, 50, 500)
    plain = [listed.listed(some, rank, back=back) for back in (False, True)]
    monkeypatch.setattr(listed, "COMPILED_FROM", 0)
    for one, back in zip(plain, (False, True), strict=True):
        fast = listed.listed(some, rank, back=back)
        for name in ("place", "ready", "start", "end"):
            assert getattr(one, name).tolist() == getattr(fast, name).tolist()


@pytest.mark.parametrize("name", ["torus:3x3", "mesh:2x3", "hub:5", "dgx1", "ring:5"])
@pytest.mark.parametrize("pattern", ["all-gather", "reduce-scatter", "all-reduce"])
def test_simulation_finds_the_times_of_the_list_schedule(name: str, pattern: str) -> None:
    """Where sizes are even, to the tick: needs keep what goes first on each link, and the rest comes as it comes."""
    fabric = build(name)
    problem = ScheduleProblem.of(fabric, pattern, 9 * 720 * MI, chunks=2)
    draft = draft_of(problem, "trees")
    group = Group(problem.fabric.for_size(problem.jobs[0].size), problem.jobs[0])
    some = listed.work_of(group, draft.transfers, Fraction(draft.chunk_bytes[0]))
    rank = np.random.default_rng(3).permutation(len(some))
    ticks = _ticks(group, Fraction(draft.chunk_bytes[0]))
    for times in listed.improved(some, rank):
        plan = msgspec.structs.replace(draft, transfers=listed.kept(draft.transfers, some, times).transfers())
        seconds = simulate(plan, followed=Found([], NOT)).report.seconds
        assert seconds is not None
        assert seconds == Fraction(times.whole, ticks)
        assert not dataflow_check(plan).faults


def _ticks(group: Group, chunk: Fraction) -> int:
    return int(
        np.lcm.reduce(
            [one.denominator for link in group.fabric.links for one in (chunk / link.bandwidth, link.latency)]
        )
    )


def test_work_of_unequal_ways_and_barriers() -> None:
    """A node that sends to itself only waits; of two planes the first stands for both."""
    fabric = Fabric(
        "two",
        [Node("npu", "a"), Node("npu", "b")],
        [Link(0, 1, 10**9, Fraction(1, 10**6)), Link(1, 0, 10**9, Fraction(0))],
    )
    columns = Columns()
    columns.add([0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 3], needs=padded([[], [0], [1]]))
    group = Group(fabric, ScheduleProblem.of(fabric, "all-gather", 8).jobs[0])
    some = listed.work_of(group, columns.transfers(), Fraction(1000))
    assert some.hop_link.tolist() == [0, 3, 0]
    assert some.hop_ticks.tolist() == [1, 0, 3]
    assert some.hop_wait.tolist() == [1, 0, 1]
    assert listed.listed(some, np.arange(3)).end.tolist() == [2, 2, 6]
