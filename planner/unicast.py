"""Words for unicast flows on Fred_2(P): the looping algorithm, level by level.

Two middle networks are enough for any matching of inputs to outputs: at each level a flow shares its input micro-switch with
at most one other and its output micro-switch with at most one other, so the flows form paths and even cycles, which two
letters colour alternately (Opferman and Tsao-Wu 1971; FRED paper, section 5.1, for the switch).
"""

from __future__ import annotations

from collections.abc import Sequence

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fred import Word, levels


def unicast_words(pairs: Sequence[tuple[int, int]], ports: int) -> list[Word]:
    """Return a word of letters 0 and 1 for each (input, output) pair, such that no two flows need one wire.

    Raises
    ------
    InvalidInput
        When an input or an output is named twice, or is no port of the switch.
    """
    for side, name in ((0, "input"), (1, "output")):
        seen: set[int] = set()
        for pair in pairs:
            if not 0 <= pair[side] < ports:
                raise InvalidInput(
                    f"unicast: {name} {pair[side]} is no port of a switch of {ports}: use 0 to {ports - 1}"
                )
            if pair[side] in seen:
                raise InvalidInput(f"unicast: {name} {pair[side]} is named twice: give a matching, one flow a port")
            seen.add(pair[side])
    words: list[list[int]] = [[] for _ in pairs]
    groups = [[(index, source, target) for index, (source, target) in enumerate(pairs)]]
    for _ in range(levels(ports)):
        inner = []
        for group in groups:
            letters = _loop(group)
            for index, letter in letters.items():
                words[index].append(letter)
            for middle in (0, 1):
                inner.append([(k, a >> 1, b >> 1) for k, a, b in group if letters[k] == middle])
        groups = inner
    return [tuple(word) for word in words]


def _loop(flows: Sequence[tuple[int, int, int]]) -> dict[int, int]:
    """Return a letter for each flow (number, input, output); flows that share a micro-switch differ."""
    at: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    for index, source, target in flows:
        at[0].setdefault(source >> 1, []).append(index)
        at[1].setdefault(target >> 1, []).append(index)
    beside: dict[int, list[int]] = {index: [] for index, _, _ in flows}
    for side in at:
        for members in side.values():
            if len(members) == 2:
                beside[members[0]].append(members[1])
                beside[members[1]].append(members[0])
    letters: dict[int, int] = {}
    for start in beside:
        if start in letters:
            continue
        letters[start] = 0
        follow = [start]
        while follow:
            one = follow.pop()
            for other in beside[one]:
                if other not in letters:
                    letters[other] = 1 - letters[one]
                    follow.append(other)
    return letters
