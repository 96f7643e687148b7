"""Chakra execution traces: the nodes of one rank, as far as sends, receives and what they wait for are concerned.

A trace is a sequence of length-delimited messages: metadata, then nodes. Source: the schema of MLCommons' Chakra, et_def.proto.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fabric_plan.planner.errors import InvalidInput

SEND, RECEIVE, COLLECTIVE = 5, 6, 7
MAX_NODES = 20_000_000
MAX_MESSAGE = 64 << 20
_NUMBERS = (
    ("int32_val", 7, 5),
    ("int64_val", 9, 3),
    ("uint32_val", 11, 13),
    ("uint64_val", 13, 4),
    ("bool_val", 27, 8),
)
"""Whole-number members of an attribute: name, number, and type as protocol buffers count them."""


@dataclass(frozen=True)
class TraceNode:
    """A node: its number, name, type, the nodes that it waits for, and its numeric attributes."""

    id: int
    name: str
    type: int
    needs: tuple[int, ...]
    attributes: dict[str, int]


@dataclass(frozen=True)
class Trace:
    """The trace of one rank."""

    rank: int
    version: str
    nodes: tuple[TraceNode, ...]


@cache
def _node_type() -> Any:
    """Return the message class of nodes; members that nobody asks for are left out, as the encoding allows."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="fabric_plan/et.proto", package="fabric_plan.et", syntax="proto3")

    def message(name: str, members: list[tuple[str, int, int, bool, str]]) -> None:
        one = file.message_type.add(name=name)
        for member, number, kind, repeated, of in members:
            field = one.field.add(name=member, number=number, type=kind, label=3 if repeated else 1)
            if of:
                field.type_name = f".fabric_plan.et.{of}"

    message(
        "Attribute",
        [("name", 1, 9, False, ""), *((n, k, t, False, "") for n, k, t in _NUMBERS), ("text", 29, 12, False, "")],
    )
    message("Metadata", [("version", 1, 12, False, ""), ("attr", 2, 11, True, "Attribute")])
    members = [("id", 1, 4, False, ""), ("name", 2, 12, False, ""), ("type", 3, 5, False, "")]
    needs = [("ctrl_deps", 4, 4, True, ""), ("data_deps", 5, 4, True, "")]
    message("Node", [*members, *needs, ("attr", 10, 11, True, "Attribute")])
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    classes = message_factory.GetMessageClassesForFiles(["fabric_plan/et.proto"], pool)
    return classes["fabric_plan.et.Node"], classes["fabric_plan.et.Metadata"]


def read_trace(data: bytes, rank: int = 0) -> Trace:
    """Read the trace of one rank.

    Raises
    ------
    InvalidInput
        When it is none, or is cut off; one line with the offset.
    """
    from google.protobuf.message import DecodeError

    node_type, metadata_type = _node_type()
    position, nodes, version = 0, [], ""
    while position < len(data):
        start = position
        size, position = _varint(data, position)
        if size > MAX_MESSAGE or position + size > len(data):
            raise InvalidInput(
                f"byte {start}: a message of {size:,} bytes, of which {len(data) - position:,} are there: cut off, or no Chakra trace"
            )
        body = data[position : position + size]
        position += size
        try:
            if start == 0:
                version = metadata_type.FromString(body).version.decode("utf-8", "replace")
                continue
            node = node_type.FromString(body)
        except DecodeError:
            raise InvalidInput(f"byte {start}: not a node of a Chakra trace") from None
        attributes = {}
        for one in node.attr:
            for name, _, _ in _NUMBERS:
                value = int(getattr(one, name))
                if value:
                    attributes[one.name] = value
            attributes.setdefault(one.name, 0)
        nodes.append(
            TraceNode(
                node.id,
                node.name.decode("utf-8", "replace"),
                node.type,
                (*node.ctrl_deps, *node.data_deps),
                attributes,
            )
        )
        if len(nodes) > MAX_NODES:
            raise InvalidInput(f"more than {MAX_NODES:,} nodes")
    if not nodes:
        raise InvalidInput("a Chakra trace without nodes")
    return Trace(rank, version, tuple(nodes))


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    start = position
    while True:
        if position >= len(data) or shift > 63:
            raise InvalidInput(f"byte {start}: not the length of a message: cut off, or no Chakra trace")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def siblings(path: str) -> dict[int, Path]:
    """Return the files ``name.<rank>.et`` beside a trace, its own included; nothing where the name is no such."""
    match = re.fullmatch(r"(.*)\.(\d{1,7})\.et", Path(path).name)
    if match is None:
        return {}
    found = {}
    for one in Path(path).parent.glob(f"{_escaped(match[1])}.*.et"):
        other = re.fullmatch(r".*\.(\d{1,7})\.et", one.name)
        if other is not None:
            found[int(other[1])] = one
    return dict(sorted(found.items()))


def _escaped(text: str) -> str:
    return re.sub(r"([*?\[])", r"[\1]", text)
