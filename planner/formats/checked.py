"""Members of JSON documents that other tools wrote, taken out with a check of their kind."""

from __future__ import annotations

from typing import Any

from fabric_plan.planner.errors import InvalidInput

MAX_NUMBER = 2_000_000_000


def member(body: dict[str, Any], key: str, where: str) -> Any:
    """Return a member that must be there.

    Raises
    ------
    InvalidInput
        When it is not.
    """
    if key not in body:
        raise InvalidInput(f"{where} has no {key!r}")
    return body[key]


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Return a value that must be an object.

    Raises
    ------
    InvalidInput
        When it is something else.
    """
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: expected an object, found {_told(value)}")
    return value


def listed(value: Any, where: str) -> list[Any]:
    """Return a value that must be a list.

    Raises
    ------
    InvalidInput
        When it is something else.
    """
    if not isinstance(value, list):
        raise InvalidInput(f"{where}: expected a list, found {_told(value)}")
    return value


def whole(value: Any, where: str, least: int, most: int = MAX_NUMBER) -> int:
    """Return a value that must be a whole number within limits.

    Raises
    ------
    InvalidInput
        When it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise InvalidInput(f"{where}: expected a whole number from {least} to {most:,}, found {_told(value)}")
    return value


def _told(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return repr(value)[:40]
