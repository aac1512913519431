"""Would NCCL read it?"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.topology.malformed import Malformed
from resilient.topology.nccl_check import Severity, check_topology
from topology.cases import real

GOOD = b"""<!-- made by hand: a > b -->
<system version='1'>
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
    <pci busid="0000:01:00.0" class="0x030200"/>
  </cpu>
</system>
"""
REJECTED, IGNORED = Severity.REJECTED, Severity.IGNORED


def found(data: bytes) -> list[tuple[int, Severity, str]]:
    return [(one.line, one.severity, one.what) for one in check_topology(data, "t.xml")]


@pytest.mark.parametrize(
    ("old", "new", "line", "severity", "what"),
    [
        (b"<!-- made", b'<?xml version="1.0"?>\n<!-- made', 1, REJECTED, "an <?xml …?> prolog"),
        (b"\n    <pci", b"\n\t<pci", 4, REJECTED, "a TAB between elements"),
        (b"\n  </cpu", b"\n words </cpu", 5, REJECTED, "text between elements"),
        (b"'1'", b"'2'", 2, REJECTED, "version 2, where NCCL knows 1"),
        (b" version='1'", b"", 2, REJECTED, "version none, where NCCL knows 1"),
        (b'arch="x86_64" ', b"", 3, REJECTED, "a <cpu> without arch"),
        (b'familyid="6" modelid="143"', b"", 3, REJECTED, "a <cpu> without familyid, modelid"),
        (b"<pci", b"<xgmi/><pci", 4, IGNORED, "<xgmi>, which NCCL does not know"),
        (b'class="0x030200"', b'class="' + b"x" * 256 + b'"', 4, REJECTED, "class is longer than"),
        (
            b'class="0x030200"',
            b" ".join(b'a%d="1"' % n for n in range(16)),
            4,
            IGNORED,
            "17 attributes, of which the first 16 count",
        ),
        (b"<pci", b"<pci/>" * 641 + b"<pci", 3, REJECTED, "more than 640 elements inside"),
        (b"<pci", b"<pci/>" * 300 + b"<pci", 4, REJECTED, "more than 256 elements"),
    ],
)
def test_findings(old: bytes, new: bytes, line: int, severity: Severity, what: str) -> None:
    assert found(GOOD) == []
    here = found(GOOD.replace(old, new, 1))
    assert [one for one in here if one[:2] == (line, severity) and one[2].startswith(what)], here


@pytest.mark.parametrize(
    ("name", "findings"),
    [
        ("aws_p4d-24xl-topo.xml", []),
        ("azure_ncv4-topo.xml", []),
        ("azure_ndv5-topo.xml", []),
        ("oci_H100-topology.xml", []),
        ("aws_p5.48xl-topo.xml", [(16, "a <cpu> without arch"), (42, "a <cpu> without arch")]),
    ],
)
def test_real_files(name: str, findings: list[tuple[int, str]]) -> None:
    assert [(one.line, one.what) for one in check_topology(real(name), name)] == findings


def test_a_file_for_rccl() -> None:
    here = found(real("rccl_topo_8p_rome_4nics.xml"))
    assert here[0] == (5, REJECTED, "version 2, where NCCL knows 1")
    assert {what for _, severity, what in here if severity is IGNORED} == {
        "<xgmi>, which NCCL does not know"
    }


@given(st.binary(max_size=200) | st.text(alphabet="<>\"'=\t\n ab-!?", max_size=200).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    for text in (data, GOOD.replace(b"    <pci", data + b"<pci")):
        try:
            assert check_topology(text, "t.xml") is not None
        except Malformed as error:
            assert str(error).startswith("t.xml")
