"""Write the all-pairs all-reduce of N ranks as MSCCL XML: the size test for schedule checkers.

``python results/all_pairs.py 64 > FILE`` writes 774,080 steps. Every rank owns N of the N * N chunks. It sends to each
owner its N chunks in one message (into scratch), reduces its own chunks, one per thread block, from the N - 1 scratch
slots, and sends them to everyone. Per rank: one thread block that only reduces, 2 N - 3 steps, and N - 1 that talk to
one peer each, 3 N - 2 steps; so N (2 N - 3 + (N - 1) (3 N - 2)) steps in all, one channel and one instance. A wait for
several thread blocks is a chain of nops before the step that waits for the last.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

STEP = (
    '      <step s="{}" type="{}" srcbuf="{}" srcoff="{}" dstbuf="{}" dstoff="{}" cnt="{}" depid="{}" deps="{}" '
    'hasdep="{}"/>\n'
)


def thread_block(rank: int, index: int, ranks: int) -> Iterator[str]:
    """Lines of one thread block; 0 only reduces, the others talk to one peer and reduce one chunk."""
    peer = index - 1 if index <= rank else index
    s = 0
    others = [t for t in range(1, ranks) if t != index]
    if index == 0:
        yield '    <tb id="0" send="-1" recv="-1" chan="0">\n'
    else:
        yield f'    <tb id="{index}" send="{peer}" recv="{peer}" chan="0">\n'
        slot = ranks * (rank if rank < peer else rank - 1)
        yield STEP.format(0, "s", "i", ranks * peer, "s", slot, ranks, -1, -1, 0)
        yield STEP.format(1, "r", "i", ranks * rank, "s", ranks * (index - 1), ranks, -1, -1, 1)
        s = 2
    own = others.pop() if others else None
    for other in others:
        yield STEP.format(s, "nop", "i", -1, "o", -1, 0, other, 1, 0)
        s += 1
    for slot in range(ranks - 1):
        depid, deps = (own, 1) if slot == 0 and own is not None else (-1, -1)
        chunk = ranks * rank + index
        last = int(slot == ranks - 2)
        yield STEP.format(s, "re", "s", ranks * slot + index, "i", chunk, 1, depid, deps, last)
        s += 1
    if index:
        done = [(0, 2 * ranks - 4)] + [(t, 2 * ranks - 3) for t in range(1, ranks) if t != index]
        for depid, deps in done[:-1]:
            yield STEP.format(s, "nop", "i", -1, "o", -1, 0, depid, deps, 0)
            s += 1
        yield STEP.format(s, "s", "i", ranks * rank, "i", ranks * rank, ranks, *done[-1], 0)
        yield STEP.format(s + 1, "r", "i", ranks * peer, "i", ranks * peer, ranks, -1, -1, 0)
    yield "    </tb>\n"


def lines(ranks: int, protocol: str = "LL") -> Iterator[str]:
    """All lines of the file."""
    chunks = ranks * ranks
    yield (
        f'<algo name="allreduce_pairs" proto="{protocol}" nchannels="1" nchunksperloop="{chunks}" ngpus="{ranks}" '
        'coll="allreduce" inplace="1" outofplace="0" minBytes="0" maxBytes="0">\n'
    )
    for rank in range(ranks):
        yield f'  <gpu id="{rank}" i_chunks="{chunks}" o_chunks="0" s_chunks="{ranks * (ranks - 1)}">\n'
        for index in range(ranks):
            yield from thread_block(rank, index, ranks)
        yield "  </gpu>\n"
    yield "</algo>\n"


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not sys.argv[1].isdigit() or int(sys.argv[1]) < 3:
        sys.exit("usage: all_pairs.py RANKS [PROTOCOL]   (RANKS at least 3; PROTOCOL Simple, LL or LL128)")
    sys.stdout.writelines(lines(int(sys.argv[1]), *sys.argv[2:]))
