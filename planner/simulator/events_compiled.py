"""What :func:`fabric_plan.planner.simulator.events.events_plain` does, on arrays and compiled.

Imports the compiler: load it only for large problems. Codes of events are as there. A time may have several buckets
(only the newest is found again, by a small cache from time to bucket); all buckets of a time are emptied together.
"""

from __future__ import annotations

from typing import Any

from numba import njit

HEAP, BUCKETS, SPARES = 0, 1, 2
"""Places in ``state``: entries in the heap, buckets ever made, buckets to be used again."""


@njit(cache=True, nogil=True)
def _slot(time: Any, mask: Any) -> Any:
    return ((time * 0x9E3779B1) >> 12) & mask


@njit(cache=True, nogil=True, inline="never")
def _open(
    time: Any,
    code: Any,
    slot: Any,
    state: Any,
    ends: Any,
    spare: Any,
    heap_time: Any,
    heap_bucket: Any,
    slot_time: Any,
    slot_bucket: Any,
) -> None:
    """Make a new bucket that holds one event, and put it on the heap of times."""
    if state[SPARES] > 0:
        state[SPARES] -= 1
        bucket = spare[state[SPARES]]
    else:
        bucket = state[BUCKETS]
        state[BUCKETS] += 1
    ends[bucket, 0] = code
    ends[bucket, 1] = code
    slot_time[slot] = time
    slot_bucket[slot] = bucket
    place = state[HEAP]
    state[HEAP] += 1
    while place > 0:
        above = (place - 1) >> 1
        if heap_time[above] <= time:
            break
        heap_time[place] = heap_time[above]
        heap_bucket[place] = heap_bucket[above]
        place = above
    heap_time[place] = time
    heap_bucket[place] = bucket


@njit(cache=True, nogil=True, inline="never")
def _push(
    time: Any,
    code: Any,
    following: Any,
    state: Any,
    ends: Any,
    spare: Any,
    heap_time: Any,
    heap_bucket: Any,
    slot_time: Any,
    slot_bucket: Any,
) -> None:
    """Put an event at the end of its time's bucket."""
    slot = _slot(time, len(slot_time) - 1)
    if slot_time[slot] == time:
        bucket = slot_bucket[slot]
        following[ends[bucket, 1]] = code
        ends[bucket, 1] = code
    else:
        _open(time, code, slot, state, ends, spare, heap_time, heap_bucket, slot_time, slot_bucket)
    following[code] = -1


