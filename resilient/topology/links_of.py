"""The links of a host as NCCL sees them: parallel ones summed, all NVSwitches one node."""

from collections.abc import Iterable
from typing import NamedTuple

from resilient.model.topology import DeviceKind, HostClass, Link, LinkKind
from resilient.topology.nccl_speeds import pcie_gbs

NVSWITCHES = "nvswitch"  # the one node that all of them are for NCCL
LOCAL_GBS = 5000.0  # inside a device
_UNKNOWN_CPU_GBS = 6.0
_USED = frozenset(
    {LinkKind.PCI, LinkKind.NVLINK, LinkKind.C2C, LinkKind.CPU, LinkKind.PART}
)  # inside a host


class Hop(NamedTuple):
    """A link as seen from one of its ends."""

    to: str
    kind: LinkKind
    gbs: float


class Wires:
    """What is connected with what."""

    def __init__(self, host: HostClass) -> None:
        self._kinds = {device.id: device.kind for device in host.devices}
        self._port_gbs = {
            device.id: float(device.facts.get("gbs", LOCAL_GBS))
            for device in host.devices
            if device.kind is DeviceKind.PORT
        }
        self._hops: dict[str, dict[tuple[str, LinkKind], float]] = {}
        for link in host.links:
            if link.kind in _USED:
                self._connect(link)

    def hops(self, device: str) -> Iterable[Hop]:
        """All links of a device."""
        found = self._hops.get(device, {})
        return (Hop(to, kind, gbs) for (to, kind), gbs in found.items())

    def kind(self, device: str) -> DeviceKind:
        """What a device is; Raises KeyError for a stranger."""
        return DeviceKind.NVSWITCH if device == NVSWITCHES else self._kinds[device]

    def _connect(self, link: Link) -> None:
        a, b = self._name(link.a), self._name(link.b)
        gbs = self._gbs(link)
        for one, other in ((a, b), (b, a)):
            known = self._hops.setdefault(one, {})
            known[other, link.kind] = known.get((other, link.kind), 0.0) + gbs

    def _name(self, device: str) -> str:
        is_switch = self._kinds.get(device) is DeviceKind.NVSWITCH
        return NVSWITCHES if is_switch else device

    def _gbs(self, link: Link) -> float:
        if link.kind is LinkKind.PART:
            return self._port_gbs.get(link.b, self._port_gbs.get(link.a, LOCAL_GBS))
        if link.gbs is not None:
            return link.gbs
        return pcie_gbs("", 0) if link.kind is LinkKind.PCI else _UNKNOWN_CPU_GBS
