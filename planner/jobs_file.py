"""Several jobs from a TOML file: which collectives run at once, on which seats, how large, from when on, and which matter more.

fabric = "mesh:4x5"            # may be left out where the command line names it

[[job]]
pattern = "all-reduce"
group = "0-2,5"                # or groups = "0-2;3-5": one job for each
size = "64MiB"
release = "10us"               # 0 where it is left out
priority = 1                   # 0, first, where it is left out
name = "gradients"
"""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction
from typing import Any

from fabric_plan.planner.collective import PATTERNS
from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.files import load_fabric, read_bytes
from fabric_plan.planner.problem import Job, ScheduleProblem
from fabric_plan.planner.units import parse_size, parse_time

MAX_JOBS = 4096
MAX_PRIORITY = 1000

_KEYS = ("pattern", "group", "groups", "size", "release", "priority", "name")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST = 1_000_000


def read_jobs(path: str, fabric: str | None = None, *, chunks: int | None = None) -> ScheduleProblem:
    """Return the problem of a file of jobs; ``fabric`` goes before the one that the file names.

    Raises
    ------
    InvalidInput
        One line: the file, the job, what is wrong and what was expected.
    """
    try:
        document = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{path}: not TOML: {error}") from None
    for key in document:
        if key not in ("fabric", "job"):
            raise InvalidInput(
                f"{path}: unknown key {key!r}{suggest(key, ['fabric', 'job'])}: expected fabric and [[job]]"
            )
    named = document.get("fabric", fabric)
    if not isinstance(named, str):
        raise InvalidInput(f'{path}: no fabric: name it with fabric = "mesh:4x5" or with --fabric')
    tables = document.get("job", [])
    if not isinstance(tables, list) or not tables or not all(isinstance(one, dict) for one in tables):
        raise InvalidInput(f"{path}: expected at least one [[job]]")
    jobs: list[Job] = []
    for number, table in enumerate(tables):
        try:
            jobs += _jobs(table)
        except InvalidInput as error:
            raise InvalidInput(f"{path}: job {number}: {str(error).removeprefix('job: ')}") from None
        if len(jobs) > MAX_JOBS:
            raise InvalidInput(f"{path}: more than {MAX_JOBS} jobs")
    try:
        return ScheduleProblem(fabric=load_fabric(fabric or named), jobs=tuple(jobs), chunks=chunks)
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _jobs(table: dict[str, Any]) -> list[Job]:
    """Return the jobs of one table: one, or one for each of its groups."""
    for key in table:
        if key not in _KEYS:
            raise InvalidInput(f"unknown key {key!r}{suggest(key, list(_KEYS))}: expected {', '.join(_KEYS)}")
    pattern = table.get("pattern")
    if pattern not in PATTERNS:
        near = suggest(pattern, list(PATTERNS)) if isinstance(pattern, str) else ""
        raise InvalidInput(f"pattern {pattern!r}{near}: expected one of {', '.join(PATTERNS)}")
    if ("group" in table) == ("groups" in table):
        raise InvalidInput("expected either group or groups")
    groups = _groups(table["groups"]) if "groups" in table else [_group(table["group"])]
    if pattern == "point-to-point" and any(len(group) != 2 for group in groups):
        raise InvalidInput("point-to-point goes from one seat to another: its group holds these two")
    priority = table.get("priority", 0)
    if type(priority) is not int or not 0 <= priority <= MAX_PRIORITY:
        raise InvalidInput(f"priority {priority!r}: expected a whole number from 0 to {MAX_PRIORITY}")
    name = table.get("name")
    if name is not None and (not isinstance(name, str) or not name.strip()):
        raise InvalidInput(f"name {name!r}: expected some text")
    if "size" not in table:
        raise InvalidInput('no size: expected one, as in size = "64MiB"')
    rest: dict[str, Any] = {
        "pattern": pattern,
        "size": _quantity("size", table["size"], parse_size),
        "release": _quantity("release", table["release"], parse_time) if "release" in table else Fraction(0),
        "priority": priority,
    }
    found = []
    for number, group in enumerate(groups):
        called: dict[str, Any] = {} if name is None else {"name": name if len(groups) == 1 else f"{name} {number}"}
        found.append(Job(group=group, **rest, **called))
    return found


def _quantity(key: str, value: Any, parse: Any) -> Fraction:
    if type(value) is int:
        return Fraction(value)
    if not isinstance(value, str):
        raise InvalidInput(f'{key} {value!r}: expected text with a unit, as in "64MiB" or "10us"')
    try:
        return Fraction(parse(value))
    except InvalidInput as error:
        raise InvalidInput(f"{key}: {error}") from None


def _groups(value: Any) -> list[tuple[int, ...]]:
    if isinstance(value, str):
        return [_group(part) for part in value.split(";")]
    if isinstance(value, list) and value:
        return [_group(part) for part in value]
    raise InvalidInput(f'groups {value!r}: expected seats, as in "0-2;3-5"')


def _group(value: Any) -> tuple[int, ...]:
    if isinstance(value, list) and all(type(seat) is int for seat in value):
        return tuple(value)
    if not isinstance(value, str):
        raise InvalidInput(f'group {value!r}: expected seats, as in "0-2,5" or [0, 1, 2, 5]')
    found: list[int] = []
    for part in value.split(","):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise InvalidInput(f"group {value!r}: cannot read {part!r}: expected seats, as in 0-2,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if abs(last - first) > _MOST:
            raise InvalidInput(f"group {value!r}: more seats than any fabric has")
        found += range(first, last + 1) if first <= last else range(first, last - 1, -1)
    return tuple(found)
