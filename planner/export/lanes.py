"""Messages as items of lanes: pieces that never meet run beside one another, each lane in order at every rank.

A message is put straight into its place if its sender knows that the receiver is done with what was there; otherwise
into a place of its own in the receiver's scratch, from which the receiver takes it. A rank that has not heard from
another one in this lane waits for its hello before it writes there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from fabric_plan.planner.export.order import Event
from fabric_plan.planner.export.pieces import Layout, Message, Place
from fabric_plan.planner.export.steps import Broken


@dataclass(slots=True)
class Item:
    """A message at one of its ends.

    Parameters
    ----------
    place
        Where it lies at the sender, before it is sent; or where it belongs at the receiver.
    base
        What it is added to; None: it replaces.
    landing
        Where the sender writes it: at the receiver.
    hello
        Whether the sender waits for the receiver's hello.
    """

    message: int
    send: bool
    place: Place
    base: Place | None
    landing: Place
    hello: bool


def place_of(layout: Layout, rank: int, piece: int, scratch: dict[int, int] | None) -> Place:
    """Return where a slot lies; ``scratch``: of slots that something arrived in and that are not the rank's output, None before."""
    pattern = layout.pattern
    if pattern == "all-gather":
        return "o", piece
    if pattern in ("all-reduce", "broadcast", "reduce-scatter"):
        return "i", piece
    if scratch is None:
        return layout.input(rank, piece)
    if pattern == "reduce" and rank == 0:
        return "i", piece
    return layout.output(rank, piece) if layout.asked(rank, piece) else ("s", scratch[piece])


def lanes_of(layout: Layout, messages: Sequence[Message], most: int) -> list[int]:
    """Return the lane of each message: pieces of one message share one, and every rank's work is spread over ``most`` at most."""
    parent = list(range(layout.pieces))

    def find(piece: int) -> int:
        while parent[piece] != piece:
            parent[piece] = parent[parent[piece]]
            piece = parent[piece]
        return piece

    for one in messages:
        for piece in one.pieces:
            parent[find(piece)] = find(one.first)
    work: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for one in messages:
        atom = work[find(one.first)]
        atom[one.source] += 1
        atom[one.target] += 1
    loads = [[0] * layout.ranks for _ in range(min(most, max(1, len(work))))]
    lane: dict[int, int] = {}
    for root, ranks in sorted(work.items()):
        best = min(range(len(loads)), key=lambda k: max(loads[k][rank] + more for rank, more in ranks.items()))
        lane[root] = best
        for rank, more in ranks.items():
            loads[best][rank] += more
    return [lane[find(one.first)] for one in messages]


def items_of(
    layout: Layout, messages: Sequence[Message], events: Sequence[Event], lane: Sequence[int]
) -> tuple[dict[tuple[int, int], list[Item]], list[int]]:
    """Return (items by rank and lane, in order; scratch of each rank).

    Raises
    ------
    Broken
        When pieces of a message do not lie side by side.
    """
    kept = _kept(layout, messages)
    written: set[tuple[int, int]] = set()
    size = [len(one) for one in kept]
    items: dict[tuple[int, int], list[Item]] = defaultdict(list)
    known: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)
    when: dict[tuple[int, int], int] = {}  # by message and rank: which of the rank's items it is
    sent: dict[int, tuple[dict[int, int], Item]] = {}
    previous = _previous(messages, events)

    def there(rank: int, piece: int) -> Place:
        return place_of(layout, rank, piece, kept[rank] if (rank, piece) in written else None)

    def run(number: int, places: list[Place]) -> Place:
        if any(one != (places[0][0], places[0][1] + k) for k, one in enumerate(places)):
            raise Broken({number})
        return places[0]

    for event in events:
        number, one = event.message, messages[event.message]
        key = (one.source if event.send else one.target), lane[number]
        clock, index = known[key], len(items[key]) + 1
        if event.send:
            place = run(number, [there(one.source, piece) for piece in one.pieces])
            heard = clock.get(one.target, -1)
            home = run(number, [place_of(layout, one.target, piece, kept[one.target]) for piece in one.pieces])
            # Whoever touches the slot before this arrives must have done so already, as far as the sender has heard.
            before = [previous[number, piece] for piece in one.pieces]
            free = all(other is None or when.get((other, one.target), heard + 1) <= heard for other in before)
            if free and not one.reduce:
                landing = home
            else:
                landing = "s", size[one.target]
                size[one.target] += one.count
            item = Item(number, True, place, None, landing, hello=heard < 0)
            if heard < 0:
                clock[one.target] = 0
            items[key].append(item)
            sent[number] = {**clock, one.source: index}, item
        else:
            clock_then, item = sent[number]
            for rank, value in clock_then.items():
                clock[rank] = max(clock.get(rank, -1), value)
            base = run(number, [there(one.target, piece) for piece in one.pieces]) if one.reduce else None
            home = run(number, [place_of(layout, one.target, piece, kept[one.target]) for piece in one.pieces])
            items[key].append(Item(number, False, home, base, item.landing, hello=item.hello))
            written.update((one.target, piece) for piece in one.pieces)
        when[number, key[0]] = index
    return items, size


def _kept(layout: Layout, messages: Sequence[Message]) -> list[dict[int, int]]:
    """Return for each rank the scratch of pieces that it passes on and does not keep."""
    found: list[set[int]] = [set() for _ in range(layout.ranks)]
    if layout.pattern in ("reduce", "all-to-all"):
        for one in messages:
            found[one.target].update(piece for piece in one.pieces if not layout.asked(one.target, piece))
    return [{piece: k for k, piece in enumerate(sorted(one))} for one in found]


def _previous(messages: Sequence[Message], events: Sequence[Event]) -> dict[tuple[int, int], int | None]:
    """Return by message and piece who touches the target's slot last before the message is received there."""
    latest: dict[tuple[int, int], int] = {}
    found: dict[tuple[int, int], int | None] = {}
    for event in events:
        one = messages[event.message]
        rank = one.source if event.send else one.target
        for piece in one.pieces:
            if not event.send:
                found[event.message, piece] = latest.get((rank, piece))
            latest[rank, piece] = event.message
    return found
