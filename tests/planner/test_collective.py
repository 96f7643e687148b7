from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from fabric_plan.planner.collective import (
    PATTERNS,
    conditions,
    direct_edge_bytes,
    ring_edge_bytes,
    ring_steps,
)

RANKS = [1, 2, 3, 5]


def sets(pattern: str, ranks: int) -> tuple[list[set[int]], list[set[int]], bool]:
    """Return by rank the shards that it has at first and must end with, and whether these are sums."""
    shards = range(ranks * ranks if pattern == "all-to-all" else ranks)
    found = [[conditions(pattern, rank, shard, ranks) for shard in shards] for rank in range(ranks)]
    before = [{shard for shard in shards if row[shard][0]} for row in found]
    after = [{shard for shard in shards if row[shard][1]} for row in found]
    return before, after, found[0][0][2]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_rank_ends_with_was_somewhere_at_the_start(pattern: str, ranks: int) -> None:
    before, after, sums = sets(pattern, ranks)
    assert set().union(*after) <= set().union(*before)
    assert set().union(*after)
    holders = [sum(shard in one for one in before) for shard in set().union(*before)]
    assert set(holders) == ({ranks} if sums else {1})


@pytest.mark.parametrize("pattern", PATTERNS)
def test_arrays_say_the_same_as_numbers(pattern: str) -> None:
    rank, shard = np.arange(4)[:, None], np.arange(16 if pattern == "all-to-all" else 4)[None, :]
    has, ends, _ = conditions(pattern, rank, shard, 4)
    before, after, _ = sets(pattern, 4)
    assert [set(np.flatnonzero(row).tolist()) for row in has] == before
    assert [set(np.flatnonzero(row).tolist()) for row in ends] == after


def test_what_each_pattern_asks_for() -> None:
    whole = {0, 1, 2}
    own, root = [{0}, {1}, {2}], [whole, set(), set()]
    assert sets("all-reduce", 3) == ([whole] * 3, [whole] * 3, True)
    assert sets("reduce-scatter", 3) == ([whole] * 3, own, True)
    assert sets("reduce", 3) == ([whole] * 3, root, True)
    assert sets("all-gather", 3) == (own, [whole] * 3, False)
    assert sets("broadcast", 3) == (root, [whole] * 3, False)
    assert sets("gather", 3) == (own, root, False)
    assert sets("scatter", 3) == (root, own, False)
    assert sets("point-to-point", 3) == (root, [whole, whole, set()], False)


def test_all_to_all_transposes() -> None:
    before, after, sums = sets("all-to-all", 3)
    assert before == [{0, 1, 2}, {3, 4, 5}, {6, 7, 8}]
    assert after == [{0, 3, 6}, {1, 4, 7}, {2, 5, 8}]
    assert not sums


def test_unknown_patterns_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown pattern 'mixed'"):
        conditions("mixed", 0, 0, 2)
    with pytest.raises(ValueError, match="no ring algorithm"):
        ring_steps("all-to-all", 3)
    with pytest.raises(ValueError, match="no direct algorithm"):
        direct_edge_bytes("all-reduce", 3, Fraction(1))


@pytest.mark.parametrize(("pattern", "passes"), [("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)])
def test_ring_volume_is_the_bandwidth_optimum(pattern: str, passes: int) -> None:
    assert ring_steps(pattern, 5) == passes * 4
    assert ring_edge_bytes(pattern, 5, Fraction(10)) == passes * Fraction(4, 5) * 10
    assert ring_steps(pattern, 1) == 0


def test_direct_volume_is_a_block() -> None:
    assert direct_edge_bytes("all-to-all", 8, Fraction(8)) == 1
