"""Quantities as people write them ("25GB/s", "0.7us", "64MiB") and as they are computed with: exact SI numbers.

Decimal prefixes are decimal (GB = 1e9 bytes), binary ones binary (GiB = 2**30 bytes); bits are written with a small b.
"""

from __future__ import annotations

import re
from fractions import Fraction

from fabric_plan.planner.errors import InvalidInput

# No longer than any real figure, so that nothing absurd is ever computed exactly.
_NUMBER = r"(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?(?:[eE][-+]?[0-9]{1,2})?|\.[0-9]{1,30})"
_SIZE = re.compile(_NUMBER + r"\s*(?P<prefix>[kKMGTP]i?)?(?P<unit>[Bb])?")
_TIME = re.compile(_NUMBER + r"\s*(?P<unit>ps|ns|us|µs|\u03bcs|ms|s)?")
_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"ki": 2**10, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_SECONDS = {"ps": 12, "ns": 9, "us": 6, "µs": 6, "\u03bcs": 6, "ms": 3, "s": 0, None: 0}

_BINARY_STEPS = (("PiB", 2**50), ("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_DECIMAL_STEPS = (("PB", 10**15), ("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def parse_size(text: str) -> Fraction:
    """Return the bytes that ``text`` states ("64MiB", "1.5GB", "4096").

    Raises
    ------
    InvalidInput
        When it is not a size, or not a positive one.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not a size: expected a number and a unit, as in 64MiB, 1.5GB or 4096")
    prefix = match["prefix"] or ""
    value = Fraction(match["number"]) * (_BINARY.get(prefix) or _DECIMAL[prefix])
    if match["unit"] == "b":
        value /= 8
    if value <= 0:
        raise InvalidInput(f"{text!r} is not a size: it must be greater than zero")
    return value


def parse_bandwidth(text: str) -> int:
    """Return the bytes per second that ``text`` states ("25GB/s", "750GBps", "400Gb/s"), rounded to a whole byte."""
    stripped = re.sub(r"(/s|ps)$", "", text.strip())
    try:
        value = round(parse_size(stripped))
    except InvalidInput:
        value = 0
    if value <= 0:
        raise InvalidInput(f"{text!r} is not a bandwidth: expected something like 25GB/s or 400Gb/s")
    return value


def parse_time(text: str) -> Fraction:
    """Return the seconds that ``text`` states ("0.7us", "20ns", "1e-6"); zero is allowed."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(f"{text!r} is not a time: expected a number and a unit, as in 0.7us or 20ns")
    return Fraction(match["number"]) / Fraction(10 ** _SECONDS[match["unit"]])


def _number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def format_size(size: Fraction | int) -> str:
    """Return a size in bytes for a reader: a binary unit where it is exact, else a decimal one."""
    for unit, scale in _BINARY_STEPS:
        if size >= scale:
            if (Fraction(size) / scale * 8).denominator == 1:
                return f"{_number(float(size / Fraction(scale)))}{unit}"
            break
    for unit, scale in _DECIMAL_STEPS:
        if size >= scale:
            return f"{_number(float(size / Fraction(scale)))}{unit}"
    return f"{_number(float(size))}B"


def format_bandwidth(bandwidth: int | Fraction) -> str:
    """Return a bandwidth in bytes/s for a reader, in decimal units."""
    for unit, scale in _DECIMAL_STEPS:
        if bandwidth >= scale:
            return f"{_number(float(bandwidth / Fraction(scale)))}{unit}/s"
    return f"{_number(float(bandwidth))}B/s"


def format_time(seconds: Fraction | float) -> str:
    """Return a time in seconds for a reader."""
    value = float(seconds)
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)):
        if abs(value) >= scale:
            return f"{_number(value / scale)}{unit}"
    return "0s" if value == 0 else f"{_number(value / 1e-12)}ps"
