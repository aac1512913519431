"""What is read from topology files: real ones, counted by hand, and made ones."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.model.topology import HostClass, LinkKind
from resilient.topology.malformed import Malformed
from resilient.topology.nccl_speeds import cpu_link_gbs, nvlink_gbs, pcie_gbs, xgmi_gbs
from resilient.topology.nccl_xml import NcclTopology, read_topology
from topology.cases import real

# Counted in the files by `grep -c`: <pci> minus those that are GPUs or NICs, and so on. The p5
# file has neither classes nor GPUs, so its leaves say nothing; its 8 groups have a bridge each.
REAL = [
    ("aws_p4d-24xl-topo.xml", 1, {"cpu": 2, "pci": 4, "gpu": 8, "nic": 4}, {"PCI": 16, "SYS": 1}),
    ("aws_p5.48xl-topo.xml", 1, {"cpu": 2, "pci": 40}, {"PCI": 40, "SYS": 1}),
    (
        "azure_ncv4-topo.xml",
        1,
        {"cpu": 4, "gpu": 4, "nic": 1, "port": 1},
        {"PCI": 4, "part": 1, "SYS": 6},
    ),
    ("azure_ndv5-topo.xml", 1, {"cpu": 2, "pci": 8, "gpu": 8, "nic": 8}, {"PCI": 24, "SYS": 1}),
    (
        "oci_H100-topology.xml",
        1,
        {"cpu": 2, "pci": 24, "gpu": 8, "nic": 8, "port": 16, "nvswitch": 4},
        {"PCI": 40, "part": 16, "SYS": 1, "NVL": 32},
    ),
    (
        "rccl_topo_8p_rome_4nics.xml",
        2,
        {"cpu": 4, "pci": 20, "gpu": 8, "nic": 4, "port": 4},
        {"PCI": 32, "part": 4, "SYS": 6, "NVL": 12},
    ),
]
MADE = b"""<system version="1">
  <cpu numaid="0" arch="arm64" vendor="ARM">
    <pci busid="0000:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="90" rank="0" gdr="1">
        <c2c bw="44700" count="10"/>
        <nvlink target="ffff:ff:ff.0" count="18" tclass="0x068000"/>
      </gpu>
    </pci>
    <pci busid="0000:02:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="8">
      <nic><net name="mlx5_0" speed="400000" port="1" rail="3" plane="1" guid="0x1"/></nic>
    </pci>
  </cpu>
  <cpu numaid="1"/>
