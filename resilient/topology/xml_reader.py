"""Reads XML into elements with line numbers: bounded, and without entities or document types.

NCCL's files need neither, and both are how a small file becomes a large one, or another file.
Time and memory are linear in the input.
"""

from dataclasses import dataclass, field
from xml.parsers import expat

from resilient.topology.malformed import Malformed, printable

LIMIT_BYTES = 16 << 20
LIMIT_DEPTH = 64
LIMIT_ELEMENTS = 300_000
_FIX = "give NCCL's own dump (NCCL_TOPO_DUMP_FILE) or a file in its format"
_TEXTS = (b"\xff\xfe", b"\xfe\xff")  # UTF-16
_MAGIC = {
    b"\x80": "a Python pickle",
    b"\x1f\x8b": "compressed by gzip",
    b"PK": "a zip archive",
    b"\x7fELF": "a program",
}


@dataclass
class Element:
    """One element of a file."""

    tag: str
    attributes: dict[str, str]
    line: int  # from 1
    children: list["Element"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        """Children of a name, in order."""
        return [child for child in self.children if child.tag == tag]


def read_xml(data: bytes, label: str) -> Element:
    """The root element of a file. Raises Malformed, never anything else."""
    _refuse_what_is_none(data, label)
    reader = _Reader(label)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code) or "for an unknown reason"
        what = what.removeprefix("not well-formed (").rstrip(")")
        raise Malformed(label, error.lineno, f"not well-formed ({what})", _FIX) from None
    except (UnicodeError, LookupError, ValueError) as error:
        what = f"its encoding cannot be read ({printable(str(error))})"
        raise Malformed(label, 1, what, "save it as UTF-8") from None
    assert reader.root is not None  # expat says "no element found" otherwise
    return reader.root


def _refuse_what_is_none(data: bytes, label: str) -> None:
    if len(data) > LIMIT_BYTES:
        raise Malformed(label, 0, f"larger than {LIMIT_BYTES >> 20} MiB", _FIX)
    if not data.strip():
        raise Malformed(label, 0, "empty", _FIX)
    for magic, what in _MAGIC.items():
        if data.startswith(magic):
            raise Malformed(label, 1, f"{what}, not XML", _FIX)
    if data.startswith(_TEXTS):
        raise Malformed(label, 1, "UTF-16, which NCCL does not read", "save it as UTF-8")


class _Reader:
    """Builds the tree. What it raises inside the parser's callbacks comes out of `Parse`."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._open: list[Element] = []
        self._count = 0
        self.root: Element | None = None
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._entity
        self.parser.ProcessingInstructionHandler = None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self._count += 1
        if len(self._open) >= LIMIT_DEPTH:
            raise Malformed(self._label, line, f"nested deeper than {LIMIT_DEPTH}", _FIX)
        if self._count > LIMIT_ELEMENTS:
            raise Malformed(self._label, line, f"more than {LIMIT_ELEMENTS} elements", _FIX)
        element = Element(tag, attributes, line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _tag: str) -> None:
        self._open.pop()

    def _doctype(self, name: str, *_: object) -> None:
        self._refuse(f"a document type ({printable(name)})")

    def _entity(self, name: str, *_: object) -> None:
        self._refuse(f"an entity ({printable(name)})")

    def _refuse(self, what: str) -> None:
        line = self.parser.CurrentLineNumber
        raise Malformed(self._label, line, f"declares {what}", "remove the declaration")
