"""Named fabrics: ``mesh:4x5``, ``torus:4x4x4``, ``ring:8``, ``full:8``, ``hub:16``, ``dgx1``, ``nvl72``, ``h100:8``, ...

Figures and their sources stand with each builder. A name always builds the same fabric, so a file may hold the name only.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from fabric_plan.planner.costs import Costs
from fabric_plan.planner.errors import InvalidInput, suggest
from fabric_plan.planner.fabric import Fabric, Link, Node, coordinates, seat_at

MAX_NODES = 65_536
"""Larger fabrics are refused before anything is built."""

_GB = 10**9
_US = Fraction(1, 10**6)
_NS = Fraction(1, 10**9)


@dataclass(frozen=True, slots=True)
class Entry:
    """A family of fabrics: how its names are written, an example, what it is, and the builder."""

    pattern: str
    example: str
    summary: str
    build: Callable[[str, tuple[int, ...]], Fabric]


def _npus(count: int) -> tuple[Node, ...]:
    return tuple(Node("npu", f"npu{index}") for index in range(count))


def _grid_links(shape: tuple[int, ...], wraps: bool, bandwidth: int, latency: Fraction) -> tuple[Link, ...]:
    """Return the links of a grid; on an axis of two, wrapping would only double the link, so it does not."""
    links = []
    for seat in range(math.prod(shape)):
        place = coordinates(seat, shape)
        for axis in reversed(range(len(shape))):
            neighbours = []
            for step in (1, -1):
                moved = place[axis] + step
                if wraps and shape[axis] > 2:
                    moved %= shape[axis]
                if 0 <= moved < shape[axis]:
                    neighbours.append(seat_at((*place[:axis], moved, *place[axis + 1 :]), shape))
            links += [Link(seat, neighbour, bandwidth, latency) for neighbour in neighbours]
    return tuple(links)


def _flip(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    def image(seat: int) -> int:
        place = coordinates(seat, shape)
        return seat_at((*place[:axis], shape[axis] - 1 - place[axis], *place[axis + 1 :]), shape)

    return tuple(image(seat) for seat in range(math.prod(shape)))


def _shift(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    def image(seat: int) -> int:
        place = coordinates(seat, shape)
        return seat_at((*place[:axis], (place[axis] + 1) % shape[axis], *place[axis + 1 :]), shape)

    return tuple(image(seat) for seat in range(math.prod(shape)))


def mesh(name: str, shape: tuple[int, ...]) -> Fabric:
    """Return a mesh with X-Y routing: 750 GB/s and 20 ns a link (FRED paper, sections 6.2.2 and 7.1: 3 TB/s an NPU)."""
    links = _grid_links(shape, False, 750 * _GB, 20 * _NS)
    flips = tuple(_flip(shape, axis) for axis in range(len(shape)) if shape[axis] > 1)
    return Fabric(name, _npus(math.prod(shape)), links, "xy", shape=shape, in_catalog=True, symmetries=flips)


def torus(name: str, shape: tuple[int, ...]) -> Fabric:
    """Return a torus with dimension-order routing: 50 GB/s (TPU v4, per link and direction) and 0.5 us a link.

    Shifts along an axis keep every route; a reflection does so only where no route is a tie, on odd sides and sides of
    two.
    """
    links = _grid_links(shape, True, 50 * _GB, Fraction(1, 2) * _US)
    moves = [_shift(shape, axis) for axis in range(len(shape)) if shape[axis] > 1]
    moves += [_flip(shape, axis) for axis in range(len(shape)) if shape[axis] > 2 and shape[axis] % 2]
    return Fabric(
        name, _npus(math.prod(shape)), links, "dimension-order", shape=shape, in_catalog=True, symmetries=moves
    )


def full(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return a full mesh: 50 GB/s and 0.5 us between every two NPUs."""
    (count,) = sizes
    return _full(name, count, 50 * _GB, 1)


