"""One pass in the order of numbers, where that is the order in which every link serves.

First come, first served has exactly one outcome: with positive durations, what a link serves up to any time follows from
what happened before. So times that follow from the program's own order are the outcome, if on each link they turn out
to be in the order of readiness; the pass checks that as it goes, and gives up at the first hop that would overtake.
"""

from __future__ import annotations

from typing import Any


def sweep(
    hop_start: Any,
    hop_link: Any,
    hop_parent: Any,
    size: Any,
    rate: Any,
    latency: Any,
    need_start: Any,
    need: Any,
    release: Any,
    after: Any,
    cut: bool,
    start: Any,
    tail: Any,
    finish: Any,
    free: Any,
    came: Any,
) -> bool:
    """Fill ``start`` (by hop), ``finish`` (by transfer) and, cut-through, ``tail`` (arrival by hop); False: given up.

    ``free`` and ``came`` (by link) start at 0: when the link is free again, and when its last hop became ready. Empty
    ``release`` and ``after`` stand for zeros.
    """
    released, delayed = len(release) > 0, len(after) > 0
    for transfer in range(len(finish)):
        begin = release[transfer] if released else 0
        for k in range(need_start[transfer], need_start[transfer + 1]):
            before = need[k]
            if before >= transfer:
                return False
            if finish[before] > begin:
                begin = finish[before]
        end = begin
        for hop in range(hop_start[transfer], hop_start[transfer + 1]):
            link = hop_link[hop]
            parent = hop_parent[hop]
            ready = begin
            least = 0
            if parent >= 0:
                above = hop_link[parent]
                if cut:
                    ready = start[parent] + latency[above]
                    least = tail[parent]
                else:
                    ready = start[parent] + size[parent] * rate[above] + latency[above]
            if ready < came[link]:
                return False
            came[link] = ready
            now = ready if ready > free[link] else free[link]
            start[hop] = now
            now += size[hop] * rate[link]
            if now < least:
                now = least
            free[link] = now
            now += latency[link]
            if cut:
                tail[hop] = now
            if now > end:
                end = now
        finish[transfer] = end + after[transfer] if delayed else end
    return True
