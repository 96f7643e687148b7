"""Kernels are plain functions; this compiles them where a problem is large enough to be worth loading the compiler."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

FROM_HOPS = 300_000
"""Below so many hops plain Python answers sooner than the compiler is loaded (some 0.6 s)."""


@cache
def compiled(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel compiled by numba, cached on disk."""
    import numba

    fast: Callable[..., Any] = numba.njit(cache=True, nogil=True)(kernel)
    return fast
