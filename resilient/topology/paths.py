"""NCCL's paths between devices of a host: type, bandwidth, and what they lead through.

all routes from a device, NCCL's search (graph/paths.cc, ncclTopoSetPaths)
    ─► GPUs that cannot reach each other directly: through the CPU
    ─► a NIC without GPUDirect: through the CPU
    ─► a NIC that a neighbour reaches better: through that GPU (PXN)
"""

from collections.abc import Iterable

import msgspec

from resilient.model.topology import Device, DeviceKind, HostClass, LinkKind, PathType
from resilient.topology.links_of import LOCAL_GBS, NVSWITCHES, Hop, Wires

_STEP = {
    LinkKind.NVLINK: PathType.NVL,
    LinkKind.C2C: PathType.C2C,
    LinkKind.PCI: PathType.PIX,
    LinkKind.CPU: PathType.SYS,
    LinkKind.PART: PathType.LOC,
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a user can change."""

    p2p_level: PathType | None = None  # NCCL_P2P_LEVEL; None: PXB, SYS for two GPUs on AMD
    nvb: bool = True  # not NCCL_NVB_DISABLE
    pxn: bool = True  # not NCCL_PXN_DISABLE


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """The best way from one device to another."""

    type: PathType
    gbs: float  # GB/s, of its narrowest link
    through: tuple[str, ...]  # devices, both ends included; all NVSwitches are "nvswitch"

    @property
    def hops(self) -> int:
        """Links that it crosses."""
        return len(self.through) - 1

    @property
    def order(self) -> tuple[PathType, float, int]:
        """Smaller is better: by type, then by bandwidth, then by length."""
        return self.type, -self.gbs, self.hops


class Paths:
    """All paths of a host; each device's are found when they are asked for."""

    def __init__(self, host: HostClass, options: Options | None = None) -> None:
        self._wires, self._options = Wires(host), options or Options()
        self._devices = {device.id: device for device in host.devices}
        self._from: dict[str, dict[str, Path]] = {}
        self.gpus = self._of_kind(host.devices, DeviceKind.GPU)
        self.ports = self._of_kind(host.devices, DeviceKind.PORT)

    @staticmethod
    def _of_kind(devices: Iterable[Device], kind: DeviceKind) -> tuple[str, ...]:
        return tuple(device.id for device in devices if device.kind is kind)

    def between(self, a: str, b: str) -> Path | None:
        """As NCCL would use it; None where there is no way. Raises KeyError for a stranger."""
        one, other = self._devices[a], self._devices[b]
        found = self._plain(a).get(b)
        if found is None or a == b:
            return found
        if {one.kind, other.kind} == {DeviceKind.GPU}:
            return found if found.type <= self._p2p_level() else self._over_cpu(a, b, found)
        if one.kind is DeviceKind.PORT and other.kind is DeviceKind.GPU:
            back = self.between(b, a)
            return back and msgspec.structs.replace(back, through=back.through[::-1])
        if one.kind is DeviceKind.GPU and other.kind is DeviceKind.PORT:
            return self._to_port(a, b, found)
        return found

    def nearest_ports(self, gpu: str) -> tuple[str, ...]:
        """The NIC ports that a GPU should use: all that are equally good, in the file's order."""
        known = {port: path for port in self.ports if (path := self._plain(gpu).get(port))}
        best = min(((p.type, -p.gbs) for p in known.values()), default=None)
        return tuple(port for port, p in known.items() if (p.type, -p.gbs) == best)

    def _p2p_level(self) -> PathType:
        if self._options.p2p_level is not None:
            return self._options.p2p_level
        cpus = (one for one in self._devices.values() if one.kind is DeviceKind.CPU)
        amd = any(cpu.facts.get("vendor") == "AuthenticAMD" for cpu in cpus)
        return PathType.SYS if amd and len(self.gpus) <= 2 else PathType.PXB

    def _to_port(self, gpu: str, port: str, found: Path) -> Path:
        if not self._has_gdr(gpu, port):
            found = self._over_cpu(gpu, port, found)
        if not self._options.pxn:
            return found
        for peer in self.gpus:
            near, link = self._plain(peer).get(port), self._plain(gpu).get(peer)
            if peer == gpu or near is None or link is None or not self._has_gdr(peer, port):
                continue
            local = near.type <= PathType.PXB and link.type <= PathType.NVL
            if local and (near.gbs > found.gbs or found.type > PathType.PXN):
                found = _joined(link, near, PathType.PXN)
        return found

    def _has_gdr(self, gpu: str, port: str) -> bool:
        facts = self._devices[gpu].facts, self._devices[port].facts
        return facts[0].get("gpu_gdr", "1") != "0" and facts[1].get("gdr", "1") != "0"

    def _over_cpu(self, a: str, b: str, direct: Path) -> Path:
        """Through the CPU that is nearest to `b`, as NCCL chooses it."""
        cpus = [one.id for one in self._devices.values() if one.kind is DeviceKind.CPU]
        ways = self._plain(b)
        known = [cpu for cpu in cpus if cpu in ways and cpu in self._plain(a)]
        if not known:
            return direct
        cpu = min(known, key=lambda one: ways[one].hops)
        first, second = self._plain(a)[cpu], self._plain(cpu)[b]
        return _joined(first, second, max(first.type, second.type))

    def _plain(self, base: str) -> dict[str, Path]:
        if base not in self._from:
            self._from[base] = self._search(base)
        return self._from[base]

    def _search(self, base: str) -> dict[str, Path]:
        best = {base: Path(type=PathType.LOC, gbs=LOCAL_GBS, through=(base,))}
        frontier = [base]
        while frontier:
            improved: dict[str, None] = {}
            for here in frontier:
                path = best[here]
                for hop in self._wires.hops(here):
                    new = self._step(base, here, path, hop)
                    if new is not None and (hop.to not in best or new.order < best[hop.to].order):
                        best[hop.to] = new
                        improved[hop.to] = None
            frontier = list(improved)
        return best

    def _step(self, base: str, here: str, path: Path, hop: Hop) -> Path | None:
        """The path with one link more; None where NCCL does not go on this way."""
        kind, there = self._wires.kind(here), self._wires.kind(hop.to)
        if hop.to in path.through:
            return None
        over_gpu = here != base and kind is DeviceKind.GPU
        nvlink = hop.kind is LinkKind.NVLINK and there is DeviceKind.GPU
        if over_gpu and not (self._options.nvb and nvlink and path.hops <= 1):
            return None
        type_ = _STEP[hop.kind]
        if hop.kind is LinkKind.PCI and kind is there is DeviceKind.PCI:
            type_ = PathType.PXB
        elif hop.kind is LinkKind.PCI and DeviceKind.CPU in (kind, there):
            type_ = PathType.PHB
        elif over_gpu and path.type is PathType.NVL:
            type_ = PathType.NVB
        return Path(
            type=max(path.type, type_),
            gbs=min(path.gbs, hop.gbs),
            through=(*path.through, hop.to),
        )


def _joined(first: Path, second: Path, type_: PathType) -> Path:
    return Path(
        type=type_,
        gbs=min(first.gbs, second.gbs),
        through=(*first.through, *second.through[1:]),
    )


__all__ = ["NVSWITCHES", "Options", "Path", "Paths"]