@njit(cache=True, nogil=True)
def events(
    hop_start: Any,
    hop_link: Any,
    hop_parent: Any,
    size: Any,
    rate: Any,
    latency: Any,
    relayed: bool,
    child: Any,
    sibling: Any,
    waiting: Any,
    dependent_start: Any,
    dependent: Any,
    release: Any,
    after: Any,
    cut: bool,
    owner: Any,
    left: Any,
    start: Any,
    tail: Any,
    finish: Any,
    free: Any,
    stamp: Any,
    newest: Any,
    following: Any,
    ends: Any,
    spare: Any,
    heap_time: Any,
    heap_bucket: Any,
    slot_time: Any,
    slot_bucket: Any,
    ready: Any,
    begun: Any,
    state: Any,
) -> None:
    """Fill ``start`` (by hop) and ``finish`` (by transfer).

    ``child`` and ``sibling`` chain the hops after each hop; ``owner`` is the transfer of each hop, empty where each
    transfer is one hop; ``left`` counts the hops of each transfer that have not arrived. ``following`` chains the events
    of a bucket, ``ends`` has the first and last of each.
    """
    hops, transfers = len(hop_link), len(finish)
    single = len(owner) == 0
    released, delayed = len(release) > 0, len(after) > 0
    mask = len(slot_time) - 1
    batch = 0
    count = 0  # of hops ready now
    waits = 0  # of transfers begun now
    now = 0
    for transfer in range(transfers):
        if waiting[transfer] == 0:
            begun[waits] = transfer
            waits += 1
    while True:
        # 1. Begin the transfers whose needs are met.
        while waits > 0:
            waits -= 1
            transfer = begun[waits]
            first, last = hop_start[transfer], hop_start[transfer + 1]
            if released and release[transfer] > now:
                time, code = release[transfer], 2 * hops + transfers + transfer
                _push(time, code, following, state, ends, spare, heap_time, heap_bucket, slot_time, slot_bucket)
            elif first == last:
                if delayed and after[transfer] > 0:
                    time, code = now + after[transfer], 2 * hops + transfer
                    _push(time, code, following, state, ends, spare, heap_time, heap_bucket, slot_time, slot_bucket)
                else:
                    finish[transfer] = now
                    for k in range(dependent_start[transfer], dependent_start[transfer + 1]):
                        other = dependent[k]
                        waiting[other] -= 1
                        if waiting[other] == 0:
                            begun[waits] = other
                            waits += 1
            else:
                for hop in range(first, last):
                    if not relayed or hop_parent[hop] < 0:
                        ready[count] = hop
                        count += 1
        # 2. Serve the hops that became ready now, in the order of their numbers wherever they meet on a link.
        batch += 1
        mixed = cut and relayed
        if not mixed:
            for k in range(count):
                hop = ready[k]
                link = hop_link[hop]
                if stamp[link] == batch and newest[link] > hop:
                    mixed = True
                    break
                stamp[link] = batch
                newest[link] = hop
        if mixed and count > 1:
            ready[:count].sort()
        served = 0
        while served < count:
            hop = ready[served]
            served += 1
            link = hop_link[hop]
            begin = max(free[link], now)
            start[hop] = begin
            end = begin + size[hop] * rate[link]
            if cut:
                if relayed and hop_parent[hop] >= 0 and end < tail[hop_parent[hop]]:
                    end = tail[hop_parent[hop]]
                tail[hop] = end + latency[link]
                if relayed and child[hop] >= 0:
                    time = begin + latency[link]
                    if time == now:
                        # Children have larger numbers, so they belong among those that are still to be served.
                        other = child[hop]
                        while other >= 0:
                            place = count
                            count += 1
                            while place > served and ready[place - 1] > other:
                                ready[place] = ready[place - 1]
                                place -= 1
                            ready[place] = other
                            other = sibling[other]
                    else:
                        _push(
                            time,
                            hops + hop,
                            following,
                            state,
                            ends,
                            spare,
                            heap_time,
                            heap_bucket,
                            slot_time,
                            slot_bucket,
                        )
            free[link] = end
            time = end + latency[link]
            slot = ((time * 0x9E3779B1) >> 12) & mask
            if slot_time[slot] == time:
                bucket = slot_bucket[slot]
                following[ends[bucket, 1]] = hop
                ends[bucket, 1] = hop
            else:
                _open(time, hop, slot, state, ends, spare, heap_time, heap_bucket, slot_time, slot_bucket)
            following[hop] = -1
        # 3. Empty every bucket of the next time.
        if state[HEAP] == 0:
            return
        now = heap_time[0]
        count = 0
        while state[HEAP] > 0 and heap_time[0] == now:
            emptied = heap_bucket[0]
            last_place = state[HEAP] - 1
            state[HEAP] = last_place
            time = heap_time[last_place]
            moved = heap_bucket[last_place]
            # Down to a leaf by the lesser children, without branching on them, then up: the last entry mostly stays low.
            place = 0
            below = 1
            while below + 1 < last_place:
                below += int(heap_time[below + 1] < heap_time[below])
                heap_time[place] = heap_time[below]
                heap_bucket[place] = heap_bucket[below]
                place = below
                below = 2 * place + 1
            if below < last_place:
                heap_time[place] = heap_time[below]
                heap_bucket[place] = heap_bucket[below]
                place = below
            while place > 0:
                above = (place - 1) >> 1
                if heap_time[above] <= time:
                    break
                heap_time[place] = heap_time[above]
                heap_bucket[place] = heap_bucket[above]
                place = above
            heap_time[place] = time
            heap_bucket[place] = moved
            slot = _slot(now, len(slot_time) - 1)
            if slot_bucket[slot] == emptied:
                slot_time[slot] = -1
            event = ends[emptied, 0]
            spare[state[SPARES]] = emptied
            state[SPARES] += 1
            while event >= 0:
                next_event = following[event]
                transfer = -1
                if event < hops:
                    if relayed and not cut:
                        other = child[event]
                        while other >= 0:
                            ready[count] = other
                            count += 1
                            other = sibling[other]
                    transfer = event
                    if not single:
                        transfer = owner[event]
                        left[transfer] -= 1
                        if left[transfer] > 0:
                            transfer = -1
                    if delayed and transfer >= 0 and after[transfer] > 0:
                        time, code = now + after[transfer], 2 * hops + transfer
                        _push(time, code, following, state, ends, spare, heap_time, heap_bucket, slot_time, slot_bucket)
                        transfer = -1
                elif event < 2 * hops:
                    other = child[event - hops]
                    while other >= 0:
                        ready[count] = other
                        count += 1
                        other = sibling[other]
                elif event < 2 * hops + transfers:
                    transfer = event - 2 * hops
                else:
                    begun[waits] = event - 2 * hops - transfers
                    waits += 1
                if transfer >= 0:
                    finish[transfer] = now
                    for k in range(dependent_start[transfer], dependent_start[transfer + 1]):
                        other = dependent[k]
                        waiting[other] -= 1
                        if waiting[other] == 0:
                            begun[waits] = other
                            waits += 1
                event = next_event
