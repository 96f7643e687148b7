from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric_plan.planner import units
from fabric_plan.planner.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("64MiB", 64 * 2**20),
        ("1.5GB", 1_500_000_000),
        ("1KB", 1000),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("1kiB", 1024),
        ("2TB", 2 * 10**12),
        ("2TiB", 2 * 2**40),
        ("1PB", 10**15),
        ("1PiB", 2**50),
        ("8Gb", 10**9),
        ("8Kib", 1024),
        (" 3 MB ", 3_000_000),
        (".5GB", 500_000_000),
        ("1e6", 10**6),
        ("1e-3GB", 10**6),
        ("0.1", Fraction(1, 10)),
        ("5G", 5 * 10**9),
    ],
)
def test_sizes(text: str, size: int | Fraction) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "GB", "-1GB", "0", "0GB", "1 2", "1gb", "64XB", "1e", "nan", "inf", "1GB/s", "０1"]
)
def test_bad_sizes(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        units.parse_size(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "bandwidth"),
    [
        ("25GB/s", 25 * 10**9),
        ("750GBps", 750 * 10**9),
        ("400Gb/s", 50 * 10**9),
        ("400Gbps", 50 * 10**9),
        ("12.5GB/s", 12_500_000_000),
        ("1GiB/s", 2**30),
        ("3 TB/s", 3 * 10**12),
    ],
)
def test_bandwidths(text: str, bandwidth: int) -> None:
    assert units.parse_bandwidth(text) == bandwidth


@pytest.mark.parametrize("text", ["", "0GB/s", "0.1B/s", "-3GB/s", "fast", "1ns", "25GBps/s"])
def test_bad_bandwidths(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a bandwidth"):
        units.parse_bandwidth(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0.7us", Fraction(7, 10**7)),
        ("0.7µs", Fraction(7, 10**7)),
        ("20ns", Fraction(2, 10**8)),
        ("5ps", Fraction(5, 10**12)),
        ("3ms", Fraction(3, 1000)),
        ("2s", 2),
        ("1e-6", Fraction(1, 10**6)),
        ("0", 0),
        ("0us", 0),
    ],
)
def test_times(text: str, seconds: int | Fraction) -> None:
    assert units.parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "us", "-1us", "1 hour", "1m", "nan"])
def test_bad_times(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time"):
        units.parse_time(text)


def test_an_absurd_exponent_is_refused_rather_than_computed() -> None:
    """Ten to the power of a million million has more digits than any machine holds."""
    for parse in (units.parse_size, units.parse_bandwidth, units.parse_time):
        with pytest.raises(InvalidInput):
            parse("1e20000")


def test_formats() -> None:
    assert units.format_size(64 * 2**20) == "64MiB"
    assert units.format_size(1_500_000_000) == "1.5GB"
    assert units.format_size(4096) == "4KiB"
    assert units.format_size(Fraction(1, 2)) == "0.5B"
    assert units.format_bandwidth(25 * 10**9) == "25GB/s"
    assert units.format_bandwidth(12) == "12B/s"
    assert units.format_time(Fraction(7, 10**7)) == "700ns"
    assert units.format_time(0) == "0s"
    assert units.format_time(Fraction(5, 10**12)) == "5ps"
    assert units.format_time(2) == "2s"


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(1, 10**18))
def test_a_formatted_size_is_near_the_size(size: int) -> None:
    read = units.parse_size(units.format_size(size).replace(",", ""))
    assert abs(read - size) <= size / Fraction(1000)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(st.integers(1, 10**15))
def test_a_formatted_bandwidth_is_near_the_bandwidth(bandwidth: int) -> None:
    read = units.parse_bandwidth(units.format_bandwidth(bandwidth).replace(",", ""))
    assert abs(read - bandwidth) <= bandwidth / Fraction(1000) + 1
