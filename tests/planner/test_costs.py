"""What a fabric costs beyond its links: values that are refused, and which protocol a size gets."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from fabric_plan.planner.costs import Costs, Protocol
from fabric_plan.planner.errors import InvalidInput

US = Fraction(1, 10**6)


def named(*limits: int | None) -> tuple[Protocol, ...]:
    return tuple(
        Protocol(name=f"p{k}", max_size=None if limit is None else Fraction(limit)) for k, limit in enumerate(limits)
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"max_size": Fraction(0)}, "protocol ll: max_size must be greater than zero"),
        ({"fixed": -US}, "protocol ll: times must not be negative"),
        ({"latency": {"nvlink": -US, "nic": US}}, "protocol ll: times must not be negative"),
        ({"bandwidth": {"nvlink": 0}}, "protocol ll: bandwidths must be greater than zero"),
    ],
)
def test_protocols_are_checked(values: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Protocol(name="ll", **values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"fixed": -US}, "fixed and gamma"),
        ({"gamma": -US}, "fixed and gamma"),
        ({"in_network": Fraction(0)}, "in_network"),
        ({"in_network": Fraction(7, 6)}, "in_network"),
        ({"protocols": named(None, 10)}, "ascending max_size"),
        ({"protocols": named(10, 10)}, "ascending max_size"),
        ({"protocols": named(20, 10, None)}, "ascending max_size"),
        ({"protocols": (*named(10), *named(None))}, "names of their own, got p0, p0"),
    ],
)
def test_costs_are_checked(values: dict, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Costs(**values)


def test_the_bounds_themselves_are_allowed() -> None:
    assert Costs(in_network=Fraction(1)).in_network == 1
    assert Costs(fixed=Fraction(0), protocols=named(10, 20, None)).protocols[1].max_size == 20


@pytest.mark.parametrize(("size", "name"), [(1, "p0"), (10, "p0"), (Fraction(21, 2), "p1"), (20, "p1"), (21, "p2")])
def test_a_size_gets_the_first_protocol_that_allows_it(size: Fraction | int, name: str) -> None:
    found = Costs(protocols=named(10, 20, None)).protocol(size)
    assert found is not None
    assert found.name == name


def test_beyond_all_limits_the_last_protocol_holds() -> None:
    found = Costs(protocols=named(10, 20)).protocol(1000)
    assert found is not None
    assert found.name == "p1"
    assert Costs().protocol(1) is None


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="colour"):
        msgspec.convert({"name": "ll", "colour": "red"}, Protocol)
