"""Values as random linear fingerprints, for programs whose exact multisets would pass the memory budget.

Every contribution has two random numbers below the prime 2^61 - 1, independent of one another; a value is the pair of its contributions'
sums. Equal multisets have equal pairs; two that differ have the same pair with a chance of about 2^-122.
"""

from __future__ import annotations

import random

from fabric_plan.planner.threads.data import UNWRITTEN, Values

PRIME = (1 << 61) - 1
SEED = 20_250_811


class Fingerprints(Values):
    """Values by number, as :class:`fabric_plan.planner.threads.data.Values` has them, of pairs of sums."""

    def __init__(self, ranks: int, pieces: int) -> None:
        super().__init__(ranks, pieces)
        self._random = random.Random(SEED)
        self._prints: dict[int, tuple[int, int]] = {}

    def _print(self, part: int) -> tuple[int, int]:
        found = self._prints.get(part)
        if found is None:
            found = self._prints[part] = self._random.randrange(1, PRIME), self._random.randrange(1, PRIME)
        return found

    def one(self, rank: int, chunk: int) -> int:
        """Return the value of one contribution."""
        return super().of(self._print(rank * self.pieces + chunk))

    def _pair(self, parts: tuple[int, ...]) -> tuple[int, int]:
        pairs = [self._print(part) for part in parts]
        return sum(a for a, _ in pairs) % PRIME, sum(b for _, b in pairs) % PRIME

    def find(self, parts: tuple[int, ...]) -> int:
        """Return the number of a multiset of contributions; -1 where nothing has had its sum."""
        return super().find(self._pair(parts))

    def add(self, a: int, b: int) -> int:
        """Return the sum of two values."""
        if a == UNWRITTEN or b == UNWRITTEN:
            return UNWRITTEN
        key = (a, b) if a < b else (b, a)
        found = self._sums.get(key)
        if found is None:
            one, two = self.parts[a], self.parts[b]
            found = super().of(((one[0] + two[0]) % PRIME, (one[1] + two[1]) % PRIME))
            self._sums[key] = found
        return found

    def told(self, value: int, most: int = 6) -> str:
        """Return a value for a reader, which a fingerprint does not name."""
        return "data that nobody wrote" if value == UNWRITTEN else "another sum"


class Slice(Values):
    """Exact values of the contributions to one chunk only; all others are left out."""

    def __init__(self, ranks: int, pieces: int, chunk: int) -> None:
        super().__init__(ranks, pieces)
        self.chunk = chunk

    def one(self, rank: int, chunk: int) -> int:
        """Return the value of one contribution: nothing, but written, where it is to another chunk."""
        return self.of((rank * self.pieces + chunk,) if chunk == self.chunk else ())
