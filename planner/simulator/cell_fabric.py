"""One copy of a disaggregated scheduled fabric as devices and directed links, and who can reach whom over them.

Devices are numbered: interface nodes zone by zone, then fabric nodes zone by zone, then spines. Each link is two directed ones,
which die together. Paths go up and then down: a fabric node reaches the interface nodes of its own zone only over its direct
links, and those of other zones only over spines.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fabric_plan.planner.dsf import Dsf, DsfLink
from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.simulator.cell_params import CellParams, Withdrawals

Reach = list[dict[int, tuple[int, ...]]]
"""By device and destination (an interface node): the directed links over which the device may send to it."""

Withdrawn = frozenset[tuple[int, int]]
"""Pairs (directed link, destination)."""

MAX_LINKS = 200_000


class CellFabric:
    """Devices and directed links of copy 0 of a fabric (the copies share nothing, so one is simulated).

    Parameters
    ----------
    dsf, params
        The fabric; link rate and hyperports are taken from the parameters.

    Attributes
    ----------
    tail, head, rate, names, tiers
        By directed link: devices it leaves and enters, bytes/s, the name, and the tier: links of one zone, kind and direction.
    out
        By device: its outgoing links, by neighbour and then number.
    """

    def __init__(self, dsf: Dsf, params: CellParams) -> None:
        if dsf.links > MAX_LINKS * dsf.copies:
            raise InvalidInput(f"{dsf.name}: more than {MAX_LINKS:,} links a copy: cells are for small fabrics")
        self.dsf = dsf
        self.link_rate = params.link_rate or dsf.rate
        self.host_rate = params.host_rate or self.link_rate
        self.hyperports = params.hyperports
        self.devices: list[str] = []
        self.zone_of: list[int] = []
        self.first_interface: list[int] = []
        self.first_fabric: list[int] = []
        for zone, one in enumerate(dsf.zones):
            self.first_interface.append(len(self.devices))
            self.devices += [f"{one.name}/{name}" for name in one.interface_names]
            self.zone_of += [zone] * one.interfaces
        self.interfaces = len(self.devices)
        for zone, one in enumerate(dsf.zones):
            self.first_fabric.append(len(self.devices))
            self.devices += [f"{one.name}/{name}" for name in one.fabric_names]
            self.zone_of += [zone] * one.fabrics
        self.first_spine = len(self.devices)
        self.devices += list(dsf.spine_list)
        self.zone_of += [-1] * dsf.spines
        self._numbers = {name.lower(): k for k, name in enumerate(self.devices)}
        self.tail: list[int] = []
        self.head: list[int] = []
        self.rate: list[int] = []
        self.names: list[str] = []
        self.tiers: list[str] = []
        self.out: list[list[int]] = [[] for _ in self.devices]
        self._port: dict[tuple[int, str, int, int, int], int] = {}
        lower, upper = dsf.built
        for zone, one in enumerate(dsf.zones):
            first, middle = self.first_interface[zone], self.first_fabric[zone]
            for a in range(one.interfaces):
                for b in range(one.fabrics):
                    self._join(DsfLink(zone, "lower", a, b, 0, 0), first + a, middle + b, int(lower[zone][a, b]))
            for a in range(one.fabrics):
                for b in range(dsf.spines):
                    link = DsfLink(zone, "upper", a, b, 0, 0)
                    self._join(link, middle + a, self.first_spine + b, int(upper[zone][a, b]))

    def _join(self, link: DsfLink, below: int, above: int, many: int) -> None:
        zone = self.dsf.zones[link.zone].name
        tier = ("rdsw>fdsw", "fdsw>rdsw") if link.kind == "lower" else ("fdsw>sdsw", "sdsw>fdsw")
        for number in range(0, many, self.hyperports):
            width = min(self.hyperports, many - number)
            name = self.dsf.link_name(DsfLink(link.zone, link.kind, link.a, link.b, number, 0))
            self._port[link.zone, link.kind, link.a, link.b, number // self.hyperports] = len(self.tail)
            for k, (one, other) in enumerate(((below, above), (above, below))):
                self.out[one].append(len(self.tail))
                self.tail.append(one)
                self.head.append(other)
                self.rate.append(self.link_rate * width)
                self.names.append(f"{name} {'up' if k == 0 else 'down'}")
                self.tiers.append(f"{zone} {tier[k]}")

    def interface(self, node: tuple[int, int]) -> int:
        """Return the device of an interface node (zone, index).

        Raises
        ------
        InvalidInput
            When there is none.
        """
        zone, index = node
        if not (0 <= zone < len(self.dsf.zones) and 0 <= index < self.dsf.zones[zone].interfaces):
            raise InvalidInput(f"interface node {node}: {self.dsf.name} has no such node (zone, index)")
        return self.first_interface[zone] + index

    def directed(self, name: str) -> tuple[int, int]:
        """Return the two directed links, up and down, that a link's name means.

        Raises
        ------
        InvalidInput
            When there is no such link in copy 0.
        """
        link = self.dsf.link(name)
        if link.copy != 0:
            raise InvalidInput(f"link {name!r}: cells are simulated in copy 0 only")
        up = self._port[link.zone, link.kind, link.a, link.b, link.number // self.hyperports]
        return up, up + 1

    def withdrawn(self, table: Withdrawals) -> Withdrawn:
        """Return a table of withdrawals in numbers.

        Raises
        ------
        InvalidInput
            Naming the device, destination or link that does not exist, or does not belong together.
        """
        found = set()
        for (device, destination), links in table.items():
            one, target = self._numbers.get(device.lower()), self._numbers.get(destination.lower())
            if one is None:
                raise InvalidInput(f"withdrawal at {device!r}: {self.dsf.name} has no such device")
            if target is None or target >= self.interfaces:
                raise InvalidInput(f"withdrawal of {destination!r}: {self.dsf.name} has no such interface node")
            for name in links:
                ends = [link for link in self.directed(name) if self.tail[link] == one]
                if not ends:
                    raise InvalidInput(f"withdrawal at {device}: link {name} does not end there")
                found.add((ends[0], target))
        return frozenset(found)

    def reach(
        self, targets: Iterable[int], dead: Collection[int] = frozenset(), withdrawn: Withdrawn = frozenset()
    ) -> Reach:
        """Return over which live links each device may send to each target, where nothing was withdrawn.

        A device that is left with no link to a target does not advertise it either.
        """
        table: Reach = [{} for _ in self.devices]
        head = self.head
        # Down from the target's own fabric nodes, to the spines, to other zones' fabric nodes, to interface nodes.
        for target in sorted(set(targets)):
            home = self.zone_of[target]
            near: list[int] = []
            far: list[int] = []
            for device in range(self.interfaces, self.first_spine):
                (near if self.zone_of[device] == home else far).append(device)
            order = (near, range(self.first_spine, len(self.devices)), far, range(self.interfaces))
            for stage, devices in enumerate(order):
                for device in devices:
                    if device == target:
                        continue
                    links = []
                    for link in self.out[device]:
                        to = head[link]
                        if stage == 0:
                            fits = to == target
                        elif stage == 1:
                            fits = self.zone_of[to] == home and target in table[to]
                        else:
                            # A spine, or a fabric node of the interface node's own zone, which advertises the target.
                            fits = to >= self.interfaces and target in table[to]
                        if fits and link not in dead and (link, target) not in withdrawn:
                            links.append(link)
                    if links:
                        table[device][target] = tuple(links)
        return table

    def hops(self, source: int, target: int) -> int:
        """Return how many links a path has."""
        return 0 if source == target else 2 if self.zone_of[source] == self.zone_of[target] else 4
