"""Timelines as Chrome traces, which Perfetto opens: one process a node, one thread an outgoing link, arrows along needs.

Times are microseconds, as the format wants them (the Trace Event Format, JSON object form).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from fabric_plan.planner.errors import InvalidInput

if TYPE_CHECKING:
    from fabric_plan.planner.fabric import Fabric
    from fabric_plan.planner.simulator.engine import Timeline

MAX_HOPS = 1_000_000
"""Viewers hold no more."""


def write_trace(timeline: Timeline, fabric: Fabric, name_of: Callable[[int], str], title: str = "") -> bytes:
    """Return a simulated program as a trace file.

    Parameters
    ----------
    name_of
        What a transfer is called, by its number.

    Raises
    ------
    InvalidInput
        When there are more hops than a viewer holds.
    """
    program = timeline.program
    if program.hops > MAX_HOPS:
        raise InvalidInput(
            f"trace: {program.hops:,} hops are more than a viewer holds ({MAX_HOPS:,}): trace a smaller schedule"
        )
    encoder = msgspec.json.Encoder()
    micro = timeline.ticks_per_second / 10**6
    rows: list[bytes] = []
    used = sorted({int(link) for link in program.hop_link})
    for node in sorted({fabric.links[link].source for link in used}):
        rows.append(encoder.encode(_meta("process_name", node, 0, fabric.nodes[node].name)))
        rows.append(encoder.encode({**_meta("process_sort_index", node, 0, ""), "args": {"sort_index": node}}))
    for link in used:
        rows.append(encoder.encode(_meta("thread_name", fabric.links[link].source, link, fabric.link_name(link))))
    start, arrival = timeline.start.tolist(), timeline.arrival.tolist()
    latency = timeline.timing.latency.tolist()
    links, sizes = program.hop_link.tolist(), program.hop_size.tolist()
    hop_start = program.hop_start.tolist()
    first_hop: list[int] = []
    last_hop: list[int] = []
    for transfer in range(len(program)):
        hops = range(hop_start[transfer], hop_start[transfer + 1])
        first_hop.append(min(hops, key=lambda hop: start[hop], default=-1))
        last_hop.append(max(hops, key=lambda hop: arrival[hop], default=-1))
        for hop in hops:
            if start[hop] < 0 or arrival[hop] < 0:
                continue
            link = links[hop]
            end = arrival[hop] - latency[link]
            rows.append(
                encoder.encode(
                    {
                        "name": name_of(transfer),
                        "ph": "X",
                        "ts": start[hop] / micro,
                        "dur": (end - start[hop]) / micro,
                        "pid": fabric.links[link].source,
                        "tid": link,
                        "args": {
                            "transfer": transfer,
                            "bytes": sizes[hop] / program.scale,
                            "to": fabric.nodes[fabric.links[link].target].name,
                            "arrives": arrival[hop] / micro,
                        },
                    }
                )
            )
    need_start, needs = program.need_start.tolist(), program.need.tolist()
    flow = 0
    for transfer in range(len(program)):
        into = first_hop[transfer]
        for k in range(need_start[transfer], need_start[transfer + 1]):
            out = last_hop[needs[k]]
            if min(into, out) < 0 or min(start[into], arrival[out]) < 0:
                continue
            flow += 1
            # Arrows must begin and end inside a slice: in the middle of the one, at the start of the other.
            middle = (start[out] + arrival[out] - latency[links[out]]) / 2 / micro
            for phase, hop, time in (("s", out, middle), ("f", into, start[into] / micro)):
                arrow = {
                    "name": "needs",
                    "cat": "needs",
                    "ph": phase,
                    "id": flow,
                    "ts": time,
                    "pid": fabric.links[links[hop]].source,
                    "tid": links[hop],
                }
                rows.append(encoder.encode({**arrow, "bp": "e"} if phase == "f" else arrow))
    head = encoder.encode({"title": title, "discipline": str(timeline.service)})
    body = b",\n".join(rows)
    return b'{"displayTimeUnit": "ns", "otherData": ' + head + b', "traceEvents": [\n' + body + b"\n]}\n"


def _meta(kind: str, process: int, thread: int, name: str) -> dict[str, object]:
    return {"name": kind, "ph": "M", "pid": process, "tid": thread, "args": {"name": name}}
