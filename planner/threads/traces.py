"""Chakra traces as programs: whether sends meet receives, whether anything waits in a ring, and how much goes where.

A trace says nothing of buffers, so what a collective leaves in them cannot be told from it.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd

from fabric_plan.planner.formats.chakra_et import COLLECTIVE, RECEIVE, SEND, Trace
from fabric_plan.planner.threads.findings import Findings
from fabric_plan.planner.threads.program import NONE, Program, Thread

NAMES = ("node", "send", "receive")
MAX_RANKS = 1_000_000


def program_of(traces: list[Trace], findings: Findings) -> tuple[Program, int] | None:
    """Return traces as a program of one thread a node, and the bytes of its unit of data; None where they make no sense.

    Messages of one (source, target, tag) meet in the order of node numbers. Without the traces of all peers, sends and receives of this
    one are counted, not matched.
    """
    ranks = {trace.rank for trace in traces}
    sizes = [n.attributes.get("comm_size", 0) for t in traces for n in t.nodes if n.type in (SEND, RECEIVE)]
    unit = gcd(*sizes) if any(sizes) else 1
    if max(sizes, default=0) // unit > 2_000_000_000:
        unit = -(-max(sizes) // 2_000_000_000)
    peers, volume = set[int](), defaultdict[int, int](int)
    program = Program(ranks=max(ranks) + 1, names=NAMES)
    connections: dict[tuple[int, int, int], int] = {}
    alone = len(traces) == 1
    fine = True
    for trace in traces:
        first = len(program)
        place: dict[int, int] = {}
        for node in trace.nodes:
            if node.id in place:
                findings.add("error", "node", f"rank {trace.rank}: two nodes have the number {node.id}")
                return None
            place[node.id] = first + len(place)
        for node in trace.nodes:
            where = f"rank {trace.rank}, node {node.id} ({node.name[:40]})"
            receive = send = NONE
            kind = 0
            if node.type in (SEND, RECEIVE):
                kind = 1 if node.type == SEND else 2
                name = "comm_dst" if node.type == SEND else "comm_src"
                if name not in node.attributes:
                    findings.add("error", "peer", f"{where}: no {name}")
                    fine = False
                    continue
                peer, size = node.attributes[name], node.attributes.get("comm_size", 0)
                if peer == trace.rank or not 0 <= peer < MAX_RANKS:
                    findings.add("error", "peer", f"{where}: {name}={peer}")
                    fine = False
                    continue
                peers.add(peer)
                ends = (trace.rank, peer) if node.type == SEND else (peer, trace.rank)
                if node.type == SEND:
                    volume[peer] += size
                key = (*ends, node.attributes.get("comm_tag", 0))
                if not alone:
                    number = connections.setdefault(key, len(connections))
                    receive, send = (NONE, number) if node.type == SEND else (number, NONE)
            elif node.type == COLLECTIVE:
                findings.add(
                    "info",
                    "collective",
                    f"{where}: collectives that the simulator of a trace makes up are not followed",
                )
            op = len(program)
            program.threads.append(Thread(trace.rank, len(program.threads), NONE, NONE, 0, 0, op, op + 1))
            program.thread.append(op)
            program.number.append(node.id % 2_000_000_000)
            program.line.append(0)
            program.name.append(kind)
            program.source.append(NONE)
            program.target.append(NONE)
            program.reads_target.append(0)
            program.count.append(max(1, node.attributes.get("comm_size", 0) // unit))
            program.receive.append(receive)
            program.send.append(send)
            for need in node.needs:
                if need not in place:
                    findings.add("error", "needs", f"{where}: waits for node {need}, which is not there")
                    fine = False
                else:
                    program.wait.append(place[need])
            program.wait_start.append(len(program.wait))
    if not fine:
        return None
    program.connections = [key if key[2] < 2_000_000_000 else (key[0], key[1], 0) for key in connections]
    if alone and peers:
        told = ", ".join(f"{size:,} bytes to {peer}" for peer, size in sorted(volume.items())[:8])
        findings.add(
            "warning",
            "alone",
            f"only rank {traces[0].rank}'s trace is here: nothing is matched with its peers; it sends {told}",
        )
    elif peers - ranks:
        missing = ", ".join(map(str, sorted(peers - ranks)[:8]))
        findings.add("error", "peer", f"the traces of ranks {missing} are missing, which others send to or wait for")
        return None
    return program, unit
