"""The disaggregated scheduled fabrics that go by name, with their published counts.

The published text gives chips, links and layers, not all counts: where they are inferred, the entry says so. An 800G port is two
links of 400G (50 GB/s), one in each direction of a plane; a port belongs to one virtual device.

Speeds at L3: 512 RDSWs of an L2 zone have 36 ports of 800G each for hosts, 18,432 in all, and its edge pod 128 EDSWs with 4 x 4
ports of 800G to the super-spine, 2,048 in all: 9 to 1 if both are counted at 800G. The published 4.5 to 1 comes out if a host's port is
counted at 400G (a GPU's network interface), as it is here.
"""

from __future__ import annotations

from fabric_plan.planner.dsf import Dsf, Zone
from fabric_plan.planner.errors import InvalidInput, suggest

GBPS = 1_000_000_000 // 8
PORT_RATE = 800 * GBPS
HOST_RATE = 400 * GBPS
HOST_PORTS = 36
SUPERSPINES, SUPERLINKS = 4, 4


def mini() -> Dsf:
    """Return the published example: two zones of 4 RDSWs and 2 FDSWs under 2 SDSWs, one virtual device."""
    zones = tuple(Zone(name=name, interfaces=4, fabrics=2, upper=2) for name in ("x", "y"))
    return Dsf(name="dsf:mini", zones=zones, spines=2, rate=400 * GBPS)


def l1() -> Dsf:
    """Return an L1 zone: 128 RDSWs over 40 FDSWs, two identical planes, 4 virtual devices."""
    return Dsf(
        name="dsf:l1",
        zones=(Zone(name="a", interfaces=128, fabrics=40),),
        spines=0,
        devices=4,
        planes=2,
        rate=PORT_RATE // 2,
    )


def l2(*, planes: int = 2) -> Dsf:
    """Return an L2 zone: 4 L1 zones and an edge pod under 128 SDSWs, two planes of 4 virtual devices."""
    zones = tuple(Zone(name=name, interfaces=128, fabrics=40) for name in "abcd")
    edge = Zone(name="edge", interfaces=128, fabrics=40, edge=True)
    return Dsf(name="dsf:l2", zones=(*zones, edge), spines=128, devices=4, planes=planes, rate=PORT_RATE // 2)


FABRICS = {"mini": mini, "l1": l1, "l2": l2}


def build(name: str) -> Dsf:
    """Return the fabric of a name such as ``dsf:mini``.

    Raises
    ------
    InvalidInput
        When there is none of that name, saying which there are.
    """
    family, _, rest = name.strip().lower().partition(":")
    if family != "dsf" or rest not in FABRICS:
        names = [f"dsf:{one}" for one in (*FABRICS, "region")]
        raise InvalidInput(
            f"unknown fabric {name!r}{suggest(name.lower(), names)}: expected a file or one of {', '.join(names)}"
        )
    return FABRICS[rest]()
