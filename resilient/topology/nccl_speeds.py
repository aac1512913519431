"""Bandwidths as NCCL and RCCL count them, in GB/s (graph/topo.h, graph/topo.cc)."""

_PER_LANE = (  # a prefix of link_speed → 100 Mb/s a lane
    ("2.5 GT/s", 15),
    ("5 GT/s", 30),
    ("8 GT/s", 60),
    ("16 GT/s", 120),
    ("32 GT/s", 240),
    ("5.0 GT/s PCIe", 30),
    ("8.0 GT/s PCIe", 60),
    ("16.0 GT/s PCIe", 120),
    ("32.0 GT/s PCIe", 240),
    ("64.0 GT/s PCIe", 480),
)
_UNKNOWN_LANE, _UNKNOWN_WIDTH = 60, 16
_NVLINK = ((100, 40.1), (90, 20.6), (70, 20.0), (60, 18.0))  # from SM; 86 is another
_NVLINK_SM86 = 12.0
_XGMI = ((940, 48.0), (910, 36.0))  # from gcn; before: Vega
_VEGA = 24.0


def knows_speed(link_speed: str) -> bool:
    """Whether the words for a PCIe generation are among those that NCCL knows."""
    return any(link_speed.startswith(known) for known, _ in _PER_LANE)


def pcie_gbs(link_speed: str, link_width: int) -> float:
    """Of a PCIe link in one direction: x16 of generation 3 is 12, 4: 24, 5: 48, 6: 96.

    NCCL takes generation 3 for words that it does not know, and 16 lanes for a width of 0.
    """
    known = (rate for prefix, rate in _PER_LANE if link_speed.startswith(prefix))
    lane = next(known, _UNKNOWN_LANE)
    return (link_width or _UNKNOWN_WIDTH) * lane / 80


def nvlink_gbs(sm: int) -> float:
    """Of one NVLink of a GPU of compute capability `sm` (90 for 9.0)."""
    if sm == 86:
        return _NVLINK_SM86
    return next((gbs for least, gbs in _NVLINK if sm >= least), _NVLINK[-1][1])


def xgmi_gbs(gcn: int) -> float:
    """Of one xGMI link of an AMD GPU (908 for gfx908)."""
    return next((gbs for least, gbs in _XGMI if gcn >= least), _VEGA)


def cpu_link_gbs(arch: str, vendor: str, model: int) -> float:
    """Between two CPUs of a host."""
    if arch == "arm64":
        return 6.0
    if arch == "ppc64":
        return 32.0
    if vendor == "AuthenticAMD":
        return 16.0
    if vendor == "GenuineIntel":
        steps = ((0xCF, 40.0), (0x8F, 22.0), (0x55, 10.0))
        return next((gbs for least, gbs in steps if model >= least), 6.0)
    return 6.0
