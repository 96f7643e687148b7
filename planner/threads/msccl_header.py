"""What an MSCCL algorithm says of itself, and what each runtime can hold of it.

Sources: the parsers of microsoft/msccl (src/graph/topo.cc), the msccl-executor and RCCL (src/misc/msccl/msccl_parser.cc).
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.msccl_xml import Algorithm
from fabric_plan.planner.threads.collectives import NAMES, Collective
from fabric_plan.planner.threads.findings import PROFILES, Findings

DEPTHS = {"Simple": 2, "LL": 8, "LL128": 8}
"""Messages that a connection holds, by protocol."""

CHUNK_BYTES = {"Simple": 2 << 20, "LL": 32 << 10, "LL128": 576_000}
"""Bytes that one message carries at most."""


@dataclass(frozen=True)
class Limits:
    """What a runtime can hold."""

    steps: int
    blocks: int
    channels: int
    count: int = 71
    peers: int = 32
    nodes: int = 4096


LIMITS = {"msccl": Limits(256, 216, 32), "executor": Limits(64, 1024, 32), "rccl": Limits(64, 64, 128)}
ACCEPTED = {
    "msccl": {"allreduce", "allgather", "reduce", "broadcast", "alltoall", "reduce_scatter", "custom"},
    "executor": {
        "reduce",
        "broadcast",
        "allreduce",
        "reducescatter",
        "allgather",
        "send",
        "recv",
        "gather",
        "scatter",
        "alltoall",
        "alltoallv",
    },
}
ACCEPTED["rccl"] = ACCEPTED["executor"]
REQUIRED = {"msccl": ("inplace", "name"), "executor": ("inplace", "outofplace", "minBytes", "maxBytes")}
REQUIRED["rccl"] = REQUIRED["executor"]


MOST = {"ngpus": 65_536, "nchunksperloop": 60_000_000, "nchannels": 65_536}
"""Beyond these a number is a mistake, and following it would take all memory."""


@dataclass(frozen=True)
class Header:
    """The attributes of an algorithm, read."""

    name: str
    collective: Collective
    protocol: str
    pieces: int
    channels: int
    placements: tuple[bool, ...]
    min_bytes: int
    max_bytes: int | None


def header(algorithm: Algorithm, findings: Findings, root: int | None = None) -> Header:
    """Return what an algorithm says of itself; findings of what runtimes miss are added.

    Raises
    ------
    InvalidInput
        When ranks, pieces, protocol or collective are missing or make no sense.
    """
    line = algorithm.line
    numbers = {}
    for name in ("ngpus", "nchunksperloop", "nchannels"):
        value = algorithm.integer(name)
        if value is None or value < 1:
            raise InvalidInput(
                f"line {line}: <algo> {name}: expected a positive number, found {algorithm.attributes.get(name)!r}"
            )
        if value > MOST[name]:
            raise InvalidInput(f"line {line}: <algo> {name}={value:,}: no schedule has so many")
        numbers[name] = value
    protocol = algorithm.attributes.get("proto", "")
    if protocol not in DEPTHS:
        raise InvalidInput(f"line {line}: proto={protocol[:40]!r}: expected one of {', '.join(DEPTHS)}")
    given = algorithm.attributes.get("coll", "")
    if given not in NAMES:
        raise InvalidInput(f"line {line}: coll={given[:40]!r}: expected one of {', '.join(NAMES)}")
    refusing = [profile for profile in PROFILES if given not in ACCEPTED[profile]]
    if refusing:
        findings.add(
            "profile",
            "collective",
            f"coll={given!r} is not a name that {', '.join(refusing)} knows",
            line=line,
            profiles=refusing,
        )
    for profile in PROFILES:
        missing = [name for name in REQUIRED[profile] if name not in algorithm.attributes]
        if missing:
            findings.add(
                "profile",
                "attribute",
                f"{profile} does not load it without {', '.join(missing)}",
                line=line,
                profiles=[profile],
            )
    inside = algorithm.integer("inplace", 0) or 0
    outside = algorithm.integer("outofplace")
    if outside is None:
        outside = 0 if inside else 1
    placements = tuple(place for place, flag in ((True, inside), (False, outside)) if flag)
    if not placements:
        findings.add(
            "warning", "never-selected", "neither inplace nor outofplace is set: it is never selected", line=line
        )
        placements = (False,)
    low, high = algorithm.integer("minBytes", 0) or 0, algorithm.integer("maxBytes", 0) or 0
    if high and low > high:
        findings.add(
            "warning", "never-selected", f"minBytes {low} is above maxBytes {high}: it is never selected", line=line
        )
    collective = Collective(NAMES[given], numbers["ngpus"], numbers["nchunksperloop"], root or 0)
    return Header(
        algorithm.attributes.get("name", ""),
        collective,
        protocol,
        numbers["nchunksperloop"],
        numbers["nchannels"],
        placements,
        low,
        high or None,
    )


def check_limits(algorithm: Algorithm, head: Header, findings: Findings) -> None:
    """Add what passes the limits of each runtime."""
    for profile, limit in LIMITS.items():

        def beyond(what: str, value: int, most: int, line: int, profile: str = profile) -> None:
            if value > most:
                findings.add(
                    "profile", "limit", f"{what}: {value:,}, {profile} takes {most:,}", line=line, profiles=[profile]
                )

        beyond("channels", head.channels, limit.channels, algorithm.line)
        steps, step_line, blocks, block_line, nodes, node_line, counts, count_line = 0, 0, 0, 0, 0, 0, 0, 0
        peers, peer_line = 0, 0
        for gpu in algorithm.gpus:
            if len(gpu.blocks) > blocks:
                blocks, block_line = len(gpu.blocks), gpu.line
            size = 1 + len(algorithm.gpus) + len(gpu.blocks) + sum(tb.end - tb.first for tb in gpu.blocks)
            if size > nodes:
                nodes, node_line = size, gpu.line
            sends: dict[int, int] = {}
            receives: dict[int, int] = {}
            for tb in gpu.blocks:
                if tb.end - tb.first > steps:
                    steps, step_line = tb.end - tb.first, tb.line
                for peer, table in ((tb.send, sends), (tb.recv, receives)):
                    if peer >= 0:
                        table[tb.chan] = table.get(tb.chan, 0) + 1
            many = max((*sends.values(), *receives.values()), default=0)
            if many > peers:
                peers, peer_line = many, gpu.line
        if len(algorithm.cnt):
            counts = max(algorithm.cnt)
            count_line = algorithm.lines[algorithm.cnt.index(counts)]
        beyond("steps in a thread block", steps, limit.steps, step_line)
        beyond("thread blocks of a GPU", blocks, limit.blocks, block_line)
        beyond("elements of a rank's file", nodes, limit.nodes, node_line)
        beyond("chunks in a step", counts, limit.count, count_line)
        beyond("sends or receives of a channel", peers, limit.peers, peer_line)
