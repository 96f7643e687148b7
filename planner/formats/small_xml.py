"""Reading small XML files as trees of elements with their lines; entities and document types are refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from fabric_plan.planner.errors import InvalidInput

MAX_ELEMENTS = 5_000_000
MAX_DEPTH = 200


@dataclass(slots=True)
class Element:
    """An element: its name, attributes, children and line."""

    name: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)

    def all(self, name: str) -> list[Element]:
        """Return the children of a name."""
        return [one for one in self.children if one.name == name]

    def integer(self, name: str, default: int | None = None) -> int:
        """Return an attribute as a number.

        Raises
        ------
        InvalidInput
            When it is missing without a default, or no number.
        """
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                raise InvalidInput(f"line {self.line}: <{self.name}> has no {name}")
            return default
        digits = text[1:] if text.startswith("-") else text
        if not digits.isdecimal() or not digits.isascii() or len(digits) > 9:
            raise InvalidInput(f"line {self.line}: {name}={text[:40]!r}: expected a whole number")
        return int(text)


def read_xml(data: bytes) -> Element:
    """Return the root element.

    Raises
    ------
    InvalidInput
        When it is no XML, has entities, or is larger than any such file is.
    """
    parser = expat.ParserCreate()
    stack: list[Element] = []
    roots: list[Element] = []
    count = 0

    def refuse(*_: Any) -> None:
        raise InvalidInput(f"line {parser.CurrentLineNumber}: document types and entities are not read")

    def start(name: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS or len(stack) > MAX_DEPTH:
            raise InvalidInput(f"line {parser.CurrentLineNumber}: more elements than such a file has")
        one = Element(name, attributes, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(one)
        stack.append(one)

    def end(_: str) -> None:
        stack.pop()

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise InvalidInput(f"line {error.lineno}: not XML: {expat.errors.messages[error.code]}") from None
    except (UnicodeDecodeError, LookupError, ValueError) as error:
        raise InvalidInput(f"not XML: {error}") from None
    return roots[0]
