"""Parts of an MSCCL++ plan: a rank's channels, remote buffers and thread blocks, with the numbers by which operations name them."""

from __future__ import annotations

from typing import Any

OPS, BLOCK_CHANNELS, OP_CHANNELS, SEMAPHORES = 64, 16, 8, 16
"""What the executor has room for: operations and channels of a block, channels of an operation, semaphores of a rank."""

MOST_BLOCKS = 216
"""Thread blocks of a rank that can run at once on today's GPUs (2 on each of 108 processors, or more)."""


class Rank:
    """A rank: what its blocks use, as the file lists it."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.blocks: list[Block] = []
        self.channels: dict[str, list[int]] = {"memory": [], "port": []}
        self.groups: list[tuple[str, tuple[int, ...]]] = []
        self.remote: dict[tuple[int, str], set[str]] = {}
        self.semaphores = 0

    def block(self) -> Block:
        """Add a thread block."""
        self.blocks.append(Block(self))
        return self.blocks[-1]

    def document(self, sizes: tuple[int, int, int]) -> dict[str, Any]:
        """Return the rank with buffers of so many pieces (input, output, scratch)."""
        channels: list[dict[str, Any]] = [
            {"channel_type": kind, "connected_to": peers} for kind, peers in self.channels.items() if peers
        ]
        for buffer in dict.fromkeys(buffer for buffer, _ in self.groups):
            groups = [{"size": len(ranks), "ranks": list(ranks)} for other, ranks in self.groups if other == buffer]
            channels.append({"channel_type": "switch", "buffer_type": buffer, "rank_groups": groups})
        return {
            "id": self.rank,
            "input_chunks": sizes[0],
            "output_chunks": sizes[1],
            "scratch_chunks": sizes[2],
            "threadblocks": [one.document(k) for k, one in enumerate(self.blocks)],
            "channels": channels,
            "remote_buffers": [
                {"rank": rank, "type": buffer, "access_channel_types": sorted(kinds)}
                for (rank, buffer), kinds in self.remote.items()
            ],
            "semaphores": [{"init_value": 0} for _ in range(self.semaphores)],
        }


class Block:
    """A thread block: operations, and its own numbers for channels and remote buffers."""

    def __init__(self, of: Rank) -> None:
        self.of = of
        self.ops: list[dict[str, Any]] = []
        self._channels: dict[str, list[int]] = {}
        self._remote: dict[str, list[tuple[int, str]]] = {}

    def channel(self, kind: str, number: int) -> int:
        """Return the block's number for a channel of the rank."""
        own = self._channels.setdefault(kind, [])
        if number not in own:
            own.append(number)
        return own.index(number)

    @property
    def channels(self) -> int:
        """How many channels it uses."""
        return sum(map(len, self._channels.values()))

    def there(self, kind: str, rank: int, buffer: str, index: int, size: int) -> dict[str, Any]:
        """Return pieces of another rank as an operand."""
        own = self._remote.setdefault(kind, [])
        if (rank, buffer) not in own:
            own.append((rank, buffer))
        self.of.remote.setdefault((rank, buffer), set()).add(kind)
        return {"buffer_id": own.index((rank, buffer)), "index": index, "size": size}

    def add(self, name: str, **rest: Any) -> None:
        """Append an operation."""
        self.ops.append({"name": name, **rest})

    def document(self, number: int) -> dict[str, Any]:
        """Return the block as the file has it."""
        listed = list(self.of.remote)
        return {
            "id": number,
            "ops": self.ops,
            "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in self._channels.items()],
            "remote_buffer_refs": [
                {"access_channel_type": kind, "remote_buffer_ids": [listed.index(one) for one in own]}
                for kind, own in self._remote.items()
            ],
        }


def here(buffer: str, index: int, size: int) -> dict[str, Any]:
    """Return pieces of the rank's own as an operand."""
    return {"type": buffer, "index": index, "size": size}


def plan_document(name: str, collective: str, gpus: list[dict[str, Any]], *, in_place: bool) -> dict[str, Any]:
    """Return a plan for any size."""
    return {
        "name": name,
        "collective": collective,
        "protocol": "Simple",
        "inplace": in_place,
        "reuse_resources": False,
        "gpus": gpus,
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": 2**64 - 1,
    }
