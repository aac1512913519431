"""Elements with their lines, or one error that says where and what to do: for any bytes."""

import pickle
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.model.errors import Misuse
from resilient.topology.malformed import Malformed
from resilient.topology.xml_reader import LIMIT_BYTES, read_xml

GOOD = b"""<!-- made by hand -->
<system version="1">
  <cpu numaid="0" arch="x86_64">
    <pci busid="0000:0f:00.0"/>
  </cpu>
  <cpu numaid='1'/>
</system>
"""
BOMB = b"""<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<system version="1"><cpu numaid="&b;"/></system>"""
EXTERNAL = b'<!DOCTYPE s SYSTEM "file:///etc/passwd"><system version="1"/>'


def test_elements_and_their_lines() -> None:
    root = read_xml(GOOD, "t.xml")
    assert (root.tag, root.line, root.attributes) == ("system", 2, {"version": "1"})
    assert [(cpu.line, cpu.attributes["numaid"]) for cpu in root.all("cpu")] == [(3, "0"), (6, "1")]
    assert root.children[0].all("pci")[0].line == 4


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"", 0, "t.xml: empty; "),
        (b" \n ", 0, "t.xml: empty; "),
        (GOOD[:60], 3, "t.xml:3: not well-formed"),
        (GOOD.replace(b"</cpu>", b"</gpu>"), 5, "t.xml:5: not well-formed (mismatched tag)"),
        (b"just words", 1, "t.xml:1: not well-formed"),
        (b"<a/><b/>", 1, "t.xml:1: not well-formed (junk after document element)"),
        (BOMB, 1, "declares a document type (lolz); remove"),
        (EXTERNAL, 1, "declares a document type"),
        (pickle.dumps({"a": 1}), 1, "a Python pickle, not XML"),
        (b"\x1f\x8b\x08\x00", 1, "gzip"),
        (GOOD.decode().encode("utf-16"), 1, "UTF-16"),
        (b'<?xml version="1.0" encoding="no-such"?><system/>', 1, "encoding"),
        (b'<system name="\xff\xfe"/>', 1, "not well-formed (invalid token)"),
        (b"<a>" * 100, 1, "nested deeper than 64"),
        (b" " * (LIMIT_BYTES + 1), 0, "larger than 16 MiB"),
    ],
)
def test_what_is_refused(data: bytes, line: int, words: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_xml(data, "t.xml")
    assert isinstance(refused.value, Misuse)
    assert words in str(refused.value)
    assert refused.value.line == line
    assert "\n" not in str(refused.value)


def test_a_files_name_is_untrusted_too() -> None:
    with pytest.raises(Malformed) as refused:
        read_xml(b"", "x\n\x1b[31m" + "y" * 500)
    assert str(refused.value).startswith("x??[31my")
    assert len(str(refused.value)) < 250


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    for text in (data, GOOD[:40] + data, GOOD.replace(b"x86_64", data)):
        try:
            read_xml(text, "t.xml")
        except Malformed as error:
            assert str(error).startswith("t.xml")


def test_a_large_file_takes_no_long_time() -> None:
    many = b"<system>" + b'<pci busid="0000:00:00.0"/>' * 400_000 + b"</system>"
    started = time.monotonic()
    with pytest.raises(Malformed, match="more than"):
        read_xml(many, "t.xml")
    assert time.monotonic() - started < 10
