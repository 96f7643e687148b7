"""First come, first served, event by event; events of equal time share a bucket.

Once all hops that become ready at a time are known, when each is served follows at once: the link is free from a known
time on. So an event is an arrival (or, cut-through, the arrival of a head, or the end of a receiver's delay), and links
need no queues. Collectives repeat few distinct times, so that a heap of times with a bucket each is much shorter than a
heap of events.

Codes of events: the tail of hop h arrives: h; its head arrives (cut-through): H + h; transfer t finishes: 2H + t.
"""

from __future__ import annotations

import heapq


def events_plain(
    hop_start: list[int],
    hop_link: list[int],
    children: list[list[int]] | None,
    hop_parent: list[int],
    size: list[int],
    rate: list[int],
    latency: list[int],
    waiting: list[int],
    dependents: list[list[int]],
    release: list[int],
    after: list[int],
    cut: bool,
    start: list[int],
    tail: list[int],
    finish: list[int],
    free: list[int],
) -> None:
    """Fill ``start``, ``tail`` (by hop) and ``finish`` (by transfer), which come filled with -1.

    ``waiting`` counts the needs of each transfer, ``dependents`` lists who needs it; ``children`` lists the hops after
    each hop, None where no hop has any.
    """
    hops, transfers = len(hop_link), len(finish)
    owner = [t for t in range(transfers) for _ in range(hop_start[t], hop_start[t + 1])]
    left = [hop_start[t + 1] - hop_start[t] for t in range(transfers)]
    buckets: dict[int, list[int]] = {}
    times: list[int] = []

    def at(time: int, code: int) -> None:
        bucket = buckets.get(time)
        if bucket is None:
            buckets[time] = [code]
            heapq.heappush(times, time)
        else:
            bucket.append(code)

    begun: list[int] = []  # transfers whose needs are met

    def settle(now: int, ready: list[int]) -> None:
        while begun:
            transfer = begun.pop()
            if release and release[transfer] > now:
                at(release[transfer], 2 * hops + transfers + transfer)
                continue
            first, last = hop_start[transfer], hop_start[transfer + 1]
            if first == last:
                end(transfer, now)
            elif children is None:
                ready.extend(range(first, last))
            else:
                ready.extend(hop for hop in range(first, last) if hop_parent[hop] < 0)

    def end(transfer: int, now: int) -> None:
        if after and after[transfer]:
            at(now + after[transfer], 2 * hops + transfer)
        else:
            done(transfer, now)

    def done(transfer: int, now: int) -> None:
        finish[transfer] = now
        for dependent in dependents[transfer]:
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                begun.append(dependent)

    ready: list[int] = []
    begun.extend(t for t in range(transfers) if waiting[t] == 0)
    now = 0
    settle(now, ready)
    while True:
        ready.sort()
        place = 0
        while place < len(ready):
            hop = ready[place]
            place += 1
            link = hop_link[hop]
            begin = now if now > free[link] else free[link]
            start[hop] = begin
            finished = begin + size[hop] * rate[link]
            if cut and hop_parent[hop] >= 0 and finished < tail[hop_parent[hop]]:
                finished = tail[hop_parent[hop]]
            free[link] = finished
            finished += latency[link]
            tail[hop] = finished
            at(finished, hop)
            if cut and children is not None and children[hop]:
                head = begin + latency[link]
                if head == now:
                    # Children have larger numbers, so they belong among those that are still to be served.
                    ready[place:] = sorted(ready[place:] + children[hop])
                else:
                    at(head, hops + hop)
        if not times:
            return
        now = heapq.heappop(times)
        ready = []
        # A receiver's delay of zero ends in the same bucket; nothing else can fall into the bucket being emptied.
        for code in buckets.pop(now):
            if code < hops:
                if children is not None and not cut:
                    ready.extend(children[code])
                transfer = owner[code]
                left[transfer] -= 1
                if left[transfer] == 0:
                    end(transfer, now)
            elif code < 2 * hops:
                assert children is not None
                ready.extend(children[code - hops])
            elif code < 2 * hops + transfers:
                done(code - 2 * hops, now)
            else:
                begun.append(code - 2 * hops - transfers)
        settle(now, ready)
