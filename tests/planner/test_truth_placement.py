"""Known loads of orders and placements on meshes (X-Y routes, directed rings in index order), by the simulator alone."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from fabric_plan.planner.parallelism import Strategy
from fabric_plan.planner.problem import PlacementProblem
from fabric_plan.planner.simulator import placement
from fabric_plan.planner.simulator.placement import simulate


@pytest.fixture(autouse=True)
def loads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the event simulation: loads are what this page is about."""
    monkeypatch.setattr(placement, "MAX_TIMED_HOPS", 0)


def measured(fabric: str, strategy: str, seats, direction: str) -> tuple[list[Fraction], Fraction]:
    """Return the largest load of each phase alone, and of all together."""
    report = simulate(PlacementProblem.of(fabric, strategy, direction=direction), seats, {})
    return [phase.max_load for phase in report.phases], report.together.max_load


def row_major(fabric: str, text: str, direction: str = "forward") -> list[tuple[tuple[Fraction, ...], Fraction]]:
    """Return what every order of the dimensions on consecutive seats reaches."""
    strategy = Strategy.parse(text)
    found = []
    for order in itertools.permutations([name for name, size in strategy.sizes if size > 1]):
        seats = [0] * strategy.workers
        for seat, worker in enumerate(strategy.order(order)):
            seats[worker] = seat
        phases, together = measured(fabric, text, seats, direction)
        found.append((tuple(phases), together))
    return found


# Rows: what every row-major order reaches


@pytest.mark.parametrize(("direction", "together"), [("forward", 5), ("both", 6)])
def test_4x5_mp3_dp3_pp2(direction: str, together: int) -> None:
    found = row_major("mesh:4x5", "MP3-DP3-PP2", direction)
    assert len(found) == 6
    assert {all_at_once for _, all_at_once in found} == {together}
    assert {(mp, dp) for (mp, dp, _), _ in found} == {(2, 2)}
    if direction == "forward":
        assert {pp for (_, _, pp), _ in found} == {1, 2}


def test_4x4_mp2_dp4_pp2() -> None:
    """Every order leaves some phase at two flows; all together they have two."""
    found = row_major("mesh:4x4", "MP2-DP4-PP2")
    assert {max(phases) for phases, _ in found} == {2}
    assert {together for _, together in found} == {2}


def test_4x5_mp2_dp5_pp2() -> None:
    found = row_major("mesh:4x5", "MP2-DP5-PP2")
    together = {all_at_once for _, all_at_once in found}
    assert (min(together), max(together)) == (2, 5)
    best = min(sum(phases) for phases, _ in found)
    assert {phases for phases, _ in found if sum(phases) == best} == {(1, 1, 2), (2, 1, 1)}


@pytest.mark.parametrize(
    ("fabric", "strategy", "phases", "together"),
    [("mesh:4x4", "MP5-DP3", (1, 2), 3), ("mesh:4x5", "MP5-DP3", (1, 1), 1), ("mesh:4x5", "MP5-DP4", (1, 1), 1)],
)
def test_mp_on_rows(fabric: str, strategy: str, phases: tuple[int, ...], together: int) -> None:
    found = row_major(fabric, strategy)
    assert (phases, together) in found
    assert min(all_at_once for _, all_at_once in found) == together


def test_4x5_mp4_dp5_is_aligned_with_dp_on_rows() -> None:
    assert ((1, 1), 1) in row_major("mesh:4x5", "MP4-DP5")


@pytest.mark.parametrize(("direction", "most"), [("forward", 6), ("both", 9)])
def test_6x6_mp3_dp4_pp3(direction: str, most: int) -> None:
    found = {together for _, together in row_major("mesh:6x6", "MP3-DP4-PP3", direction)}
    assert (min(found), max(found)) == (3, most)


@pytest.mark.parametrize(("direction", "most"), [("forward", 4), ("both", 8)])
def test_8x8_mp4_dp4_pp4(direction: str, most: int) -> None:
    found = row_major("mesh:8x8", "MP4-DP4-PP4", direction)
    together = {all_at_once for _, all_at_once in found}
    assert (min(together), max(together)) == (4, most)
    if direction == "forward":
        assert found[0][0] == (1, 4, 2)  # MP fastest, then DP, then PP


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fabric", "strategy", "phases", "together"),
    [
        ("mesh:64x64", "MP8-DP32-PP16", (1, 8, 4), 9),
        ("mesh:128x128", "MP16-DP64-PP16", (1, 16, 8), 17),
        ("torus:128x128", "MP16-DP64-PP16", (1, 16, 8), 17),
    ],
)
def test_large_row_major(fabric: str, strategy: str, phases: tuple[int, ...], together: int) -> None:
    workers = Strategy.parse(strategy).workers
    assert measured(fabric, strategy, range(workers), "forward") == (list(phases), together)


# Witnesses: digits mp, dp, pp of the worker on each seat

MP2_DP4_PP2 = "010 021 001 131 / 121 000 031 011 / 020 101 130 110 / 111 120 100 030"
MP3_DP3_PP2 = ".... 210 200 .... 001 / 211 101 000 220 010 / 221 111 100 120 011 / 110 201 121 020 021"
MP3_DP3_PP2_TOGETHER = "211 201 210 221 .... / 200 001 011 021 220 / 000 101 010 111 020 / 100 .... 110 121 120"


def seats_of(strategy: str, grid: str) -> list[int]:
    """Return the seat of each worker of a grid of digits."""
    split = Strategy.parse(strategy)
    seats: dict[int, int] = {}
    for seat, cell in enumerate(grid.replace("/", " ").split()):
        if "." not in cell:
            seats[split.index(tuple(map(int, cell)))] = seat
    assert sorted(seats) == list(range(split.workers))
    return [seats[worker] for worker in range(split.workers)]


@pytest.mark.parametrize("direction", ["forward", "both"])
@pytest.mark.parametrize(
    ("fabric", "strategy", "grid"),
    [("mesh:4x4", "MP2-DP4-PP2", MP2_DP4_PP2), ("mesh:4x5", "MP3-DP3-PP2", MP3_DP3_PP2)],
)
def test_every_phase_alone_can_be_free_of_congestion(fabric: str, strategy: str, grid: str, direction: str) -> None:
    phases, _ = measured(fabric, strategy, seats_of(strategy, grid), direction)
    assert phases == [1, 1, 1]


def test_all_groups_at_once_with_two_flows() -> None:
    _, together = measured("mesh:4x5", "MP3-DP3-PP2", seats_of("MP3-DP3-PP2", MP3_DP3_PP2_TOGETHER), "forward")
    assert together == 2
