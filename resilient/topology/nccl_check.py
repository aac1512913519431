"""Whether NCCL would read a topology file, and why not: its parser is not a real XML parser.

Limits and reactions are those of NCCL 2.30 (graph/xml.h, graph/xml.cc).
"""

import re
from collections.abc import Iterator
from enum import Enum

import msgspec

from resilient.topology.malformed import printable
from resilient.topology.numbers import whole
from resilient.topology.xml_reader import Element, read_xml

LIMIT_TEXT, LIMIT_ATTRIBUTES, LIMIT_CHILDREN, LIMIT_NODES = 255, 16, 640, 256
_TAG = re.compile(r"""<!--.*?-->|<[^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*>""", re.DOTALL)
_FORBIDDEN = re.compile(r"[^ \n\r]")
_KNOWN = frozenset({"system", "cpu", "pci", "gpu", "nvlink", "c2c", "pcilink", "nic", "net"})


class Severity(Enum):
    """What NCCL does about it."""

    REJECTED = "rejected"  # the file, and the communicator with it
    IGNORED = "ignored"  # this part of it


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that NCCL does not accept."""

    line: int
    severity: Severity
    what: str
    fix: str


def check_topology(data: bytes, label: str) -> list[Finding]:
    """Everything in a topology file that NCCL rejects or ignores, by line.

    Raises Malformed where the file is not even XML.
    """
    root = read_xml(data, label)
    found = [*_text(data.decode(errors="replace")), *_system(root)]
    for count, element in enumerate(_all(root), start=1):
        if count == LIMIT_NODES + 1:
            what = f"more than {LIMIT_NODES} elements"
            found.append(_rejected(element, what, "leave out branches without a GPU or NIC in use"))
        found += _element(element)
    return sorted(found, key=lambda one: one.line)


def _all(root: Element) -> Iterator[Element]:
    waiting = [root]
    while waiting:
        element = waiting.pop()
        yield element
        waiting += reversed(element.children)


def _text(text: str) -> Iterator[Finding]:
    """What lies between elements: NCCL knows spaces, line ends and comments only."""
    line, at = 1, 0
    for tag in [*_TAG.finditer(text), None]:
        start, end = tag.span() if tag is not None else (len(text), len(text))
        if tag is not None and tag[0].startswith("<?xml"):
            yield Finding(
                line=line + text.count("\n", at, start),
                severity=Severity.REJECTED,
                what="an <?xml …?> prolog",
                fix="remove that line",
            )
        if wrong := _FORBIDDEN.search(text, at, start):
            tab = wrong[0] == "\t"
            yield Finding(
                line=line + text.count("\n", at, wrong.start()),
                severity=Severity.REJECTED,
                what="a TAB between elements" if tab else "text between elements",
                fix="indent with spaces" if tab else "remove it",
            )
        line += text.count("\n", at, end)
        at = end


def _system(root: Element) -> Iterator[Finding]:
    if root.tag != "system":
        yield _rejected(
            root, f"<{printable(root.tag, 30)}> instead of <system>", "give a topology file"
        )
    elif whole(root.attributes.get("version", "")) != 1:
        version = printable(root.attributes.get("version", "none"), 20)
        fix = "use it with RCCL" if version == "2" else "dump it again with this NCCL"
        yield _rejected(root, f"version {version}, where NCCL knows 1", fix)


def _element(element: Element) -> Iterator[Finding]:
    if element.tag not in _KNOWN:
        what = f"<{printable(element.tag, 30)}>, which NCCL does not know"
        yield Finding(
            line=element.line, severity=Severity.IGNORED, what=what, fix="expect nothing of it"
        )
    if len(element.attributes) > LIMIT_ATTRIBUTES:
        what = f"{len(element.attributes)} attributes, of which the first {LIMIT_ATTRIBUTES} count"
        yield Finding(
            line=element.line, severity=Severity.IGNORED, what=what, fix="put what matters first"
        )
    if len(element.children) > LIMIT_CHILDREN:
        yield _rejected(element, f"more than {LIMIT_CHILDREN} elements inside", "leave some out")
    for name, value in element.attributes.items():
        if max(len(name), len(value)) > LIMIT_TEXT:
            what = f"{printable(name, 30)} is longer than {LIMIT_TEXT} characters"
            yield _rejected(element, what, "shorten it")
    if element.tag == "cpu":
        yield from _cpu(element)


def _cpu(element: Element) -> Iterator[Finding]:
    given = element.attributes
    needed = ["arch"]
    if given.get("arch") == "x86_64":
        needed.append("vendor")
        if given.get("vendor") == "GenuineIntel":
            needed += ["familyid", "modelid"]
    if lacking := [name for name in needed if name not in given]:
        what = f"a <cpu> without {', '.join(lacking)}"
        yield _rejected(element, what, "add it, as in NCCL's own dump of such a host")


def _rejected(element: Element, what: str, fix: str) -> Finding:
    return Finding(line=element.line, severity=Severity.REJECTED, what=what, fix=fix)
