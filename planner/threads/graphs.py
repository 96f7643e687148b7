"""NCCL's graph dumps: whether each channel visits each GPU once, and the all-reduce that its rings make, as steps."""

from __future__ import annotations

from fabric_plan.planner.formats.nccl_graph_xml import PATTERNS, Graph
from fabric_plan.planner.threads.collectives import Collective
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.stepped import Send, Stepped

RING = 4


def check_graphs(graphs: tuple[Graph, ...], findings: Findings) -> None:
    """Add what is wrong with graphs."""
    gpus = sorted({gpu for graph in graphs for channel in graph.channels for gpu in channel.gpus})
    for graph in graphs:
        name = f"graph {graph.id} ({PATTERNS.get(graph.pattern, f'pattern {graph.pattern}')})"
        if graph.pattern not in PATTERNS:
            findings.add("warning", "pattern", f"{name}: not a pattern that is known", line=graph.line)
        if graph.declared != len(graph.channels):
            text = f"{name}: nchannels={graph.declared}, but {len(graph.channels)} channels are there"
            findings.add("error", "channels", text, line=graph.line)
        if graph.channels and graph.speed_intra <= 0:
            findings.add("warning", "speed", f"{name}: speedintra={graph.speed_intra:g}", line=graph.line)
        for number, channel in enumerate(graph.channels):
            where = f"{name}, channel {number}"
            if not channel.gpus:
                findings.add("error", "channel", f"{where}: no GPU", line=channel.line)
                continue
            twice = sorted({gpu for gpu in channel.gpus if channel.gpus.count(gpu) > 1})
            left = sorted(set(gpus) - set(channel.gpus))
            if twice:
                text = f"{where}: GPU {twice[0]} is visited {channel.gpus.count(twice[0])} times"
                findings.add("error", "channel", text, line=channel.line)
            if left and graph.pattern not in (5, 6):
                told = ", ".join(map(str, left[:8]))
                findings.add("error", "channel", f"{where}: never visits GPU {told}", line=channel.line)
            if graph.pattern == RING and len(channel.nets) not in (0, 2):
                text = f"{where}: {len(channel.nets)} network devices: a ring leaves by one and comes back by one"
                findings.add("error", "ring", text, line=channel.line)
            if graph.pattern == RING and len(set(channel.nets)) > 1 and not graph.crossnic:
                text = f"{where}: leaves by net {channel.nets[-1]} and comes in by net {channel.nets[0]}, though crossnic=0"
                findings.add("warning", "net", text, line=channel.line)


def ring_all_reduce(graphs: tuple[Graph, ...]) -> Stepped | None:
    """Return the all-reduce over all channels of the first ring graph: each takes an equal share; None without rings inside one machine."""
    ring = next((graph for graph in graphs if graph.pattern == RING and graph.channels), None)
    if ring is None or any(channel.nets for channel in ring.channels):
        return None
    orders = [channel.gpus for channel in ring.channels]
    numbers = sorted(set(orders[0]))
    if len(numbers) < 2 or any(sorted(order) != numbers for order in orders):
        return None
    rank_of = {gpu: rank for rank, gpu in enumerate(numbers)}
    ranks, sends = len(numbers), []
    for channel, order in enumerate(orders):
        places = [rank_of[gpu] for gpu in order]
        for step in range(2 * ranks - 2):
            for k, source in enumerate(places):
                address = channel * ranks + (k - step) % ranks
                sends.append(Send(address, source, places[(k + 1) % ranks], step, ring.channels[channel].line))
    pieces = ranks * len(orders)
    contribution = {
        (rank, address): frozenset((rank * pieces + address,)) for rank in range(ranks) for address in range(pieces)
    }
    whole = {address: frozenset(rank * pieces + address for rank in range(ranks)) for address in range(pieces)}
    return Stepped(
        Collective("allreduce", ranks, pieces),
        contribution,
        {place: whole[place[1]] for place in contribution},
        sends,
        source_of={rank * pieces + address: rank for rank in range(ranks) for address in range(pieces)},
    )
