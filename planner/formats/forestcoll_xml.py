"""ForestColl's trees: ``<tree root index nchunks height>`` with ``<send src dst path>``, nodes being tuples such as (0, 'GPU', 3).

Source: files that its generator writes. A tree carries ``nchunks`` of the ``nchunkspernode`` parts of its root's data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.formats.small_xml import Element, read_xml

Node = tuple[int, str, int]
_NODE = re.compile(r"\(\s*(\d{1,7})\s*,\s*'([A-Za-z_][A-Za-z0-9_ ]{0,30})'\s*,\s*(\d{1,7})\s*\)")


@dataclass(frozen=True)
class TreeSend:
    """An edge of a tree, and the nodes that it crosses, ends included."""

    source: Node
    target: Node
    path: tuple[Node, ...]
    line: int


@dataclass(frozen=True)
class Tree:
    """A tree: its root, how many parts it carries, and its sends."""

    root: Node
    index: int
    chunks: int
    height: int | None
    sends: tuple[TreeSend, ...]
    line: int


@dataclass(frozen=True)
class Forest:
    """All trees; ``chunks_each`` parts make up the data of a root."""

    chunks_each: int
    trees: tuple[Tree, ...]


def is_compute(node: Node) -> bool:
    """Whether a node is a GPU (not a switch)."""
    return "switch" not in node[1].lower()


def read_forest(data: bytes) -> Forest:
    """Read a file of trees.

    Raises
    ------
    InvalidInput
        When it is none; one line with the place.
    """
    root = read_xml(data)
    if root.name not in ("Algo", "trees"):
        raise InvalidInput(f"line {root.line}: <{root.name}>: expected <Algo> with trees")
    trees = tuple(_tree(one) for one in root.all("tree"))
    if not trees:
        raise InvalidInput(f"line {root.line}: no <tree>")
    total: dict[Node, int] = {}
    for tree in trees:
        total[tree.root] = total.get(tree.root, 0) + tree.chunks
    each = root.integer("nchunkspernode", max(total.values()))
    if each < 1:
        raise InvalidInput(f"line {root.line}: nchunkspernode={each}: expected at least 1")
    return Forest(each, trees)


def _tree(one: Element) -> Tree:
    chunks = one.integer("nchunks", 1)
    if not 1 <= chunks <= 1_000_000:
        raise InvalidInput(f"line {one.line}: nchunks={chunks}: expected 1 to 1,000,000")
    sends = []
    for child in one.all("send"):
        source, target = (_node(child, name) for name in ("src", "dst"))
        text = child.attributes.get("path")
        path = (source, target) if text is None else tuple(_nodes(child, "path", text))
        sends.append(TreeSend(source, target, path, child.line))
    height = one.integer("height", -1)
    return Tree(
        _node(one, "root"), one.integer("index", 0), chunks, None if height < 0 else height, tuple(sends), one.line
    )


def _node(one: Element, name: str) -> Node:
    if name not in one.attributes:
        raise InvalidInput(f"line {one.line}: <{one.name}> has no {name}")
    nodes = _nodes(one, name, one.attributes[name])
    if len(nodes) != 1:
        raise InvalidInput(f"line {one.line}: {name}={one.attributes[name][:40]!r}: expected one node")
    return nodes[0]


def _nodes(one: Element, name: str, text: str) -> list[Node]:
    found = [(int(a), b, int(c)) for a, b, c in _NODE.findall(text)]
    if not found or _NODE.sub("", text).strip(" ,"):
        raise InvalidInput(f"line {one.line}: {name}={text[:40]!r}: expected nodes such as (0, 'GPU', 3)")
    return found
