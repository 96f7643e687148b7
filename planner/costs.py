"""What a fabric costs beyond its links: fixed times, reduction, what switches do, and the protocols of a library."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Literal

import msgspec

from fabric_plan.planner.errors import InvalidInput


class Protocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """How a library moves data in a range of sizes (LL, LL128 and Simple of NCCL, say).

    Parameters
    ----------
    max_size
        Bytes of a collective up to which it is used; None for the last, which has no limit.
    fixed
        Seconds a collective takes beside its transfers: launch, synchronisation.
    bandwidth, latency
        What links of a class give: bytes/s and seconds, by name of the class. A class that is not named stays as it is.
    """

    name: str
    max_size: Fraction | None = None
    fixed: Fraction = Fraction(0)
    bandwidth: dict[str, int] = {}
    latency: dict[str, Fraction] = {}

    def __post_init__(self) -> None:
        where = f"protocol {self.name}"
        if self.max_size is not None and self.max_size <= 0:
            raise InvalidInput(f"{where}: max_size must be greater than zero")
        if self.fixed < 0 or min(self.latency.values(), default=Fraction(0)) < 0:
            raise InvalidInput(f"{where}: times must not be negative")
        if min(self.bandwidth.values(), default=1) <= 0:
            raise InvalidInput(f"{where}: bandwidths must be greater than zero")


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """Costs of collectives on a fabric.

    Parameters
    ----------
    fixed
        Seconds a collective takes beside its transfers.
    gamma
        Seconds that a receiver needs to reduce a byte.
    in_network
        None where switches neither reduce nor copy; else the part of a link's bandwidth that such traffic reaches.
    switching
        How relays pass messages on: ``store-forward`` or ``cut-through`` (see :mod:`fabric_plan.planner.simulator.service`).
    protocols
        By ascending ``max_size``; the first whose limit a collective keeps to applies.
    """

    fixed: Fraction = Fraction(0)
    gamma: Fraction = Fraction(0)
    in_network: Fraction | None = None
    switching: Literal["store-forward", "cut-through"] = "store-forward"
    protocols: tuple[Protocol, ...] = ()

    def __post_init__(self) -> None:
        if self.fixed < 0 or self.gamma < 0:
            raise InvalidInput("costs: fixed and gamma must not be negative")
        if self.in_network is not None and not 0 < self.in_network <= 1:
            raise InvalidInput("costs: in_network must be greater than 0 and at most 1")
        names = [one.name for one in self.protocols]
        if len(set(names)) < len(names):
            raise InvalidInput(f"costs: protocols must have names of their own, got {', '.join(names)}")
        limits = [one.max_size for one in self.protocols]
        if None in limits[:-1] or any(a >= b for a, b in itertools.pairwise(limits) if a and b):
            raise InvalidInput("costs: protocols must come by ascending max_size, only the last without a limit")

    def protocol(self, size: Fraction | int) -> Protocol | None:
        """Return the protocol of a collective of so many bytes: the first that allows it, else the last."""
        for one in self.protocols:
            if one.max_size is None or size <= one.max_size:
                return one
        return self.protocols[-1] if self.protocols else None
