"""Graph dumps of NCCL (``NCCL_GRAPH_DUMP_FILE``): the channels of rings and trees that it found, as orders of GPUs.

Source: nccl, src/graph/search.cc and graph.h (patterns). GPUs have a ``dev``, and in newer files a ``rank``.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.small_xml import read_xml

PATTERNS = {1: "balanced tree", 2: "split tree", 3: "tree", 4: "ring", 5: "NVLink SHARP", 6: "collnet direct"}


@dataclass(frozen=True)
class Channel:
    """A channel: its GPUs in order, and the network devices before and after them."""

    gpus: tuple[int, ...]
    nets: tuple[str, ...]
    line: int


@dataclass(frozen=True)
class Graph:
    """A graph: its pattern, how many channels it says it has, speeds in GB/s, and its channels."""

    id: int
    pattern: int
    declared: int
    crossnic: bool
    speed_intra: float
    speed_inter: float
    channels: tuple[Channel, ...]
    line: int


def read_graphs(data: bytes) -> tuple[Graph, ...]:
    """Read a dump.

    Raises
    ------
    InvalidInput
        When it is none; one line with the place.
    """
    root = read_xml(data)
    if root.name != "graphs":
        raise InvalidInput(f"line {root.line}: <{root.name}>: expected <graphs>")
    graphs: list[Graph] = []
    for one in root.all("graph"):
        channels = []
        for channel in one.all("channel"):
            gpus = channel.all("gpu")
            name = "rank" if gpus and all("rank" in gpu.attributes for gpu in gpus) else "dev"
            nets = tuple(net.attributes.get("dev", "?") for net in channel.all("net"))
            channels.append(Channel(tuple(gpu.integer(name) for gpu in gpus), nets, channel.line))
        speeds = []
        for name in ("speedintra", "speedinter"):
            try:
                speeds.append(float(one.attributes.get(name, "0")[:40]))
            except ValueError:
                raise InvalidInput(
                    f"line {one.line}: {name}={one.attributes[name][:40]!r}: expected a number"
                ) from None
        graphs.append(
            Graph(
                one.integer("id", len(graphs)),
                one.integer("pattern"),
                one.integer("nchannels"),
                one.integer("crossnic", 0) != 0,
                speeds[0],
                speeds[1],
                tuple(channels),
                one.line,
            )
        )
    if not graphs:
        raise InvalidInput(f"line {root.line}: no <graph>")
    return tuple(graphs)
