"""Messages as actions of ranks: sends fused with the receives whose result they pass on, and places for what is kept.

A rank's slot is where its input has it until something arrives; from then on it is in the output, if it belongs there, or
in scratch. Input is never written, so a program is right in place and out of place if it is ordered as in place.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from fabric_plan.planner.export.order import Event
from fabric_plan.planner.export.pieces import Layout, Message, Place

Connection = tuple[int, int, int]
"""Source rank, target rank, channel."""


@dataclass(eq=False, slots=True)
class Action:
    """What a thread block does in one step.

    Parameters
    ----------
    receive, send
        Connections, or None.
    adds, keeps
        Whether what arrives is added to what is there, and whether the result is written.
    source, target
        Where it reads and writes; None: it does not.
    """

    rank: int
    pieces: range
    receive: Connection | None = None
    send: Connection | None = None
    adds: bool = False
    keeps: bool = True
    source: Place | None = None
    target: Place | None = None
    number: int = -1
    """Its place in the order of its rank."""

    @property
    def kind(self) -> str:
        """The name of the step."""
        if self.receive is None:
            return "cpy" if self.send is None else "s"
        if not self.adds:
            return "r" if self.send is None else "rcs"
        if self.send is None:
            return "rrc"
        return "rrcs" if self.keeps else "rrs"


class Broken(Exception):
    """Messages whose pieces do not lie side by side at one of their ends."""

    def __init__(self, messages: set[int]) -> None:
        super().__init__(messages)
        self.messages = messages


@dataclass
class Actions:
    """All actions, rank by rank in an order that they can run in, scratch by rank, and which connections meet in a block."""

    of_rank: list[list[Action]]
    scratch: list[int]
    joined: dict[Connection, Connection] = field(default_factory=dict)


def actions_of(
    layout: Layout, messages: Sequence[Message], events: Sequence[Event], channel: Sequence[int], *, fuse: bool
) -> Actions:
    """Return what each rank does.

    Parameters
    ----------
    channel
        Of each message.
    fuse
        Whether receives and sends become one step where they can.

    Raises
    ------
    Broken
        When pieces of a message do not lie side by side.
    """
    follow, joined = _fused(messages, events, channel) if fuse else ({}, {})
    taken = set(follow.values())
    ends = [(one.source, one.target, channel[number]) for number, one in enumerate(messages)]
    drops = _dropped(layout, messages, events, follow)
    of_rank: list[list[Action]] = [[] for _ in range(layout.ranks)]
    message_of: dict[int, tuple[int, ...]] = {}
    if layout.pattern in ("all-gather", "all-to-all"):
        _copies(layout, of_rank)
    for event in events:
        one = messages[event.message]
        if event.send:
            if event.message in taken:
                continue
            action = Action(one.source, one.pieces, send=ends[event.message])
            message_of[id(action)] = (event.message,)
        else:
            action = Action(one.target, one.pieces, receive=ends[event.message], adds=one.reduce)
            message_of[id(action)] = (event.message,)
            if event.message in follow:
                action.send = ends[follow[event.message]]
                action.keeps = event.message not in drops
                message_of[id(action)] = (event.message, follow[event.message])
        of_rank[action.rank].append(action)
    if layout.pattern == "broadcast":
        _copies(layout, of_rank)
    broken: set[int] = set()
    scratch = []
    for rank, actions in enumerate(of_rank):
        scratch.append(_places(layout, rank, actions, message_of, broken))
    if broken:
        raise Broken(broken)
    return Actions(of_rank, scratch, joined)


def _copies(layout: Layout, of_rank: list[list[Action]]) -> None:
    """Add copies of what a rank has and keeps, at the end of its order so far."""
    for rank in range(layout.ranks) if layout.pattern != "broadcast" else (0,):
        if layout.pattern == "broadcast":
            first, count = 0, layout.pieces
        elif layout.pattern == "all-gather":
            first, count = rank * layout.each, layout.each
        else:
            first, count = (rank * layout.ranks + rank) * layout.each, layout.each
        for start in range(first, first + count, 71):
            of_rank[rank].append(Action(rank, range(start, min(start + 71, first + count))))


def _fused(
    messages: Sequence[Message], events: Sequence[Event], channel: Sequence[int]
) -> tuple[dict[int, int], dict[Connection, Connection]]:
    """Return the message that passes each received one on in the same step, and which connections share a block for it."""
    latest: dict[tuple[int, int], int] = {}  # who wrote a slot last
    position: dict[int, int] = {}
    last_send: dict[Connection, int] = {}
    candidates: dict[int, list[int]] = defaultdict(list)
    for place, event in enumerate(events):
        one = messages[event.message]
        if not event.send:
            position[event.message] = place
            for piece in one.pieces:
                latest[one.target, piece] = event.message
            continue
        line = one.source, one.target, channel[event.message]
        writer = latest.get((one.source, one.first))
        # A send moves forward to the receive, so no other may stand between them on its connection.
        if (
            writer is not None
            and messages[writer].pieces == one.pieces
            and channel[writer] == channel[event.message]
            and all(latest.get((one.source, piece)) == writer for piece in one.pieces)
            and last_send.get(line, -1) < position[writer]
        ):
            candidates[writer].append(event.message)
        last_send[line] = place
    votes: Counter[tuple[Connection, Connection]] = Counter()

    def line_of(number: int) -> Connection:
        return messages[number].source, messages[number].target, channel[number]

    for writer, senders in candidates.items():
        votes.update({(line_of(writer), line_of(sender)) for sender in senders})
    joined: dict[Connection, Connection] = {}
    used: set[Connection] = set()
    for (inside, outside), _ in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        if inside not in joined and outside not in used:
            joined[inside] = outside
            used.add(outside)
    follow = {}
    for writer, senders in candidates.items():
        found = next((sender for sender in senders if joined.get(line_of(writer)) == line_of(sender)), None)
        if found is not None:
            follow[writer] = found
    return follow, joined


def _dropped(layout: Layout, messages: Sequence[Message], events: Sequence[Event], follow: dict[int, int]) -> set[int]:
    """Return received messages whose sums need not be kept: only the send that they are fused with reads them."""
    reads: dict[tuple[int, int], set[int]] = defaultdict(set)  # of a slot, since the last write
    latest: dict[tuple[int, int], int] = {}
    kept: set[int] = set()

    def close(slot: tuple[int, int], *, needed: bool) -> None:
        writer = latest.get(slot)
        if writer is not None and (needed or reads[slot] != {follow.get(writer)}):
            kept.add(writer)

    for event in events:
        one = messages[event.message]
        for piece in one.pieces:
            slot = (one.source if event.send else one.target), piece
            if event.send:
                reads[slot].add(event.message)
            else:
                close(slot, needed=one.reduce)
                latest[slot] = event.message
                reads[slot] = set()
    for slot in latest:
        close(slot, needed=layout.asked(*slot))
    return {writer for writer in follow if messages[writer].reduce and writer not in kept}


def _places(
    layout: Layout, rank: int, actions: list[Action], message_of: dict[int, tuple[int, ...]], broken: set[int]
) -> int:
    """Give the actions of a rank their places, and return its scratch; messages that have none in one piece are added."""
    relayed = {
        piece
        for one in actions
        if one.receive is not None and one.keeps
        for piece in one.pieces
        if not layout.asked(rank, piece)
    }
    scratch = {piece: ("s", k) for k, piece in enumerate(sorted(relayed))}
    written: set[int] = set()

    def home(piece: int) -> Place:
        return layout.output(rank, piece) if layout.asked(rank, piece) else scratch[piece]

    def there(piece: int) -> Place | None:
        if piece in written:
            return home(piece)
        return layout.input(rank, piece) if layout.has(rank, piece) else None

    for number, one in enumerate(actions):
        one.number = number
        if one.adds and any(there(piece) is None for piece in one.pieces):
            if any(there(piece) is not None for piece in one.pieces):
                broken.update(message_of[id(one)])
                continue
            one.adds = False  # to nothing
            one.keeps = True
            if not layout.asked(rank, one.pieces[0]) and one.pieces[0] not in scratch:
                broken.update(message_of[id(one)])
                continue
        reads = one.receive is None or one.adds
        if reads:
            found = [there(piece) for piece in one.pieces]
            if None in found or not _side_by_side(found):
                broken.update(message_of.get(id(one), ()))
                continue
            one.source = found[0]
        if one.keeps and (one.receive is not None or one.send is None):
            places: list[Place | None] = [home(piece) for piece in one.pieces]
            if not _side_by_side(places):
                broken.update(message_of.get(id(one), ()))
                continue
            one.target = places[0]
            written.update(one.pieces)
    return len(relayed)


def _side_by_side(places: Sequence[Place | None]) -> bool:
    first = places[0]
    assert first is not None
    return all(one == (first[0], first[1] + k) for k, one in enumerate(places))
