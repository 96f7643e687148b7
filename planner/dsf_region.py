"""A region: L2 zones (buildings) under a super-spine, as problems that are planned apart.

Inside a building everything is as in an L2 zone, whose edge pod is one of its zones. Between buildings routers exchange aggregates only:
what an interface node has is next hops, one for each port of an EDSW to a super-spine device. The super-spine is again a fabric of
spines: its zones are the buildings, their hosts one node, their fabric nodes the EDSWs, and a device of the super-spine that has lost
ports to a building should be sent less for it. So the same rule balances it, with next hops for links.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric_plan.planner.balance import BalanceProblem, Objective
from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.dsf_catalog import HOST_PORTS, HOST_RATE, PORT_RATE, SUPERLINKS, SUPERSPINES, l2
from fabric_plan.planner.errors import InvalidInput


@dataclass(frozen=True)
class Region:
    """L2 zones of one region under a super-spine: every EDSW has several links to each super-spine device.

    Parameters
    ----------
    building
        The L2 zone that every building holds, with its edge pod.
    buildings
        How many there are; they are called ``b0``, ``b1``, and so on.
    superspines, superlinks
        Devices of the super-spine (``ss0``, ...), and parallel ports from an EDSW to each.
    """

    building: Dsf
    buildings: int
    superspines: int = SUPERSPINES
    superlinks: int = SUPERLINKS

    @property
    def edge(self) -> Zone:
        """The edge pod of a building."""
        return next(zone for zone in self.building.zones if zone.edge)

    @property
    def oversubscription(self) -> float:
        """Bandwidth of a building's hosts over that of its edge pod towards the super-spine."""
        hosts = sum(zone.interfaces for zone in self.building.zones if not zone.edge) * HOST_PORTS * HOST_RATE
        return hosts / (self.edge.interfaces * self.superspines * self.superlinks * PORT_RATE)

    @property
    def superspine(self) -> Dsf:
        """The fabric of the super-spine: zones are buildings, fabric nodes EDSWs, links next hops."""
        names = (("hosts",), self.edge.interface_names)
        ports = self.superspines * self.superlinks
        zones = tuple(
            Zone(
                name=f"b{k}",
                interfaces=1,
                fabrics=self.edge.interfaces,
                lower=ports,
                upper=self.superlinks,
                names=names,
            )
            for k in range(self.buildings)
        )
        spines = tuple(f"ss{k}" for k in range(self.superspines))
        return Dsf(
            name="dsf:region/superspine", zones=zones, spines=self.superspines, rate=PORT_RATE, spine_names=spines
        )

    def problems(self, failed: tuple[str, ...], objective: Objective = "leximin") -> list[tuple[str, BalanceProblem]]:
        """Return what failures touch, to be planned: (``b2`` or ``superspine``, problem), those without failures left out.

        Links are named ``b2/a/rdsw3:fdsw1`` inside a building, and ``b2/edsw5:ss1#2`` (or ``b2/edge/edsw5:ss1#2``) above it.

        Raises
        ------
        InvalidInput
            When there is no such building or link.
        """
        inside: dict[str, list[str]] = {}
        above = []
        known = [f"b{k}" for k in range(self.buildings)]
        for name in failed:
            building, _, rest = name.strip().partition("/")
            if building not in known or not rest:
                raise InvalidInput(
                    f"link {name!r}: expected a building first ({', '.join(known)}), as in b2/a/rdsw3:fdsw1 or b2/edsw5:ss1"
                )
            if ":ss" in rest.lower() and not rest.lower().partition(":")[2].startswith("sdsw"):
                above.append(f"{building}/{rest.rpartition('/')[2]}")
            else:
                inside.setdefault(building, []).append(rest)
        found = [
            (name, BalanceProblem(fabric=self.building, failed=tuple(links), objective=objective))
            for name, links in sorted(inside.items())
        ]
        if above:
            found.append(
                ("superspine", BalanceProblem(fabric=self.superspine, failed=tuple(above), objective=objective))
            )
        return found


def region() -> Region:
    """Return the published region: five L2 zones, four super-spine devices, 2,048 ports of 800G an edge pod."""
    return Region(building=l2(), buildings=5)
