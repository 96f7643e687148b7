from __future__ import annotations

from fractions import Fraction

import pytest

from fabric_plan.planner.collective import (
    PATTERNS,
    direct_edge_bytes,
    postcondition,
    precondition,
    ring_edge_bytes,
    ring_steps,
)

RANKS = [1, 2, 3, 5]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_a_rank_ends_with_was_somewhere_at_the_start(pattern: str, ranks: int) -> None:
    before, after = precondition(pattern, ranks), postcondition(pattern, ranks)
    assert len(before) == len(after) == ranks
    everywhere = frozenset().union(*before)
    assert frozenset().union(*after) <= everywhere
    assert everywhere


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_rank_starts_with_its_own_contribution_only(pattern: str, ranks: int) -> None:
    for rank, chunks in enumerate(precondition(pattern, ranks)):
        assert all(owner == rank for owner, _ in chunks)


def test_all_reduce_is_reduce_scatter_then_all_gather() -> None:
    scattered, whole = postcondition("reduce-scatter", 4), postcondition("all-reduce", 4)
    for rank in range(4):
        assert scattered[rank] == {(owner, rank) for owner in range(4)}
        assert frozenset().union(*scattered) == whole[rank]


def test_all_gather_leaves_every_shard_everywhere() -> None:
    assert postcondition("all-gather", 3) == [frozenset({(0, 0), (1, 1), (2, 2)})] * 3
    assert precondition("all-gather", 3) == [frozenset({(rank, rank)}) for rank in range(3)]


def test_all_to_all_transposes() -> None:
    before, after = precondition("all-to-all", 3), postcondition("all-to-all", 3)
    for rank in range(3):
        assert after[rank] == {(owner, block) for owner in range(3) for o, block in before[owner] if block == rank}


def test_rooted_patterns_are_about_rank_zero() -> None:
    assert postcondition("scatter", 3) == [frozenset({(0, rank)}) for rank in range(3)]
    assert postcondition("gather", 3) == [frozenset({(0, 0), (1, 1), (2, 2)}), frozenset(), frozenset()]
    assert postcondition("broadcast", 2) == [frozenset({(0, 0), (0, 1)})] * 2
    assert postcondition("reduce", 2) == [frozenset({(0, 0), (0, 1), (1, 0), (1, 1)}), frozenset()]
    assert precondition("broadcast", 2)[1] == frozenset()


def test_point_to_point_ends_at_rank_one() -> None:
    after = postcondition("point-to-point", 3)
    assert after[1] == precondition("point-to-point", 3)[0]
    assert after[2] == frozenset()


def test_unknown_patterns_are_errors() -> None:
    for function in (lambda: precondition("mixed", 2), lambda: postcondition("mixed", 2)):
        with pytest.raises(ValueError, match="unknown pattern 'mixed'"):
            function()
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
