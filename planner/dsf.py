"""Disaggregated scheduled fabrics (DSF): zones of interface and fabric nodes under a layer of spines.

Every interface node (RDSW, or EDSW at the edge) has links to every fabric node (FDSW) of its zone, and every fabric node to every
spine (SDSW). A device is cut into virtual devices, a port belongs to one of them, and a zone may have several identical
planes: so the fabric falls apart into :attr:`Dsf.copies` networks that share nothing but chassis, each planned alone.

Links are named ``zone/rdsw3:fdsw1`` and ``zone/fdsw1:sdsw0``, with ``#k`` for one of several parallel links and ``@c`` for the copy;
both are 0 where they are not given. A link is a pair of directions, which fail together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from fabric_plan.planner.errors import InvalidInput, InvalidProblem, suggest

Counts = NDArray[np.int16]
"""Live parallel links: [interface, fabric node] of a zone, or [fabric node, spine]."""

Kind = Literal["lower", "upper"]

MAX_LINKS = 4_000_000
"""Of all copies together."""

MAX_PARALLEL = 16
"""Links between the same two devices in one copy: a set of them is a mask of bits."""


class Zone(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """A zone: its interface nodes and fabric nodes, and how many parallel links join them.

    Parameters
    ----------
    interfaces, fabrics
        How many there are; they are called ``rdsw0``, ``fdsw0``, and so on, if ``names`` gives no others.
    lower, upper
        Parallel links between an interface and a fabric node, and between a fabric node and a spine: one number for all pairs, or a
        matrix, a row for each interface (fabric node).
    edge
        An edge pod: its interface nodes are EDSWs, which join the super-spine.
    """

    name: str
    interfaces: int
    fabrics: int
    lower: int | tuple[tuple[int, ...], ...] = 1
    upper: int | tuple[tuple[int, ...], ...] = 1
    edge: bool = False
    names: tuple[tuple[str, ...], tuple[str, ...]] | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]+", self.name):
            raise InvalidProblem(f"zone {self.name!r}: expected letters, digits, dots, dashes or underscores")
        if self.interfaces < 1 or self.fabrics < 1:
            raise InvalidProblem(f"zone {self.name}: it needs at least one interface node and one fabric node")
        if self.names is not None:
            sizes = (len(set(self.names[0])), len(set(self.names[1])))
            if sizes != (self.interfaces, self.fabrics) or set(self.names[0]) & set(self.names[1]):
                raise InvalidProblem(f"zone {self.name}: names must be given for every node, each once")

    @property
    def interface_names(self) -> tuple[str, ...]:
        """Names of the interface nodes in the zone."""
        if self.names is not None:
            return self.names[0]
        return tuple(f"{'edsw' if self.edge else 'rdsw'}{k}" for k in range(self.interfaces))

    @property
    def fabric_names(self) -> tuple[str, ...]:
        """Names of the fabric nodes in the zone."""
        return self.names[1] if self.names is not None else tuple(f"fdsw{k}" for k in range(self.fabrics))


@dataclass(frozen=True, slots=True)
class DsfLink:
    """One link: between interface ``a`` and fabric node ``b`` (lower), or fabric node ``a`` and spine ``b`` (upper) of a zone."""

    zone: int
    kind: Kind
    a: int
    b: int
    number: int
    copy: int


class Dsf(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True, dict=True):
    """A fabric of zones under spines.

    Parameters
    ----------
    spines
        SDSWs; 0 for one zone alone.
    devices, planes
        Virtual devices of each chassis, and identical planes. Copies number plane by plane: copy = plane * devices + device.
    rate
        Of a link in each direction, bytes/s.
    """

    name: str
    zones: tuple[Zone, ...]
    spines: int
    devices: int = 1
    planes: int = 1
    rate: int = 50_000_000_000
    spine_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not self.zones:
            raise InvalidProblem(f"fabric {self.name}: it has no zone")
        if len({zone.name for zone in self.zones}) != len(self.zones):
            raise InvalidProblem(f"fabric {self.name}: two zones have the same name")
        if self.spines < 0 or (self.spines == 0 and len(self.zones) > 1):
            raise InvalidProblem(f"fabric {self.name}: {len(self.zones)} zones need spines to join them")
        if self.devices < 1 or self.planes < 1 or self.rate < 1:
            raise InvalidProblem(f"fabric {self.name}: devices, planes and rate must be at least 1")
        if self.spine_names is not None and len(set(self.spine_names)) != self.spines:
            raise InvalidProblem(f"fabric {self.name}: names must be given for every spine, each once")
        for zone in self.zones:
            for kind, rows, columns in (
                ("lower", zone.interfaces, zone.fabrics),
                ("upper", zone.fabrics, self.spines),
            ):
                counts = getattr(zone, kind)
                flat = [counts] if isinstance(counts, int) else [one for row in counts for one in row]
                shaped = isinstance(counts, int) or (len(counts) == rows and all(len(row) == columns for row in counts))
                if not shaped or any(not 0 <= one <= MAX_PARALLEL for one in flat):
                    raise InvalidProblem(
                        f"zone {zone.name}: {kind}: expected a number from 0 to {MAX_PARALLEL}, or a matrix of {rows} x {columns}"
                    )
        pairs = sum(zone.fabrics * (zone.interfaces + self.spines) for zone in self.zones) * self.copies
        if pairs > MAX_LINKS or self.links > MAX_LINKS:
            raise InvalidProblem(f"fabric {self.name}: more than {MAX_LINKS:,} links are too many")

    @property
    def copies(self) -> int:
        """Independent networks: planes times virtual devices."""
        return self.planes * self.devices

    @cached_property
    def links(self) -> int:
        """Links of all copies."""
        lower, upper = self.built
        return int(sum(int(one.sum()) for one in (*lower, *upper))) * self.copies

    @cached_property
    def widest(self) -> int:
        """The most links that join the same two devices in a copy."""
        lower, upper = self.built
        return max(int(one.max(initial=0)) for one in (*lower, *upper))

    @cached_property
    def built(self) -> tuple[tuple[Counts, ...], tuple[Counts, ...]]:
        """Parallel links as built, of one copy, zone by zone: (lower, upper)."""
        return (
            tuple(_matrix(zone.lower, zone.interfaces, zone.fabrics) for zone in self.zones),
            tuple(_matrix(zone.upper, zone.fabrics, self.spines) for zone in self.zones),
        )

    @cached_property
    def spine_list(self) -> tuple[str, ...]:
        """Names of the spines."""
        return self.spine_names if self.spine_names is not None else tuple(f"sdsw{k}" for k in range(self.spines))

    @cached_property
    def _ends(self) -> dict[str, tuple[int, dict[str, int], dict[str, int]]]:
        return {
            zone.name.lower(): (
                index,
                {name.lower(): k for k, name in enumerate(zone.interface_names)},
                {name.lower(): k for k, name in enumerate(zone.fabric_names)},
            )
            for index, zone in enumerate(self.zones)
        }

    @cached_property
    def _spine_ends(self) -> dict[str, int]:
        return {name.lower(): k for k, name in enumerate(self.spine_list)}

    def link(self, text: str) -> DsfLink:
        """Return the link of a name.

        Raises
        ------
        InvalidInput
            When the name cannot be read, or there is no such device or link; saying which devices there are.
        """
        match = re.fullmatch(r"\s*([^/\s]+)/([^:/#@\s]+):([^:/#@\s]+)(?:#([0-9]{1,6}))?(?:@([0-9]{1,6}))?\s*", text)
        if match is None:
            raise InvalidInput(f"link {text!r}: expected zone/device:device, as in x/rdsw3:fdsw1 or x/fdsw1:sdsw0#1")
        where, first, second, number, copy = match.groups()
        if where.lower() not in self._ends:
            names = [zone.name for zone in self.zones]
            raise InvalidInput(
                f"link {text!r}: no zone {where!r} in {self.name}{suggest(where, names)}: it has {', '.join(names[:8])}"
            )
        zone, interfaces, fabrics = self._ends[where.lower()]
        a, b = first.lower(), second.lower()
        if a not in interfaces and a not in fabrics and a not in self._spine_ends:
            raise InvalidInput(
                f"link {text!r}: no device {first!r} in zone {where}{suggest(a, [*interfaces, *fabrics])}"
            )
        if b not in interfaces and b not in fabrics and b not in self._spine_ends:
            raise InvalidInput(
                f"link {text!r}: no device {second!r} in zone {where}{suggest(b, [*fabrics, *self._spine_ends])}"
            )
        if b in interfaces or a in self._spine_ends:
            a, b = b, a
        if a in interfaces and b in fabrics:
            kind: Kind = "lower"
            ends = interfaces[a], fabrics[b]
        elif a in fabrics and b in self._spine_ends:
            kind, ends = "upper", (fabrics[a], self._spine_ends[b])
        else:
            raise InvalidInput(f"link {text!r}: no link joins {first} and {second}: links go from rdsw to fdsw to sdsw")
        counts = self.built[0 if kind == "lower" else 1][zone]
        many = int(counts[ends])
        found = DsfLink(zone, kind, *ends, int(number or 0), int(copy or 0))
        if found.number >= many:
            raise InvalidInput(f"link {text!r}: {many} link(s) join {first} and {second}, numbered from 0")
        if found.copy >= self.copies:
            raise InvalidInput(
                f"link {text!r}: {self.name} has {self.copies} copies (planes x virtual devices), numbered from 0"
            )
        return found

    def device_links(self, text: str) -> list[DsfLink]:
        """Return all links of a device, in all copies: ``zone/device``, or a spine by its name alone.

        Raises
        ------
        InvalidInput
            When there is no such device.
        """
        where, slash, name = text.strip().lower().rpartition("/")
        zones = range(len(self.zones))
        spine = interface = fabric = None
        if not slash and name in self._spine_ends:
            spine = self._spine_ends[name]
        elif slash and where in self._ends:
            zone, interfaces, fabrics = self._ends[where]
            zones = range(zone, zone + 1)
            interface, fabric = interfaces.get(name), fabrics.get(name)
            if interface is None and fabric is None:
                raise InvalidInput(f"device {text!r}: none in zone {where}{suggest(name, [*interfaces, *fabrics])}")
        else:
            known = ", ".join(one.name for one in self.zones[:8])
            raise InvalidInput(
                f"device {text!r}: expected zone/device, as in x/fdsw1, or a spine, as in sdsw0; zones: {known}"
            )
        found = []
        for link in self.all_links(zones):
            if link.kind == "lower":
                wanted = spine is None and (link.a == interface or link.b == fabric)
            else:
                wanted = link.b == spine or (fabric is not None and link.a == fabric)
            if wanted:
                found.append(link)
        return found

    def fabric_devices(self) -> Iterator[str]:
        """Yield the names of all fabric nodes and spines."""
        for zone in self.zones:
            for name in zone.fabric_names:
                yield f"{zone.name}/{name}"
        yield from self.spine_list

    def all_links(self, zones: Iterable[int] | None = None) -> Iterator[DsfLink]:
        """Yield every link of every copy, of some zones or of all."""
        kinds: tuple[Kind, Kind] = ("lower", "upper")
        for copy in range(self.copies):
            for kind, grids in zip(kinds, self.built, strict=True):
                for zone in range(len(self.zones)) if zones is None else zones:
                    rows, columns = grids[zone].shape
                    counts = grids[zone].tolist()
                    for a in range(rows):
                        for b in range(columns):
                            for number in range(counts[a][b]):
                                yield DsfLink(zone, kind, a, b, number, copy)

    def link_name(self, link: DsfLink) -> str:
        """Return a link's name: what :meth:`link` reads."""
        zone = self.zones[link.zone]
        if link.kind == "lower":
            text = f"{zone.name}/{zone.interface_names[link.a]}:{zone.fabric_names[link.b]}"
        else:
            text = f"{zone.name}/{zone.fabric_names[link.a]}:{self.spine_list[link.b]}"
        return text + (f"#{link.number}" if link.number else "") + (f"@{link.copy}" if link.copy else "")

    def interface_name(self, zone: int, index: int) -> str:
        """Return ``zone/rdsw3``."""
        return f"{self.zones[zone].name}/{self.zones[zone].interface_names[index]}"


