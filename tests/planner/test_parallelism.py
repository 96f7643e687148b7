from __future__ import annotations

import math

import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.parallelism import DIMENSIONS, MAX_WORKERS, Strategy

SIZES = st.dictionaries(st.sampled_from(DIMENSIONS), st.integers(1, 5), min_size=1).map(lambda d: list(d.items()))


@pytest.mark.parametrize(
    "text",
    [
        "MP3-DP3-PP2",
        "MP(3)_DP(3)_PP(2)",
        "tp3,dp3,pp2",
        "pp2-dp3-mp3",
        "TP=3 PP=2 DP=3",
        "mp3xdp3xpp2",
        " MP3;DP3;PP2 ",
        "mp3*dp(3)*pp2",
    ],
)
def test_every_spelling_is_the_same_strategy(text: str) -> None:
    strategy = Strategy.parse(text)
    assert strategy == Strategy([("mp", 3), ("dp", 3), ("pp", 2)])
    assert hash(strategy) == hash(Strategy.parse("MP3-DP3-PP2"))
    assert str(strategy) == "MP3-DP3-PP2"
    assert strategy.workers == 18


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no dimension"),
        ("---", "no dimension"),
        ("XP3", "unknown dimension 'XP'"),
        ("MP3-MP2", "MP is given twice"),
        ("MP3-TP2", "MP is given twice"),
        ("MP0", "at least 1"),
        ("MP-3", "cannot read 'MP'"),
        ("3MP", "cannot read '3MP'"),
        ("MP3.5", "cannot read 'MP3.5'"),
        ("MP1024-DP1025", "at most 1,048,576"),
        ("DPP2", "did you mean"),
    ],
)
def test_bad_strategies_are_errors_that_name_the_part(text: str, reason: str) -> None:
    with pytest.raises(InvalidProblem, match=r"strategy") as caught:
        Strategy.parse(text)
    assert reason in str(caught.value)


def test_an_unknown_dimension_is_an_error() -> None:
    with pytest.raises(InvalidProblem, match="unknown dimension 'zp'"):
        Strategy([("zp", 2)])


def test_a_size_of_very_many_digits_is_an_error_of_the_input() -> None:
    with pytest.raises(InvalidProblem):
        Strategy.parse("MP" + "9" * 5000)


def test_the_largest_strategy_is_allowed() -> None:
    assert Strategy([("dp", MAX_WORKERS)]).workers == MAX_WORKERS


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SIZES)
def test_digits_groups_and_strides_match_the_definition(sizes: list[tuple[str, int]]) -> None:
    strategy = Strategy(sizes)
    digits = reference.worker_digits(strategy)
    assert strategy.workers == len(digits) == math.prod(size for _, size in sizes)
    for worker, named in enumerate(digits):
        assert strategy.digits(worker) == tuple(named[name] for name in strategy.dimensions)
        assert strategy.index(strategy.digits(worker)) == worker
        for name in DIMENSIONS:
            assert strategy.digit(worker, name) == named.get(name, 0)
    for name in strategy.dimensions:
        assert sorted(map(list, strategy.groups(name))) == reference.worker_groups(strategy, name)
        assert strategy.size(name) == dict(sizes)[name]


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SIZES, st.permutations(DIMENSIONS))
def test_order_lists_all_workers_first_dimension_fastest(sizes: list[tuple[str, int]], order: list[str]) -> None:
    strategy = Strategy(sizes)
    listed = strategy.order(order)
    digits = reference.worker_digits(strategy)
    assert sorted(listed) == list(range(strategy.workers))
    keys = [tuple(digits[worker].get(name, 0) for name in reversed(order)) for worker in listed]
    assert keys == sorted(keys)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(SIZES)
def test_parse_of_str_is_the_strategy(sizes: list[tuple[str, int]]) -> None:
    assert Strategy.parse(str(Strategy(sizes))) == Strategy(sizes)


def test_dimensions_left_out_of_an_order_come_last() -> None:
    strategy = Strategy.parse("MP2-DP2-PP2")
    assert strategy.order(["pp"]) == [0, 4, 1, 5, 2, 6, 3, 7]


def test_names_are_the_papers() -> None:
    strategy = Strategy.parse("MP3-DP3-PP2")
    assert strategy.name(strategy.index((0, 2, 1))) == "021"
    assert Strategy.parse("MP11-DP2").name(21) == "10.1"
    assert len({strategy.name(worker) for worker in range(18)}) == 18


def test_a_dimension_that_is_not_named_has_size_one() -> None:
    strategy = Strategy.parse("MP4")
    assert strategy.size("pp") == 1
    assert strategy.groups("pp") == [(0,), (1,), (2,), (3,)]
    assert strategy.digit(3, "dp") == 0
