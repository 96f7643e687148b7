"""The checker against random interleavings: no accepted schedule is ever seen to fail."""

from __future__ import annotations

import pytest

from schedules import interleaving, mutants, table

RULES = {
    23: "step numbers out of order, which loaders do not take",
    26: "fused reductions whose counts differ: the runtime takes the last one's for all",
}
"""Families of which mutants are refused by rule, though what is left of them may run."""


@pytest.mark.parametrize("base", table.BASES)
def test_bases_are_right(base: str) -> None:
    text = table.BASES[base]()
    assert table.verdict_of(text)[0] in ("valid", "hangs-above")
    assert interleaving.runs(text, 60).done


def check(found: list[table.Row]) -> None:
    for one in found:
        told = one.base, one.mutant.family, one.mutant.name, one.verdict, one.why, one.outcome, one.detail
        if one.accepted:
            assert one.outcome == "done", told
        if one.mutant.family in mutants.ALWAYS_FAIL:
            assert not one.accepted, told
        if one.mutant.family in mutants.NEVER_FAIL:
            assert one.accepted, told
        if not one.accepted and one.outcome == "done" and one.mutant.family < 30:
            assert one.mutant.family in RULES, told


def test_some_mutants() -> None:
    check(list(table.rows(seed=7, each=30, runs=20)))


@pytest.mark.slow
def test_the_whole_table() -> None:
    found = list(table.rows(seed=1, each=120, runs=100))
    assert len(found) >= 1000
    check(found)
    assert {one.mutant.family for one in found} == set(mutants.FAMILIES)
