"""Validation of a schedule that another tool made: its format found by its content, all checks, and its time on a fabric."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.fabric import Fabric
from fabric_plan.planner.files import read_bytes
from fabric_plan.planner.threads import check_msccl
from fabric_plan.planner.threads.checked import Checked
from fabric_plan.planner.threads.findings import Finding, Verdict

HEAD = 65_536
SIGNS = ("msccl_type", "sccl_type", "7-Flows", "1-Epoch_Duration", "gpus")
"""Keys by which JSON shows itself a schedule of another tool."""


def sniff(head: bytes) -> str:
    """Return the format that a file's first bytes show: ``plan``, ``msccl-xml``, ``forestcoll``, ``nccl-graph``, ``json`` or ``chakra``.

    Raises
    ------
    InvalidInput
        When they show none.
    """
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInput("UTF-16: expected UTF-8")
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not text:
        raise InvalidInput("the file is empty")
    if text[:1] == b"<":
        root = re.search(
            rb"<([A-Za-z_][A-Za-z0-9_.-]*)", re.sub(rb"<\?.*?\?>|<!--.*?-->|<!.*?>", b"", text, flags=re.DOTALL)
        )
        name = root[1].decode() if root else ""
        kinds = {
            "algo": "msccl-xml",
            "Algo": "forestcoll",
            "trees": "forestcoll",
            "graphs": "nccl-graph",
            "system": "nccl-topology",
        }
        if name == "Algo" and b"<gpu" in text and b"<step" in text:
            return "msccl-xml"
        if name not in kinds:
            raise InvalidInput(f"XML with <{name}>: expected <algo> (MSCCL), <trees> (ForestColl) or <graphs> (NCCL)")
        return kinds[name]
    if text[:1] in b"{[":
        return "json"
    if b"\x00" in head or any(byte < 9 for byte in head[:64]):
        # A trace begins with the length of its metadata, whose first member is the version or an attribute.
        start = next((k for k, byte in enumerate(head[:10]) if byte < 0x80), 0) + 1
        if head[start : start + 1] not in (b"\x0a", b"\x12"):
            raise InvalidInput("not JSON, XML or a Chakra trace")
        return "chakra"
    raise InvalidInput("expected XML, JSON or a Chakra trace")


@dataclass(frozen=True)
class Source:
    """A file: its name, and its content where it cannot be read twice (stdin, compressed)."""

    path: str
    data: bytes
    head: bytes

    @classmethod
    def of(cls, path: str) -> Source:
        """Open a file.

        Raises
        ------
        InvalidInput
            When it cannot be read.
        """
        if str(path) == "-" or str(path).endswith(".gz"):
            data = read_bytes(path)
            return cls(path, data, data[:HEAD])
        try:
            with Path(path).open("rb") as stream:
                return cls(path, b"", stream.read(HEAD))
        except OSError as error:
            raise InvalidInput(f"{path}: cannot be read: {error.strerror or error}") from None

    @property
    def content(self) -> bytes:
        """All of it."""
        return self.data or read_bytes(self.path)

    @property
    def is_plan(self) -> bool:
        """Whether it is a plan of this project, or might be one: JSON without the signs of another tool's schedule."""
        text = self.head.lstrip()
        if text[:1] != b"{" or b'"fabric-plan/' in self.head[:200]:
            return text[:1] == b"{"
        try:
            document = json.loads(self.content)
        except (ValueError, RecursionError):
            return not any(b'"%s"' % key.encode() in text for key in SIGNS)
        return not (isinstance(document, dict) and any(key in document for key in SIGNS))


def read_source(source: Source, *, size: Fraction | None = None, root: int | None = None) -> Checked:
    """Read and check a file of another tool.

    Parameters
    ----------
    size
        Bytes of the collective's larger buffer; None: all sizes that the file allows.
    root
        Of a rooted collective.

    Raises
    ------
    InvalidInput
        When the file cannot be read, in one line.
    """
    try:
        return _read(source, size, root)
    except InvalidInput as error:
        text = str(error)
        raise InvalidInput(text if text.startswith(f"{source.path}:") else f"{source.path}: {text}") from None


def _read(source: Source, size: Fraction | None, root: int | None) -> Checked:
    from fabric_plan.planner.threads import others

    kind = sniff(source.head)
    whole = None if size is None else int(size)
    if kind == "msccl-xml":
        if source.data:
            return check_msccl.check(source.data, size=whole, root=root)
        with Path(source.path).open("rb") as stream:
            return check_msccl.check(stream, size=whole, root=root)
    content = source.content
    if kind == "json" and others.sniff_json(content)[0] == "mscclpp":
        from fabric_plan.planner.threads.check_mscclpp import check

        return check(content, size=whole, root=root)
    return others.check(kind, content, source.path)


def validate_source(
    source: Source, *, fabric: Fabric | None = None, size: Fraction | None = None, root: int | None = None
) -> Verdict:
    """Return the verdict on a file of another tool; see :func:`read_source`.

    Parameters
    ----------
    fabric
        On which its links are looked for and its time is simulated; rank k sits on seat k.

    Raises
    ------
    InvalidInput
        When the file cannot be read, or has more ranks than the fabric, in one line.
    """
    found = read_source(source, size=size, root=root)
    verdict = found.verdict
    if fabric is None or found.program is None or found.messages is None or found.collective is None:
        return verdict
    from fabric_plan.planner.threads.timing import fits, missing_links, relayed, timed

    fits(found.collective, fabric, source.path)
    missing = missing_links(found.program, fabric)
    if missing:
        return _with(verdict, "invalid", [Finding("error", "links", text) for text in missing[:8]], None)
    more = [Finding("warning", "relay", text) for text in relayed(found.program, fabric)[:8]]
    used = found.size(size)
    run = timed(found.program, found.messages, found.collective, fabric, used, found.depth)
    report = run.simulation.report
    if report.seconds is None:
        more.append(Finding("warning", "time", "its messages fill up and stop at this size"))
        return _with(verdict, verdict.verdict, more, None)
    simulation = {
        "fabric": fabric.name,
        "size": int(used),
        "pattern": found.collective.name,
        "ranks": found.collective.ranks,
        "root": found.collective.root,
        "seconds": float(report.seconds),
        "terms": {term.name: float(term.seconds) for term in report.terms if term.seconds},
        "links": [
            {"link": link, "name": fabric.link_name(link), "busy": float(busy), "bytes": float(carried)}
            for link, busy, carried in zip(report.links, report.busy, report.carried, strict=True)
        ],
    }
    return _with(verdict, verdict.verdict, more, simulation)


def _with(verdict: Verdict, kind: Any, more: list[Finding], simulation: dict[str, Any] | None) -> Verdict:
    return Verdict(kind, verdict.kind, verdict.summary, (*verdict.findings, *more), verdict.hangs_above, simulation)
