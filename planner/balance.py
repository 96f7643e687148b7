"""Balance: which links withdraw reachability after failures in a disaggregated scheduled fabric in input-balanced mode."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fabric_plan.planner.dsf import MAX_PARALLEL, Dsf, DsfLink, Live
from fabric_plan.planner.errors import InvalidProblem
from fabric_plan.planner.plan import Baseline, Certificate

Objective = Literal["total", "worst", "leximin", "load"]
Policy = Literal["optimal", "class-wide", "random", "aligned", "none"]


class Coupling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What ties choices together that would otherwise be free for each destination.

    Parameters
    ----------
    profiles
        How many different selections a sending zone may use at most; 1 is one choice for all destinations of a zone. None: no limit.
    bundle
        Whether the virtual devices of a plane choose alike, as a withdrawn optical port takes the links of all of them.
    min_links
        A fabric node that would keep fewer links than this towards a destination advertises none.
    """

    profiles: int | None = None
    bundle: bool = False
    min_links: int = 1

    def __post_init__(self) -> None:
        if (self.profiles is not None and self.profiles < 1) or self.min_links < 1:
            raise InvalidProblem("coupling: profiles and min_links must be at least 1")

    @property
    def free(self) -> bool:
        """True when nothing is coupled."""
        return self.profiles is None and not self.bundle and self.min_links == 1


class BalanceProblem(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, dict=True
):
    """Which links withdraw reachability, for every destination and every zone that sends to it.

    Parameters
    ----------
    failed
        Names of the links that are down (:meth:`fabric_plan.planner.dsf.Dsf.link`), in both directions.
    objective
        ``total``: the largest total capacity; ``worst``: then the largest capacity of the worst pair; ``leximin``: then the evenest
        capacities; ``load``: after ``total`` and ``worst``, the least fluid load of the busiest link under uniform traffic, among selections in which
        no device withdraws more than it must. The best total and the best worst pair never conflict.
    intra
        Whether fabric nodes of the destination's own zone keep each neighbour's links to their direct links to it.
    """

    family: ClassVar[str] = "balance"

    fabric: Dsf
    failed: tuple[str, ...] = ()
    objective: Objective = "leximin"
    intra: bool = False
    coupling: Coupling = Coupling()

    def __post_init__(self) -> None:
        names = self.failures
        if len({*names}) != len(names):
            twice = next(name for name, link in zip(self.failed, names, strict=True) if names.count(link) > 1)
            raise InvalidProblem(f"failed: {twice} is named twice")

    @cached_property
    def failures(self) -> tuple[DsfLink, ...]:
        """The failed links."""
        return tuple(self.fabric.link(name) for name in self.failed)

    def live(self, copy: int) -> Live:
        """Return what is alive of a copy."""
        return Live(self.fabric, self.failures, copy)


class Triples:
    """Rows (a, b, links) as an array, the links a mask of their numbers; in files one flat list."""

    __slots__ = ("rows",)

    def __init__(self, rows: ArrayLike) -> None:
        self.rows: NDArray[np.int32] = np.asarray(rows, dtype=np.int32).reshape(-1, 3)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Triples) and np.array_equal(self.rows, other.rows)

    def __hash__(self) -> int:
        return hash(self.rows.tobytes())

    def to_lists(self) -> list[int]:
        """Return the rows, flat."""
        flat: list[int] = self.rows.ravel().tolist()
        return flat

    @classmethod
    def from_lists(cls, value: Any) -> Triples:
        """Return the rows of a flat list; ValueError when it is none."""
        if (
            not isinstance(value, list)
            or len(value) % 3
            or any(type(one) is not int or not 0 <= one < 2**31 for one in value)
        ):
            raise ValueError("expected a list of whole numbers: a, b, links, and so on")
        return cls(value)

    def grid(self, rows: int, columns: int) -> NDArray[np.int32]:
        """Return the masks as a matrix; ValueError when a row names no place of it, or one twice."""
        found = np.zeros((rows, columns), dtype=np.int32)
        if len(self.rows):
            a, b, links = self.rows.T
            if a.max() >= rows or b.max() >= columns or links.min() < 1 or links.max() >= 1 << MAX_PARALLEL:
                raise ValueError("a link that is withdrawn does not exist")
            if len(np.unique(a.astype(np.int64) * columns + b)) != len(a):
                raise ValueError("a pair of devices is listed twice")
            found[a, b] = links
        return found


class Cut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One side of a cut between a zone's interface nodes and a destination: bits of senders, fabric nodes and spines, in hex."""

    senders: str
    fabrics: str
    spines: str

    @classmethod
    def of(cls, *masks: NDArray[Any]) -> Cut:
        """Return the cut of three masks."""
        return cls(*(np.packbits(mask.astype(bool)).tobytes().hex() for mask in masks))

    def members(self, *sizes: int) -> list[NDArray[np.intp]]:
        """Return the numbers of senders, fabric nodes and spines on the side; ValueError when the bits do not fit."""
        found = []
        for text, size in zip((self.senders, self.fabrics, self.spines), sizes, strict=True):
            bits = np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8))
            if not size <= len(bits) < size + 8 or bits[size:].any():
                raise ValueError("a cut's bits do not fit the zone")
            found.append(np.flatnonzero(bits[:size]))
        return found


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What one zone's devices and the spines above them withdraw towards some destinations.

    Parameters
    ----------
    zone
        The zone that sends.
    destinations
        Interface nodes, as (zone, number) pairs, flat.
    upper
        Spines' withdrawals: (fabric node, spine, mask of links).
    lower
        Fabric nodes' withdrawals: (interface node, fabric node, mask of links).
    total_cut, worst_cut
        By which the total and the smallest capacity cannot be larger.
    """

    zone: int
    destinations: tuple[tuple[int, int], ...]
    upper: Triples
    lower: Triples
    total_cut: Cut | None = None
    worst_cut: Cut | None = None


class BalanceReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What propagation finds of a plan.

    Parameters
    ----------
    total, built
        First-hop links over all pairs of different zones and all copies: now, and without failures.
    worst
        The smallest capacity of a pair that can be reached at all, in links of one copy; None where there is none.
    capacities
        (links, how many pairs have so many).
    cut_off
        Pairs that no selection can join, and pairs that this one does not join although another could.
    local
        (total, smallest) capacity of pairs within a zone, which nothing but ``intra`` limits.
    withdrawn
        Links that withdraw, over all destinations.
    load
        The largest fluid load of a link under uniform traffic between zones, in units of its rate; None where it was not computed.
    """

    total: int
    built: int
    worst: int | None
    capacities: tuple[tuple[int, int], ...]
    cut_off: tuple[int, int]
    local: tuple[int, int | None]
    withdrawn: int
    load: Fraction | None = None
    hottest: str = ""


class BalancePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What every device withdraws: profiles of every copy, and the certificate."""

    family: ClassVar[str] = "balance"

    problem: BalanceProblem
    copies: tuple[tuple[Profile, ...], ...]
    certificate: Certificate
    policy: Policy = "optimal"
    baselines: tuple[Baseline, ...] = ()
    planner: str = ""
    seed: int = 0
    seconds: float | None = None
    report: BalanceReport | None = None

    @property
    def baseline(self) -> Baseline | None:
        """The best of the baselines: capacities are larger when better."""
        return max(self.baselines, key=lambda one: one.value, default=None)


def destinations(dsf: Dsf, zone: int) -> Iterable[tuple[int, int]]:
    """Yield (zone, number) of every interface node outside a zone."""
    for home, there in enumerate(dsf.zones):
        if home != zone:
            for number in range(there.interfaces):
                yield home, number