</system>"""


def gbs(host: HostClass, a: str, b: str, kind: LinkKind) -> float | None:
    (found,) = (x for x in host.links if {x.a, x.b} == {a, b} and x.kind is kind)
    return found.gbs


@pytest.mark.parametrize(("name", "version", "devices", "links"), REAL)
def test_counts(name: str, version: int, devices: dict[str, int], links: dict[str, int]) -> None:
    found = read_topology(real(name), name)
    assert found.version == version
    assert Counter(one.kind.value for one in found.host.devices) == devices
    assert Counter(one.kind.value for one in found.host.links) == links


def test_an_h100() -> None:
    """18 NVLinks a GPU; its upper bridges were dumped at 5 GT/s, which counts as 6 GB/s."""
    host = read_topology(real("oci_H100-topology.xml"), "f").host
    first = [x for x in host.links if "0000:0f:00.0" in (x.a, x.b) and x.kind is LinkKind.NVLINK]
    assert sum(link.count for link in first) == 18
    assert sum(link.gbs or 0 for link in first) == pytest.approx(18 * 20.6)
    assert gbs(host, "cpu0", "0000:08:00.0", LinkKind.PCI) == 6.0
    assert gbs(host, "0000:0d:00.0", "0000:0f:00.0", LinkKind.PCI) == 48.0
    assert gbs(host, "cpu0", "cpu1", LinkKind.CPU) == 22.0  # Sapphire Rapids


def test_links_to_themselves_and_what_is_left_out() -> None:
    found = read_topology(real("azure_ncv4-topo.xml"), "f")
    itself = [one.why for one in found.missing if "leads to itself" in one.why]
    assert itself == [f"line {n}: its nvlink leads to itself" for n in (5, 15, 22, 29)]
    p5 = read_topology(real("aws_p5.48xl-topo.xml"), "f")
    assert p5.missing[0].why == "line 16: no known arch, without which NCCL refuses the file"


def test_amd_gpus_are_linked_in_two_groups_of_four() -> None:
    host = read_topology(real("rccl_topo_8p_rome_4nics.xml"), "f").host
    assert gbs(host, "0000:4a:00.0", "0000:50:00.0", LinkKind.NVLINK) == 24.0  # gfx908, one link
    ends = Counter(end for x in host.links if x.kind is LinkKind.NVLINK for end in (x.a, x.b))
    assert set(ends.values()) == {3}


def test_a_made_one() -> None:
    """Synthetic: no real file with c2c, rail or plane was found."""
    found = read_topology(MADE, "made.xml")
    assert gbs(found.host, "cpu0", "0000:01:00.0", LinkKind.C2C) == pytest.approx(447.0)
    assert gbs(found.host, "0000:01:00.0", "nvswitch", LinkKind.NVLINK) == pytest.approx(370.8)
    assert gbs(found.host, "cpu0", "0000:02:00.0", LinkKind.PCI) == 24.0
    port = next(one for one in found.host.devices if one.name == "mlx5_0")
    assert (port.parent, port.facts["gbs"], port.facts["rail"]) == ("0000:02:00.0", 50.0, "3")
    assert [one.what for one in found.missing] == ["cpu1"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b'version="1"', b'version="3"', "m:1: version is neither 1 nor 2"),
        (b'version="1"', b"", "m:1: version is neither"),
        (b"system", b"graphs", "m:1: <graphs> instead of <system>"),
        (b"0000:02", b"0000:01", "m:9: 0000:01:00.0 is there twice (first in line 3)"),
        (b'busid="0000:02:00.0"', b"", "m:9: <pci> without busid"),
        (b'numaid="1"', b'numaid="0"', "m:13: cpu0 is there twice"),
    ],
)
def test_contradictions(old: bytes, new: bytes, words: str) -> None:
    with pytest.raises(Malformed) as refused:
        read_topology(MADE.replace(old, new), "m")
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("speed", "width", "expected"),
    [
        ("8 GT/s", 16, 12),
        ("16.0 GT/s PCIe", 16, 24),
        ("32 GT/s PCIe/s", 16, 48),  # as in AWS's file: the beginning counts
        ("64.0 GT/s PCIe", 16, 96),
        ("32.0 GT/s PCIe", 8, 24),
        ("128.0 GT/s PCIe", 16, 12),  # not known: as PCIe 3
        ("", 0, 12),
    ],
)
def test_pcie(speed: str, width: int, expected: float) -> None:
    assert pcie_gbs(speed, width) == expected


def test_other_speeds() -> None:
    assert [nvlink_gbs(sm) for sm in (60, 70, 80, 86, 90, 100)] == [18, 20, 20, 12, 20.6, 40.1]
    assert [xgmi_gbs(gcn) for gcn in (906, 908, 910, 942)] == [24, 24, 36, 48]
    intel = [cpu_link_gbs("x86_64", "GenuineIntel", model) for model in (0x4F, 0x55, 0x8F, 0xCF)]
    assert intel == [6, 10, 22, 40]
    assert [cpu_link_gbs(arch, "", 0) for arch in ("arm64", "ppc64")] == [6, 32]


words = st.text(max_size=20) | st.sampled_from(["0", "-1", "0x3f", "1e999", "9" * 30, "ffff:ff:1"])


@given(st.lists(st.tuples(st.sampled_from([b"0000:01", b"90", b"18", b"44700", b"16"]), words)))
def test_any_values(changes: list[tuple[bytes, str]]) -> None:
    data = MADE
    for old, new in changes:
        data = data.replace(old, new.encode(errors="replace"))
    try:
        found = read_topology(data, "m")
    except Malformed as error:
        assert str(error).startswith("m")
    else:
        assert isinstance(found, NcclTopology)
