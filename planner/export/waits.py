"""What an action must wait for in the other thread blocks of its rank: the last write to what it touches, and reads since then."""

from __future__ import annotations

from collections.abc import Sequence

from fabric_plan.planner.export.steps import Action


def waits_of(actions: Sequence[Action], block: Sequence[int]) -> list[list[int]]:
    """Return for each action of a rank, in an order that they can run in, the fewest others that it must wait for.

    Parameters
    ----------
    block
        Of each action. Actions of a block run in their order.
    """
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    over: list[dict[int, int]] = []  # by action: the last action of each block that is over when it is
    latest: dict[int, int] = {}  # the last action so far of each block
    found: list[list[int]] = []
    for number, one in enumerate(actions):
        mine = block[number]
        before: set[int] = set()
        reads, writes = one.source is not None, one.target is not None
        for piece in one.pieces:
            if (reads or writes) and piece in writer:
                before.add(writer[piece])
            if writes:
                before.update(readers.get(piece, ()))
        known = dict(over[latest[mine]]) if mine in latest else {}
        kept = []
        for other in sorted(before, reverse=True):
            if known.get(block[other], -1) >= other or block[other] == mine:
                continue
            kept.append(other)
            for key, value in over[other].items():
                if known.get(key, -1) < value:
                    known[key] = value
        known[mine] = number
        over.append(known)
        latest[mine] = number
        found.append(sorted(kept))
        for piece in one.pieces:
            if writes:
                writer[piece] = number
                readers[piece] = []
            elif reads:
                readers.setdefault(piece, []).append(number)
    return found
