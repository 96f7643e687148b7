"""The kernels of :mod:`fabric_plan.models.balance.flow`, compiled by numba and cached on disk."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from fabric_plan.models.balance import flow


def _compiled(names: dict[str, Any], function: FunctionType) -> Any:
    """Return a function compiled, with the compiled ones of ``names`` for those that it calls."""
    bound = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    return njit(cache=True, nogil=True)(bound)


_names: dict[str, Any] = {"__name__": flow.__name__, "np": np}
for _name in ("search", "push", "fill", "level_out", "widen", "mend", "solve_all"):
    _names[_name] = _compiled(_names, getattr(flow, _name))
solve_all = _names["solve_all"]
