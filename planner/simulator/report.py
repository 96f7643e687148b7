"""What the simulator found, as exact numbers."""

from __future__ import annotations

from fractions import Fraction

import msgspec


class PhaseReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Groups that communicate at the same time: one dimension alone, or all of them together.

    Parameters
    ----------
    name
        The dimension, or ``all``.
    max_load
        The largest link load: flows per parallel link, or seconds of transmission.
    seconds
        When the last transfer arrives, by the event simulation; None where it was left out for its size.
    links, loads
        Columns: every link that carries something, and its load.
    """

    name: str
    max_load: Fraction
    seconds: Fraction | None
    links: tuple[int, ...]
    loads: tuple[Fraction, ...]

    @property
    def hottest(self) -> tuple[int, ...]:
        """Ids of the links with the largest load."""
        return tuple(link for link, load in zip(self.links, self.loads, strict=True) if load == self.max_load)


class PlacementReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Loads and times of a placement: each phase alone, and all together.

    Parameters
    ----------
    unit
        Of the loads: ``flows`` or ``s``.
    nominal_size
        Bytes per collective that the times stand for when the problem gives no sizes, else None.
    hops
        Links crossed by all flows together.
    """

    unit: str
    nominal_size: int | None
    discipline: str
    hops: int
    phases: tuple[PhaseReport, ...]
    together: PhaseReport


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of the critical path: what kind of cost, and how many seconds of it."""

    name: str
    seconds: Fraction


class ScheduleReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """When a schedule finishes, and what it waits for.

    Parameters
    ----------
    seconds
        When the last transfer has finished, with the fabric's fixed cost; None where some never finish.
    rounding
        Largest relative error of a duration in the simulation's ticks; 0 where all are exact.
    discipline
        How links serve.
    data
        How the data was checked: ``every order`` or ``in steps``.
    terms
        The critical path by kind of cost; they add up to ``seconds``.
    links, busy, carried
        Columns: every link that carries something, for how many seconds, and how many bytes.
    jobs
        By job, where there are several: when its last transfer has finished; None where some never finish.
    """

    seconds: Fraction | None
    rounding: float
    discipline: str
    data: str
    transfers: int
    terms: tuple[Term, ...]
    links: tuple[int, ...]
    busy: tuple[Fraction, ...]
    carried: tuple[Fraction, ...]
    jobs: tuple[Fraction | None, ...] = ()


class RoutingReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the walk through the configured switch found.

    Parameters
    ----------
    micro_switches
        How many the switch has, and by round how many are in each state.
    bits
        Configuration bits of a round: enough to set every micro-switch.
    """

    micro_switches: int
    states: tuple[dict[str, int], ...]
    bits: int
