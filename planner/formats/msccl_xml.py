"""MSCCL XML: the file as it stands, line by line, with what its runtimes would not even load.

The reader takes elements and attributes in any order that XML allows; what the runtimes' own scanners refuse beyond that (a header, tabs, two
spaces between attributes) is a finding. Entities and document types are refused.
"""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, BinaryIO
from xml.parsers import expat

from fabric_plan.planner.errors import InvalidInput
from fabric_plan.planner.threads.findings import PROFILES, Findings

TYPES = ("s", "r", "rcs", "rrs", "rrc", "rrcs", "cpy", "re", "nop", "res_add")
BUFFERS = "ios"
_NUMBER = re.compile(r"-?[0-9]{1,19}")
_BLOCK = 1 << 20
MAX_NUMBER = 2_000_000_000
MAX_BYTES = 1 << 62


@dataclass
class TbElement:
    """A thread block: attributes, its line, and its steps [first, end)."""

    id: int
    send: int
    recv: int
    chan: int
    line: int
    first: int = 0
    end: int = 0


@dataclass
class GpuElement:
    """A GPU: its number and the chunks that it declares of each buffer."""

    id: int
    chunks: tuple[int, int, int]
    line: int
    blocks: list[TbElement] = field(default_factory=list)


def _ints() -> array[int]:
    return array("i")


@dataclass
class Algorithm:
    """An ``<algo>``: attributes as they stand, GPUs, and the steps of all thread blocks as columns.

    ``type`` is an index into :data:`TYPES`; buffers are indices into ``ios``, -1 where the attribute is something else.
    """

    attributes: dict[str, str]
    line: int
    gpus: list[GpuElement] = field(default_factory=list)
    s: array[int] = field(default_factory=_ints)
    type: array[int] = field(default_factory=_ints)
    srcbuf: array[int] = field(default_factory=_ints)
    srcoff: array[int] = field(default_factory=_ints)
    dstbuf: array[int] = field(default_factory=_ints)
    dstoff: array[int] = field(default_factory=_ints)
    cnt: array[int] = field(default_factory=_ints)
    depid: array[int] = field(default_factory=_ints)
    deps: array[int] = field(default_factory=_ints)
    hasdep: array[int] = field(default_factory=_ints)
    lines: array[int] = field(default_factory=_ints)

    def integer(self, name: str, default: int | None = None) -> int | None:
        """Return an attribute of the algorithm as a number.

        Raises
        ------
        InvalidInput
            When it is none.
        """
        text = self.attributes.get(name)
        most = MAX_BYTES if name.endswith("Bytes") else MAX_NUMBER
        return default if text is None else _integer(name, text, self.line, most)


def _integer(name: str, text: str, line: int, most: int = MAX_NUMBER) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise InvalidInput(f"line {line}: {name}={text[:40]!r}: expected a whole number")
    value = int(text)
    if abs(value) > most:
        raise InvalidInput(f"line {line}: {name}={value}: no schedule has so many")
    return value