def _matrix(counts: int | tuple[tuple[int, ...], ...], rows: int, columns: int) -> Counts:
    if isinstance(counts, int):
        found = np.full((rows, columns), counts, dtype=np.int16)
    else:
        found = np.array(counts, dtype=np.int16).reshape(rows, columns)
    found.setflags(write=False)
    return found


class Live:
    """What is alive of one copy, zone by zone.

    Parameters
    ----------
    lower, upper
        How many links: [interface, fabric node] and [fabric node, spine] of each zone.
    lower_links, upper_links
        Which: masks of their numbers.
    """

    __slots__ = ("dsf", "lower", "lower_links", "upper", "upper_links")

    def __init__(self, dsf: Dsf, failed: tuple[DsfLink, ...] | list[DsfLink] = (), copy: int = 0) -> None:
        self.dsf = dsf
        lower, upper = dsf.built
        self.lower_links = [(1 << one.astype(np.int32)) - 1 for one in lower]
        self.upper_links = [(1 << one.astype(np.int32)) - 1 for one in upper]
        for link in failed:
            if link.copy == copy:
                grids = self.lower_links if link.kind == "lower" else self.upper_links
                grids[link.zone][link.a, link.b] &= ~(1 << link.number)
        self.lower = [count_links(one, dsf.widest) for one in self.lower_links]
        self.upper = [count_links(one, dsf.widest) for one in self.upper_links]


def count_links(masks: NDArray[np.int32], widest: int) -> Counts:
    """Return how many links each mask holds, of ``widest`` at most."""
    if widest <= 1:
        return masks.astype(np.int16)
    found = np.zeros(masks.shape, dtype=np.int16)
    for number in range(widest):
        found += ((masks >> number) & 1).astype(np.int16)
    return found


def keep_links(masks: NDArray[np.int32], keep: Counts, widest: int, turn: int = 0) -> NDArray[np.int32]:
    """Return masks of ``keep`` links each, taken from those of ``masks`` from number ``turn`` on, around."""
    if widest <= 1:
        return keep.astype(np.int32)
    found = np.zeros(masks.shape, dtype=np.int32)
    left = keep.astype(np.int32).copy()
    for k in range(widest):
        bit = 1 << ((turn + k) % widest)
        taken = (left > 0) & ((masks & bit) > 0)
        found[taken] |= bit
        left[taken] -= 1
    return found
