"""NCCL's path types and bandwidths, worked out by hand from the files."""

from itertools import combinations

import pytest

from resilient.model.topology import PathType
from resilient.topology.nccl_xml import read_topology
from resilient.topology.paths import Options, Paths
from topology.cases import real

H100, A100, RCCL = "oci_H100-topology.xml", "aws_p4d-24xl-topo.xml", "rccl_topo_8p_rome_4nics.xml"
MLX0, MLX3 = "0000:0c:00.0/mlx5_0", "0000:2a:00.0/mlx5_3"
PAIRS = [
    # 18 NVLinks of 20.6 into the NVSwitches, and the same out.
    (H100, "0000:0f:00.0", "0000:2d:00.0", PathType.NVL, 370.8),
    # The same across the two CPUs: NVLink knows no sockets.
    (H100, "0000:0f:00.0", "0000:89:00.0", PathType.NVL, 370.8),
    # Below one switch 08:00.0, but over its two inner bridges 0d and 0a: PXB; the port is 180 Gb/s.
    (H100, "0000:0f:00.0", MLX0, PathType.PXB, 22.5),
    # To another rail: 2d reaches that port by PXB and is an NVLink away.
    (H100, "0000:0f:00.0", MLX3, PathType.PXN, 22.5),
    # A GPU and its CPU: the upper bridge was dumped at 5 GT/s x16.
    (H100, "cpu0", "0000:0f:00.0", PathType.PHB, 6.0),
    # Two GPUs under one switch of a p4d file without NVLink: PIX at PCIe 3 x16.
    (A100, "0000:10:1c.0", "0000:10:1d.0", PathType.PIX, 12.0),
    # One xGMI link of gfx908.
    (RCCL, "0000:4a:00.0", "0000:50:00.0", PathType.NVL, 24.0),
    # Another group of four: no xGMI between, over CPUs of AMD, 16 GB/s.
    (RCCL, "0000:4a:00.0", "0000:8a:00.0", PathType.SYS, 16.0),
    # Their GPUs hang below three levels of bridges under CPU 0, the NIC 45:00.0 below one of them.
    (RCCL, "0000:4a:00.0", "0000:45:00.0", PathType.PXB, 24.0),
    (RCCL, "0000:4a:00.0", "cpu0", PathType.PHB, 24.0),
]


@pytest.mark.parametrize(("name", "a", "b", "kind", "gbs"), PAIRS)
def test_pairs(name: str, a: str, b: str, kind: PathType, gbs: float) -> None:
    paths = Paths(read_topology(real(name), name).host)
    for path in (paths.between(a, b), paths.between(b, a)):
        assert path is not None
        assert (path.type.name, path.gbs) == (kind.name, pytest.approx(gbs))


def test_every_gpu_of_an_h100_has_its_own_nic_and_both_ports_are_as_good() -> None:
    paths = Paths(read_topology(real(H100), H100).host)
    nearest = [paths.nearest_ports(gpu) for gpu in paths.gpus]
    assert [len(ports) for ports in nearest] == [2] * 8
    assert len({port for ports in nearest for port in ports}) == 16
    assert nearest[0] == (MLX0, "0000:0c:00.0/mlx5_1")


def test_all_gpus_of_an_h100_are_alike() -> None:
    paths = Paths(read_topology(real(H100), H100).host)
    kinds = {paths.between(a, b).type for a, b in combinations(paths.gpus, 2)}  # type: ignore[union-attr]
    assert kinds == {PathType.NVL}
    assert {len(paths.between(a, b).through) for a, b in combinations(paths.gpus, 2)} == {3}  # type: ignore[union-attr]


CHAIN = b"""<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="143">
%s</cpu></system>"""
GPU = """<pci busid="0000:0%d:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
<gpu dev="%d" sm="80" gdr="%d">%s</gpu></pci>"""
NVLINK = '<nvlink target="0000:0%d:00.0" count="%d" tclass="0x030200"/>'
NIC = b"""<pci busid="0000:09:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" speed="200000" gdr="1"/></nic></pci>"""


def chain(gdr: int = 1) -> Paths:
    """Synthetic: GPUs 1-2-3 in a row of NVLinks, all at the CPU, and a NIC there."""
    gpus = [
        GPU % (1, 0, gdr, NVLINK % (2, 4)),
        GPU % (2, 1, gdr, NVLINK % (1, 4) + NVLINK % (3, 2)),
        GPU % (3, 2, gdr, NVLINK % (2, 2)),
    ]
    return Paths(read_topology(CHAIN % ("".join(gpus).encode() + NIC), "chain").host)


def test_through_one_gpu() -> None:
    path = chain().between("0000:01:00.0", "0000:03:00.0")
    assert path is not None
    assert (path.type, path.gbs) == (PathType.NVB, 40.0)  # the narrower two links of 20
    assert path.through == ("0000:01:00.0", "0000:02:00.0", "0000:03:00.0")


def test_without_that_it_is_the_cpu() -> None:
    host = read_topology(CHAIN % (GPU % (1, 0, 1, "") + GPU % (2, 1, 1, "")).encode(), "two").host
    for options in (Options(), Options(nvb=False)):
        path = Paths(host, options).between("0000:01:00.0", "0000:02:00.0")
        assert path is not None
        assert (path.type, path.gbs) == (PathType.PHB, 24.0)
        assert path.through == ("0000:01:00.0", "cpu0", "0000:02:00.0")


@pytest.mark.parametrize("gdr", [0, 1])
def test_to_a_nic_at_the_cpu(gdr: int) -> None:
    path = chain(gdr).between("0000:01:00.0", "0000:09:00.0/mlx5_0")
    assert path is not None
    assert (path.type, path.gbs) == (PathType.PHB, 24.0)
    assert path.through[1] == "cpu0"


def test_strangers_and_oneself() -> None:
    paths = chain()
    with pytest.raises(KeyError):
        paths.between("0000:01:00.0", "nobody")
    path = paths.between("cpu0", "cpu0")
    assert path is not None
    assert path.type is PathType.LOC
