"""Permutations of ranks that keep a graph and move every rank: what makes one root's trees do for all.

Ranks are numbered by place on most fabrics (row-major on a torus, box by box in a cluster), so candidates are shifts of one digit of the
rank's number in some mixed radix, and for powers of two exclusive-ors. What keeps the widths is kept; the group that they make acts
freely, since every shift but the identity moves every rank.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Permutation = NDArray[np.int64]


def free_group(weights: NDArray[np.float64] | NDArray[np.int64]) -> list[Permutation]:
    """Return a group of permutations that keep a matrix and act freely, the identity first; as large a one as is found.

    Parameters
    ----------
    weights
        Shape (ranks, ranks).
    """
    ranks = len(weights)
    identity = np.arange(ranks)
    best = [identity]
    for sides in _radices(ranks):
        generators = []
        for axis, side in enumerate(sides):
            shift = np.roll(identity.reshape(sides), -1, axis=axis).ravel()
            power, step = shift, 1
            # A digit may only be shifted by a divisor of its side (boxes in pairs, say).
            while step < side and not _keeps(weights, power):
                step += 1
                power = shift[power]
            if step < side and side % step == 0:
                generators.append((power, side // step))
        size = int(np.prod([order for _, order in generators], dtype=np.int64))
        if size > len(best):
            best = _closed(identity, generators)
        if len(best) == ranks:
            return best
    if ranks & (ranks - 1) == 0:
        masks = [mask for mask in range(1, ranks) if _keeps(weights, identity ^ mask)]
        if len(masks) + 1 > len(best):
            best = [identity, *(identity ^ mask for mask in masks)]
    return best


def _keeps(weights: NDArray[np.float64] | NDArray[np.int64], permutation: Permutation) -> bool:
    return bool((weights[np.ix_(permutation, permutation)] == weights).all())


def _closed(identity: Permutation, generators: list[tuple[Permutation, int]]) -> list[Permutation]:
    found = [identity]
    for generator, order in generators:
        powers = [identity]
        for _ in range(order - 1):
            powers.append(generator[powers[-1]])
        found = [one[power] for power in powers for one in found]
    return found


def _radices(ranks: int, least: int = 2) -> Iterator[tuple[int, ...]]:
    """Yield the ordered factorisations of a number: the number alone first."""
    if ranks == 1:
        return
    yield (ranks,)
    for side in range(least, ranks // 2 + 1):
        if ranks % side == 0:
            for rest in _radices(ranks // side):
                yield (side, *rest)