def hub(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return NPUs around one switch: 50 GB/s and 0.5 us a link."""
    (count,) = sizes
    return _hub(name, count, 50 * _GB, Fraction(1, 2) * _US, _IDEAL)


def _hub(name: str, count: int, bandwidth: int, latency: Fraction, costs: Costs) -> Fabric:
    nodes = (*_npus(count), Node("switch", "switch"))
    links = tuple(Link(*ends, bandwidth, latency) for npu in range(count) for ends in ((npu, count), (count, npu)))
    alike = _all_alike(count, len(nodes))
    return Fabric(name, nodes, links, in_catalog=True, symmetries=alike, costs=costs)


_IDEAL = Costs(in_network=Fraction(1))

_NVLINK = {
    # Usable bytes/s of an NVLink in NCCL's tuning, links a GPU, and the part that in-switch all-reduce reaches:
    # NVLS efficiency x 5/6. Both are NCCL's, but of different versions: older ones turn an NVLS bus bandwidth into one of
    # the algorithm by 5/6, newer ones by an efficiency and 2 (channels - 1) / channels. The product is ours: it is within
    # 10 % of what was measured, which neither factor is alone.
    "a100": (20_000_000_000, 12, None),
    "h100": (20_600_000_000, 18, Fraction(85, 100) * Fraction(5, 6)),
    "h200": (20_600_000_000, 18, Fraction(85, 100) * Fraction(5, 6)),
    "b200": (40_100_000_000, 18, Fraction(74, 100) * Fraction(5, 6)),
}


def nvswitch_box(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return a box of GPUs on NVSwitch with the bandwidth that collectives reach: ``h100:8``, ``b200:8``, ...

    Usable NVLink bandwidth a link and direction, and 3.4 us a hop of two links (protocol Simple), are those of NCCL's tuning
    model (src/graph/topo.h and src/graph/tuning.cc of its source). What in-switch reduction reaches is built from its NVLS
    figures (5/6: src/graph/tuning.cc; efficiencies: src/tuning/nvls.cc), and chosen by what was measured. Measured
    bus bandwidths of large all-reduces, GB/s: 8 x H100 about 370 by rings and 480 in the switches, 8 x H200 475, 8 x B200 830.
    """
    (count,) = sizes
    if count > 8:
        raise InvalidInput(f"fabric {name!r}: such a box has at most 8 GPUs")
    width, links, share = _NVLINK[name.partition(":")[0]]
    return _hub(name, count, width * links, Fraction(17, 10) * _US, Costs(in_network=share, switching="cut-through"))


def mi300x(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return 8 MI300X: a full mesh, one Infinity Fabric link (x16 at 32 Gb/s, 64 GB/s a direction) a pair; 0.5 us assumed.

    Seven links of 64 GB/s, both directions: the quoted 896 GB/s of a GPU.
    """
    return _full(name, 8, 64 * _GB, 1)


def gaudi3(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return 8 Gaudi 3: a full mesh of three 200 Gb/s ports (75 GB/s a direction) a pair; 0.5 us assumed.

    21 of a card's 24 ports stay in the node: 8 x 21 x 200 Gb/s, both directions, are the quoted 67.2 Tb/s.
    """
    return _full(name, 8, 75 * _GB, 3)


def tpu_v4(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return a torus of TPU v4: six links of 50 GB/s a chip on three axes (Jouppi et al. 2023); 0.5 us a link assumed."""
    return torus(name, sizes)


def _full(name: str, count: int, bandwidth: int, multiplicity: int) -> Fabric:
    pairs = itertools.permutations(range(count), 2)
    links = tuple(Link(a, b, bandwidth, Fraction(1, 2) * _US, multiplicity) for a, b in pairs)
    return Fabric(name, _npus(count), links, in_catalog=True, symmetries=_all_alike(count, count))


def _all_alike(seats: int, nodes: int) -> tuple[tuple[int, ...], ...]:
    """Return generators of every permutation of the first ``seats`` nodes."""
    if seats < 2:
        return ()
    swap = (1, 0, *range(2, nodes))
    turn = (*range(1, seats), 0, *range(seats, nodes))
    return (swap, turn)


def nvl72(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return NVL72: 72 GPUs, 18 NVSwitch planes, one NVLink 5 (50 GB/s a direction) from each GPU to each plane.

    0.5 us a link. The hardware stripes every pair's traffic over all planes, so a flow puts 1/18 of itself on each.
    """
    gpus, planes = 72, 18
    nodes = tuple(Node("npu", f"gpu{g}") for g in range(gpus)) + tuple(
        Node("switch", f"plane{p}") for p in range(planes)
    )
    links = []
    for gpu, plane in itertools.product(range(gpus), range(gpus, gpus + planes)):
        links += [Link(gpu, plane, 50 * _GB, Fraction(1, 2) * _US), Link(plane, gpu, 50 * _GB, Fraction(1, 2) * _US)]
    alike = _all_alike(gpus, len(nodes))
    return Fabric(name, nodes, links, "planes", in_catalog=True, symmetries=alike, costs=_IDEAL)


_DGX1_PAIRS = {
    (0, 1): 2, (0, 2): 1, (0, 3): 1, (0, 4): 2, (1, 2): 1, (1, 3): 2, (1, 5): 1, (2, 3): 2,
    (2, 6): 2, (3, 7): 1, (4, 5): 2, (4, 6): 1, (4, 7): 1, (5, 6): 1, (5, 7): 2, (6, 7): 2,
}  # fmt: skip


def dgx1(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return a DGX-1 with V100: hybrid cube mesh, one or two NVLinks of 25 GB/s a direction between GPUs, 0.7 us."""
    links = []
    for (a, b), count in _DGX1_PAIRS.items():
        for source, target in ((a, b), (b, a)):
            links.append(Link(source, target, 25 * _GB * count, Fraction(7, 10) * _US, count))
    links.sort(key=lambda link: (link.source, link.target))
    return Fabric(name, [Node("npu", f"gpu{g}") for g in range(8)], links, in_catalog=True)


def fred20(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return the two-level FRED fabric of the paper: 20 NPUs and 18 I/O controllers under 5 L1 switches and one L2.

    3 TB/s an NPU, 12 TB/s (four times an NPU's link) from an L1 to the L2, 128 GB/s an I/O controller, 20 ns a link (FRED paper, sections 6.2.2 and 6.2.3,
    tables 3 and 5). For loads and times each switch is taken whole; what routes through its micro-switches is kept to by ``switch``.
    """
    nodes = [Node("npu", f"npu{n}") for n in range(20)]
    nodes += [Node("switch", f"l1.{s}") for s in range(5)] + [Node("switch", "l2")]
    links: list[Link] = []

    def both(a: int, b: int, bandwidth: int, multiplicity: int = 1) -> None:
        links.extend(Link(*ends, bandwidth, 20 * _NS, multiplicity) for ends in ((a, b), (b, a)))

    for npu in range(20):
        both(npu, 20 + npu // 4, 3000 * _GB)
    for leaf in range(5):
        both(20 + leaf, 25, 12000 * _GB, 4)
    for leaf, count in enumerate((4, 4, 4, 3, 3)):
        for _ in range(count):
            nodes.append(Node("io", f"io{len(nodes) - 26}"))
            both(len(nodes) - 1, 20 + leaf, 128 * _GB)
    note = "loads and times count switches whole, and collectives as rings between NPUs; phases route through micro-switches"
    return Fabric(
        name,
        nodes,
        links,
        "up-down",
        in_catalog=True,
        symmetries=_fred20_symmetries(nodes, links),
        note=note,
        costs=_IDEAL,
        switch="fred-20",
    )


def fred(name: str, sizes: tuple[int, ...]) -> Fabric:
    """Return the NPUs around one Fred_m(P) switch, 3 TB/s each, 20 ns a link (FRED paper, sections 4 and 6.2.3)."""
    (ports,) = sizes
    if name.startswith(("fred0:", "fred1:")) or ports < 2:
        raise InvalidInput(
            f"fabric {name!r}: a FRED switch needs at least 2 middle networks and 2 ports, as in fred3:20"
        )
    nodes = [Node("npu", f"npu{n}") for n in range(ports)] + [Node("switch", "fred")]
    links = [Link(*ends, 3000 * _GB, 20 * _NS) for npu in range(ports) for ends in ((npu, ports), (ports, npu))]
    swaps = [(*range(npu), npu + 1, npu, *range(npu + 2, ports + 1)) for npu in range(ports - 1)]
    note = "loads and times count the switch whole, and collectives as rings between NPUs; phases route through micro-switches"
    return Fabric(
        name, nodes, links, "up-down", in_catalog=True, symmetries=swaps, note=note, costs=_IDEAL, switch=name
    )


def _fred20_symmetries(nodes: list[Node], links: list[Link]) -> tuple[tuple[int, ...], ...]:
    """Return swaps of NPUs under one L1 switch, and of L1 switches with equally many I/O controllers."""
    under = {
        leaf: [link.source for link in links if link.target == leaf and link.source != 25] for leaf in range(20, 25)
    }

    def swap(pairs: list[tuple[int, int]]) -> tuple[int, ...]:
        moved = dict(pairs) | {b: a for a, b in pairs}
        return tuple(moved.get(node, node) for node in range(len(nodes)))

    within = [swap([(npu, npu + 1)]) for npu in range(20) if npu % 4 != 3]
    across = [swap([(a, a + 1), *zip(under[a], under[a + 1], strict=True)]) for a in (20, 21, 23)]
    return (*within, *across)


CATALOG: dict[str, Entry] = {
    "mesh": Entry("mesh:RxC[xD..]", "mesh:4x5", "mesh, X-Y routing, 750 GB/s, 20 ns", mesh),
    "torus": Entry("torus:AxB[xC..]", "torus:4x4x4", "torus, dimension-order routing, 50 GB/s, 0.5 us", torus),
    "ring": Entry("ring:N", "ring:8", "bidirectional ring, 50 GB/s, 0.5 us", torus),
    "full": Entry("full:N", "full:8", "a link between every two NPUs, 50 GB/s, 0.5 us", full),
    "hub": Entry("hub:N", "hub:16", "NPUs around one switch, 50 GB/s, 0.5 us", hub),
    "dgx1": Entry("dgx1", "dgx1", "8 V100, hybrid cube mesh of NVLinks (25 GB/s each), 0.7 us", dgx1),
    "nvl72": Entry("nvl72", "nvl72", "72 GPUs striped over 18 NVSwitch planes, 50 GB/s a link, 0.5 us", nvl72),
    "a100": Entry("a100:N", "a100:8", "N A100 on NVSwitch, 240 GB/s usable, 3.4 us a hop", nvswitch_box),
    "h100": Entry("h100:N", "h100:8", "N H100 on NVSwitch, 370.8 GB/s usable, in-switch reduction", nvswitch_box),
    "h200": Entry("h200:N", "h200:8", "N H200 on NVSwitch, 370.8 GB/s usable, in-switch reduction", nvswitch_box),
    "b200": Entry("b200:N", "b200:8", "N B200 on NVSwitch, 721.8 GB/s usable, in-switch reduction", nvswitch_box),
    "mi300x": Entry("mi300x", "mi300x", "8 MI300X, 64 GB/s between every two, 0.5 us", mi300x),
    "gaudi3": Entry("gaudi3", "gaudi3", "8 Gaudi 3, 3 x 200 Gb/s between every two, 0.5 us", gaudi3),
    "tpu-v4": Entry("tpu-v4:AxBxC", "tpu-v4:4x4x4", "torus of TPU v4, 50 GB/s a link, 0.5 us", tpu_v4),
    "fred": Entry("fredM:N", "fred3:20", "N NPUs around one FRED switch with M middle networks, 3 TB/s, 20 ns", fred),
    "fred-20": Entry("fred-20", "fred-20", "FRED's 20 NPUs under 5 L1 switches and one L2, 3 TB/s an NPU", fred20),
}


def build(name: str) -> Fabric:
    """Return the catalog's fabric of that name.

    Raises
    ------
    InvalidInput
        For an unknown family (with the nearest known one), sizes that cannot be read, or a fabric that is too large.
    """
    family, _, rest = name.strip().lower().partition(":")
    # Middle networks stand in the name of the family, as people write switches: fred3:12.
    entry = CATALOG.get(re.sub(r"fred[0-9]{1,4}", "fred", family) if family[:4] == "fred" else family)
    if family == "fred":
        raise InvalidInput(
            f"fabric {name!r}: say how many middle networks it has, as in fred3:20; the paper's is fred-20"
        )
    if entry is None:
        spelled = re.match(r"[a-z]+", family)
        hint = suggest(family, list(CATALOG)) or suggest(spelled[0] if spelled else family, list(CATALOG))
        examples = ", ".join(one.example for one in CATALOG.values())
        raise InvalidInput(f"unknown fabric {name!r}{hint}: expected a file or one of {examples}")
    sizes = _sizes(name, rest, entry)
    return entry.build(name.strip().lower(), sizes)


def _sizes(name: str, rest: str, entry: Entry) -> tuple[int, ...]:
    if ":" not in entry.pattern:
        if rest:
            raise InvalidInput(f"fabric {name!r}: {entry.example} takes no size")
        return ()
    if not re.fullmatch(r"[0-9]{1,18}(x[0-9]{1,18}){0,15}", rest):
        raise InvalidInput(f"fabric {name!r}: expected {entry.pattern}, as in {entry.example}")
    sizes = tuple(map(int, rest.split("x")))
    axes = 1 if entry.pattern.endswith(":N") else None
    if (axes == 1) != (len(sizes) == 1):
        raise InvalidInput(f"fabric {name!r}: expected {entry.pattern}, as in {entry.example}")
    if min(sizes) < 1:
        raise InvalidInput(f"fabric {name!r}: every size must be at least 1")
    count = math.prod(sizes)
    links = count * count if entry.build is full else count
    if links > MAX_NODES:
        raise InvalidInput(
            f"fabric {name!r}: {count:,} NPUs are more than can be built here (at most {MAX_NODES:,} nodes)"
        )
    return sizes