class _Reader:
    """Handlers of the parser."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.algorithm: Algorithm | None = None
        self.path: list[str] = []
        self.ignored: dict[str, int] = {}
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.StartDoctypeDeclHandler = self.refuse
        self.parser.EntityDeclHandler = self.refuse
        self.parser.XmlDeclHandler = self.header
        self._types = {name: index for index, name in enumerate(TYPES)}

    def refuse(self, *_: Any) -> None:
        raise InvalidInput(f"line {self.parser.CurrentLineNumber}: document types and entities are not read")

    def header(self, *_: Any) -> None:
        self.findings.add(
            "profile",
            "lexical",
            "an <?xml ... ?> header: the runtimes' scanners do not know it",
            line=1,
            profiles=PROFILES,
        )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        path = self.path
        path.append(name)
        if name == "step" and len(path) == 4:
            self._step(attributes)
        elif len(path) == 1:
            self._algo(name, attributes)
        elif name == "gpu" and len(path) == 2:
            self._gpu(attributes)
        elif name == "tb" and len(path) == 3 and path[1] == "gpu":
            self._tb(attributes)
        else:
            self.ignored.setdefault(name, self.parser.CurrentLineNumber)

    def end(self, name: str) -> None:
        self.path.pop()

    def _algo(self, name: str, attributes: dict[str, str]) -> None:
        if name != "algo":
            raise InvalidInput(
                f"line {self.parser.CurrentLineNumber}: <{name[:40]}>: expected <algo> first, as MSCCL XML has it"
            )
        self.algorithm = Algorithm(attributes, self.parser.CurrentLineNumber)

    def _need(self, element: str, attributes: dict[str, str], names: tuple[str, ...]) -> list[int]:
        line = self.parser.CurrentLineNumber
        for name in names:
            if name not in attributes:
                raise InvalidInput(f"line {line}: <{element}> has no {name}")
        return [_integer(name, attributes[name], line) for name in names]

    def _gpu(self, attributes: dict[str, str]) -> None:
        assert self.algorithm is not None
        number, *chunks = self._need("gpu", attributes, ("id", "i_chunks", "o_chunks", "s_chunks"))
        i, o, s = chunks
        self.algorithm.gpus.append(GpuElement(number, (i, o, s), self.parser.CurrentLineNumber))

    def _tb(self, attributes: dict[str, str]) -> None:
        assert self.algorithm is not None
        number, send, recv, chan = self._need("tb", attributes, ("id", "send", "recv", "chan"))
        first = len(self.algorithm.s)
        self.algorithm.gpus[-1].blocks.append(
            TbElement(number, send, recv, chan, self.parser.CurrentLineNumber, first, first)
        )

    def _step(self, attributes: dict[str, str]) -> None:
        one, path = self.algorithm, self.path
        if path[1] != "gpu" or path[2] != "tb" or one is None:
            self.ignored.setdefault("step", self.parser.CurrentLineNumber)
            return
        try:
            kind = self._types.get(attributes["type"])
            if kind is None:
                raise InvalidInput(
                    f"line {self.parser.CurrentLineNumber}: type={attributes['type'][:40]!r}: expected one of {', '.join(TYPES)}"
                )
            one.s.append(int(attributes["s"]))
            one.type.append(kind)
            one.srcbuf.append(BUFFERS.find(attributes["srcbuf"]) if len(attributes["srcbuf"]) == 1 else -1)
            one.srcoff.append(int(attributes["srcoff"]))
            one.dstbuf.append(BUFFERS.find(attributes["dstbuf"]) if len(attributes["dstbuf"]) == 1 else -1)
            one.dstoff.append(int(attributes["dstoff"]))
            one.cnt.append(int(attributes["cnt"]))
            one.depid.append(int(attributes["depid"]))
            one.deps.append(int(attributes["deps"]))
            one.hasdep.append(int(attributes["hasdep"]))
            one.lines.append(self.parser.CurrentLineNumber)
        except KeyError as error:
            raise InvalidInput(f"line {self.parser.CurrentLineNumber}: <step> has no {error.args[0]}") from None
        except (ValueError, OverflowError):
            names = ("s", "srcoff", "dstoff", "cnt", "depid", "deps", "hasdep")
            for name in names:
                _integer(name, attributes.get(name, ""), self.parser.CurrentLineNumber)
            raise InvalidInput(f"line {self.parser.CurrentLineNumber}: <step>: a number that cannot be read") from None
        one.gpus[-1].blocks[-1].end = len(one.s)


def read_msccl(data: bytes | BinaryIO, findings: Findings) -> Algorithm:
    """Read a file; findings of what the runtimes' scanners refuse are added.

    Raises
    ------
    InvalidInput
        When it is no XML, or not of this kind; one line with the place.
    """
    stream = BytesIO(data) if isinstance(data, bytes) else data
    reader = _Reader(findings)
    lexical = _Lexical(findings)
    try:
        while block := stream.read(_BLOCK):
            reader.parser.Parse(block, False)
            lexical.feed(block)
        reader.parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise InvalidInput(f"line {error.lineno}: not XML: {expat.errors.messages[error.code]}") from None
    except (UnicodeDecodeError, LookupError) as error:
        raise InvalidInput(f"not XML: {error}") from None
    lexical.close()
    if reader.algorithm is None:
        raise InvalidInput("no <algo> element")
    for name, line in reader.ignored.items():
        told = "; the copy that it asks for will not happen" if name == "copy" else ""
        findings.add("warning", "ignored", f"<{name[:40]}>: runtimes ignore this element{told}", line=line)
    return reader.algorithm


class _Lexical:
    """What the runtimes' own scanners refuse inside a tag: exactly one space between attributes, double quotes, no tabs or line ends."""

    RULES = (
        (re.compile(rb"<(?:algo|gpu|tb|step)\b[^>]*?(?:  |\t)[^>]*>"), "two spaces or a tab between attributes"),
        (re.compile(rb"<(?:algo|gpu|tb|step)\b[^>]*?[\r\n][^>]*>"), "a line end inside a tag"),
        (re.compile(rb"<(?:algo|gpu|tb|step)\b[^>]*?='[^>]*>"), "single quotes"),
    )

    def __init__(self, findings: Findings) -> None:
        self.findings, self.rest, self.line, self.told = findings, b"", 1, set[str]()

    def feed(self, block: bytes) -> None:
        """Look at one block; a tag that is cut off by its end waits for the next one."""
        text = self.rest + block
        cut = text.rfind(b">") + 1
        if cut == 0 and len(text) < 4 * _BLOCK:
            self.rest = text
            return
        whole, self.rest = text[:cut] if cut else text, text[cut:] if cut else b""
        # Each pattern is tried only where its first sign occurs at all: most files have none.
        for (pattern, message), sign in zip(self.RULES, ((b"  ", b"\t"), (b"\n", b"\r"), (b"='",)), strict=True):
            if message in self.told:
                continue
            if message.startswith("two") and not any(self._inside(whole, one) for one in sign):
                continue
            if message.startswith("single") and b"='" not in whole:
                continue
            if message.startswith("a line") and whole.count(b"\n") <= whole.count(b">\n") + whole.count(
                b">\r\n"
            ) + whole.count(b"\n\n"):
                continue
            found = pattern.search(whole)
            if found is not None:
                self.told.add(message)
                line = self.line + whole.count(b"\n", 0, found.start())
                self.findings.add(
                    "profile", "lexical", f"{message}: the runtimes' scanners refuse it", line=line, profiles=PROFILES
                )
        self.line += whole.count(b"\n")

    @staticmethod
    def _inside(text: bytes, sign: bytes) -> bool:
        """Whether a sign stands after a quote, so inside a tag rather than in front of it."""
        return (
            b'"' + sign in text
            or b"<step" + sign in text
            or b"<tb" + sign in text
            or b"<gpu" + sign in text
            or b"<algo" + sign in text
        )

    def close(self) -> None:
        """Look at what is left."""
        self.feed(b">") if self.rest.strip() else None
