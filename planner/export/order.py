"""One order of all sends and receives in which every message carries what its transfer means.

A transfer sends what its source holds by the transfers that it needs, directly or not. In a machine with one place for a
slot that is a state of the place: after some of the writes to it, and before the others. So receives that another
transfer's state must not see yet wait until it has been sent. The order follows the simulated times where it may choose;
the messages of a pair of ranks are received as they were sent.
"""

from __future__ import annotations

import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.export.pieces import Message

if TYPE_CHECKING:
    from fabric_plan.planner.schedule import Transfers

MOST_ANCESTORS = 30_000
"""Most transfers whose ancestors are kept, a bit a pair; with more, a transfer sees what steps before its own wrote."""


@dataclass(frozen=True, slots=True)
class Event:
    """A message sent (read at its source), or received (written at its target)."""

    message: int
    send: bool


class Unorderable(Exception):
    """No order of whole messages will do: smaller ones may."""


class History:
    """Which transfers a transfer's source has seen."""

    def __init__(self, transfers: Transfers) -> None:
        starts, needs = transfers.need_start.tolist(), transfers.need.tolist()
        self._bits: list[int] = []
        self._depth: list[int] = []
        few = len(transfers) <= MOST_ANCESTORS
        for row in range(len(transfers)):
            before = needs[starts[row] : starts[row + 1]]
            if few:
                bits = 0
                for one in before:
                    bits |= self._bits[one] | 1 << one
                self._bits.append(bits)
            else:
                self._depth.append(1 + max((self._depth[one] for one in before), default=-1))

    def saw(self, transfer: int, other: int) -> bool:
        """Whether ``transfer`` needs ``other``, directly or not."""
        if self._bits:
            return bool(self._bits[transfer] >> other & 1)
        return self._depth[other] < self._depth[transfer]


def ordered(messages: Sequence[Message], history: History, start: Sequence[int], finish: Sequence[int]) -> list[Event]:
    """Return sends and receives in an order that respects what each message carries.

    Parameters
    ----------
    start, finish
        When transfers begin and end, in ticks; by transfer.

    Raises
    ------
    Unorderable
        When messages wait for one another.
    InvalidInput
        When a slot is sent in states that its writes do not go through in any order.
    """
    reads: dict[tuple[int, int], list[int]] = defaultdict(list)
    writes: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, one in enumerate(messages):
        for piece in one.pieces:
            reads[one.source, piece].append(number)
            writes[one.target, piece].append(number)
    follow: list[set[int]] = [set() for _ in range(2 * len(messages))]  # event 2m: message m is sent, 2m + 1: received
    for number in range(len(messages)):
        follow[2 * number].add(2 * number + 1)
    for slot, rows in writes.items():
        rows.sort(key=lambda row: (finish[messages[row].transfer], messages[row].transfer))
        readers = reads.get(slot, ())
        states = {r: [history.saw(messages[r].transfer, messages[w].transfer) for w in rows] for r in readers}
        if any(seen != sorted(seen, reverse=True) for seen in states.values()):
            seen_by = {w: sum(seen[k] for seen in states.values()) for k, w in enumerate(rows)}
            rows.sort(key=lambda row: -seen_by[row])
            states = {r: [history.saw(messages[r].transfer, messages[w].transfer) for w in rows] for r in readers}
            if any(seen != sorted(seen, reverse=True) for seen in states.values()):
                raise InvalidInput(
                    f"export: rank {slot[0]} sends piece {slot[1]} in states that no order of what arrives there goes "
                    "through: choose another planner"
                )
        for before, after in itertools.pairwise(rows):
            follow[2 * before + 1].add(2 * after + 1)
        for reader, seen in states.items():
            state = sum(seen)
            if state:
                follow[2 * rows[state - 1] + 1].add(2 * reader)
            if state < len(rows):
                follow[2 * reader].add(2 * rows[state] + 1)
    return _listed(messages, follow, start, finish)


def _listed(
    messages: Sequence[Message], follow: list[set[int]], start: Sequence[int], finish: Sequence[int]
) -> list[Event]:
    left = [0] * len(follow)
    for after in follow:
        for event in after:
            left[event] += 1
    line: dict[tuple[int, int], deque[int]] = defaultdict(deque)
    arrived: set[int] = set()
    ready: list[tuple[int, int, int]] = []

    def push(event: int) -> None:
        one = messages[event // 2]
        time = finish[one.transfer] if event % 2 else start[one.transfer]
        heapq.heappush(ready, (time, one.transfer, event))

    for event, count in enumerate(left):
        if not count:
            push(event)
    found: list[Event] = []
    while ready:
        _, _, event = heapq.heappop(ready)
        one = messages[event // 2]
        queue = line[one.source, one.target]
        if event % 2:
            if queue[0] != event:  # its turn comes when those sent before it have been received
                arrived.add(event)
                continue
            queue.popleft()
            if queue and queue[0] in arrived:
                push(queue[0])
        else:
            queue.append(event + 1)
        found.append(Event(event // 2, not event % 2))
        for other in follow[event]:
            left[other] -= 1
            if not left[other]:
                push(other)
    if len(found) < len(follow):
        raise Unorderable
    return found
