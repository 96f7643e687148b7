"""Strategies of hybrid parallelism ("MP3-DP3-PP2"), their workers and groups.

A worker is named by one digit a dimension, in the order mp, cp, ep, dp, pp of the dimensions that the strategy names
(FRED paper, section 2.3: worker 021 has MP digit 0, DP digit 2, PP digit 1). Worker indices count with mp fastest and pp
slowest, which is also the rank order that Megatron gives to its processes (tp-cp-ep-dp-pp).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Sequence

from fabric_plan.planner.errors import InvalidProblem, suggest

DIMENSIONS = ("mp", "cp", "ep", "dp", "pp")
"""Canonical order, fastest first."""

MAX_WORKERS = 1_048_576

_ALIASES = {"tp": "mp", "mp": "mp", "cp": "cp", "ep": "ep", "dp": "dp", "pp": "pp"}
_TERM = re.compile(r"([A-Za-z]+)\s*(?:\(\s*([0-9]{1,18})\s*\)|=?\s*([0-9]{1,18}))")
_EXPECTED = "expected dimensions with their sizes, as in MP3-DP3-PP2, MP(3)_DP(3)_PP(2) or tp3,dp3,pp2"


class Strategy:
    """How many ways a job is split along each dimension; dimensions that are not named have size one.

    Parameters
    ----------
    sizes
        Pairs (dimension, size), one for each dimension that is named; kept in canonical order.
    """

    __slots__ = ("sizes",)

    sizes: tuple[tuple[str, int], ...]

    def __init__(self, sizes: Iterable[tuple[str, int]]) -> None:
        given = tuple(sizes)
        names = [name for name, _ in given]
        for name, size in given:
            if name not in DIMENSIONS:
                raise InvalidProblem(f"strategy: unknown dimension {name!r}: expected one of {', '.join(DIMENSIONS)}")
            if names.count(name) > 1:
                raise InvalidProblem(f"strategy: {name.upper()} is given twice")
            if size < 1:
                raise InvalidProblem(f"strategy: {name.upper()}{size}: the size of a dimension must be at least 1")
        if not given:
            raise InvalidProblem(f"strategy: no dimension is given: {_EXPECTED}")
        self.sizes = tuple(sorted(given, key=lambda pair: DIMENSIONS.index(pair[0])))
        if self.workers > MAX_WORKERS:
            raise InvalidProblem(f"strategy {self}: {self.workers:,} workers; at most {MAX_WORKERS:,} can be placed")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Strategy) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)

    def __repr__(self) -> str:
        return f"Strategy({self})"

    @classmethod
    def parse(cls, text: str) -> Strategy:
        """Read ``MP3-DP3-PP2``, ``MP(3)_DP(3)_PP(2)`` or ``tp3,dp3,pp2``, dimensions in any order.

        Raises
        ------
        InvalidProblem
            Naming the part that cannot be read.
        """
        parts = [part for part in re.split(r"[-_,;x*\s]+", text.strip()) if part]
        sizes: list[tuple[str, int]] = []
        for part in parts:
            match = _TERM.fullmatch(part)
            if match is None:
                raise InvalidProblem(f"strategy {text!r}: cannot read {part!r}: {_EXPECTED}")
            name = match[1].lower()
            if name not in _ALIASES:
                hint = suggest(name, list(_ALIASES))
                raise InvalidProblem(
                    f"strategy {text!r}: unknown dimension {match[1]!r}{hint}: expected MP or TP, DP, PP, EP, CP"
                )
            sizes.append((_ALIASES[name], int(match[2] or match[3])))
        if not sizes:
            raise InvalidProblem(f"strategy {text!r}: no dimension is given: {_EXPECTED}")
        return cls(sizes)

    def __str__(self) -> str:
        return "-".join(f"{name.upper()}{size}" for name, size in self.sizes)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions that were named, in canonical order."""
        return tuple(name for name, _ in self.sizes)

    @property
    def workers(self) -> int:
        """How many workers there are: the product of the sizes."""
        return math.prod(size for _, size in self.sizes)

    def size(self, dimension: str) -> int:
        """Return the size along ``dimension``; one where the strategy does not name it."""
        return dict(self.sizes).get(dimension, 1)

    def stride(self, dimension: str) -> int:
        """Return by how much a worker's index grows when its digit along ``dimension`` grows by one."""
        stride = 1
        for name, size in self.sizes:
            if name == dimension:
                return stride
            stride *= size
        return stride

    def digit(self, worker: int, dimension: str) -> int:
        """Return the digit of ``worker`` along ``dimension``."""
        return worker // self.stride(dimension) % self.size(dimension)

    def digits(self, worker: int) -> tuple[int, ...]:
        """Return all digits of ``worker``, in the order of :attr:`dimensions`."""
        found = []
        for _, size in self.sizes:
            worker, digit = divmod(worker, size)
            found.append(digit)
        return tuple(found)

    def index(self, digits: Sequence[int]) -> int:
        """Return the index of the worker with ``digits`` (the inverse of :meth:`digits`)."""
        worker = 0
        for (_, size), digit in zip(reversed(self.sizes), reversed(digits), strict=True):
            worker = worker * size + digit
        return worker

    def name(self, worker: int) -> str:
        """Return the name of a worker: its digits side by side, or joined by dots when one of them may pass 9."""
        joint = "" if all(size <= 10 for _, size in self.sizes) else "."
        return joint.join(map(str, self.digits(worker)))

    def groups(self, dimension: str) -> list[tuple[int, ...]]:
        """Return the groups along ``dimension``: workers that differ in that digit only, in the digit's order."""
        size, stride = self.size(dimension), self.stride(dimension)
        heads = (worker for worker in range(self.workers) if worker // stride % size == 0)
        return [tuple(head + k * stride for k in range(size)) for head in heads]

    def order(self, dimensions: Iterable[str]) -> list[int]:
        """Return all workers, listed with the first of ``dimensions`` varying fastest (dimensions left out come last)."""
        given = list(dimensions)
        ranked = given + [name for name in self.dimensions if name not in given]
        ranges = [range(self.size(name)) for name in reversed(ranked)]
        strides = [self.stride(name) for name in reversed(ranked)]
        return [sum(d * s for d, s in zip(digits, strides, strict=True)) for digits in itertools.product(*ranges)]
