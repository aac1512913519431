"""NCCL's topology files (version 1; RCCL's version 2) as one class of host.

system > cpu > {pci, nic};  pci > {pci, gpu, nic, pcilink};  gpu > {nvlink, xgmi, c2c};  nic > net

Files are hints: NCCL fills in from the machine what they leave out, so what is missing is said
and not guessed.
"""

from collections.abc import Iterator

import msgspec

from resilient.model.topology import Device, DeviceKind, HostClass, Link, LinkKind, Missing
from resilient.topology.malformed import Malformed, printable
from resilient.topology.nccl_links import cpu_mesh, gpu_links
from resilient.topology.nccl_speeds import knows_speed, pcie_gbs
from resilient.topology.numbers import real, whole
from resilient.topology.xml_reader import Element, read_xml

_NET_DEFAULT_MBS = 10_000.0  # NCCL's, for a speed that is not positive
_FACTS = ("class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed")
_NET_FACTS = ("dev", "port", "guid", "gdr", "rail", "plane", "latency", "maxconn")
_CPU_FACTS = ("affinity", "arch", "vendor", "familyid", "modelid", "host_hash")
_GPU_FACTS = ("dev", "sm", "rank", "gdr", "gcn", "arch")


class NcclTopology(msgspec.Struct, frozen=True, kw_only=True):
    """What a topology file says."""

    host: HostClass
    version: int
    missing: tuple[Missing, ...] = ()  # what it leaves open, with the line


def read_topology(data: bytes, label: str) -> NcclTopology:
    """Raises Malformed for what is no topology file, or contradicts itself."""
    root = read_xml(data, label)
    if root.tag != "system":
        what = f"<{printable(root.tag, 30)}> instead of <system>"
        raise Malformed(label, root.line, what, "give a topology file, not a graph file")
    version = whole(root.attributes.get("version", ""))
    if version not in (1, 2):
        raise Malformed(label, root.line, "version is neither 1 nor 2", "dump it again with NCCL")
    return _Builder(label).build(root, version)


class _Builder:
    """Collects devices and links of one file."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._source = f"nccl_xml:{printable(label, 200)}"
        self._devices: dict[str, Device] = {}
        self._lines: dict[str, int] = {}
        self._links: list[Link] = []
        self._missing: list[Missing] = []
        self._gpus: list[tuple[Device, Element]] = []

    def build(self, root: Element, version: int) -> NcclTopology:
        for at, cpu in enumerate(root.all("cpu")):
            self._cpu(cpu, at)
        cpus = [one for one in self._devices.values() if one.kind is DeviceKind.CPU]
        self._links += cpu_mesh(cpus, self._source)
        switches, links, missing = gpu_links(self._gpus, self._devices, self._source)
        for switch in switches:
            self._devices.setdefault(switch.id, switch)
        host = HostClass(devices=tuple(self._devices.values()), links=(*self._links, *links))
        return NcclTopology(host=host, version=version, missing=(*self._missing, *missing))

    def _add(self, device: Device, line: int) -> None:
        if device.id in self._devices:
            first = self._lines[device.id]
            what = f"{printable(device.id, 40)} is there twice (first in line {first})"
            raise Malformed(self._label, line, what, "keep one of the two")
        self._devices[device.id] = device
        self._lines[device.id] = line

    def _cpu(self, element: Element, at: int) -> None:
        numa = element.attributes.get("numaid", str(at))
        name = f"cpu{printable(numa, 20)}"
        facts = self._facts(element, _CPU_FACTS)
        if "arch" not in facts:
            self._lacks(element, name, "arch, without which NCCL refuses the file")
        self._add(self._device(name, DeviceKind.CPU, facts=facts), element.line)
        for child in element.all("pci"):
            self._pci(child, name)
        for number, nic in enumerate(element.all("nic")):
            found = self._device(f"{name}/nic{number}", DeviceKind.NIC, parent=name)
            self._add(found, nic.line)
            self._nets(nic, found.id)

    def _pci(self, element: Element, parent: str) -> None:
        bus_id = element.attributes.get("busid", "").lower()
        if not bus_id:
            raise Malformed(self._label, element.line, "<pci> without busid", "give its address")
        bus_id = printable(bus_id, 40)
        kind = _kind_of(element)
        facts = self._facts(element, _FACTS)
        for gpu in element.all("gpu")[:1]:
            facts |= {f"gpu_{k}": v for k, v in self._facts(gpu, _GPU_FACTS).items()}
        device = self._device(bus_id, kind, parent=parent, bus_id=bus_id, facts=facts)
        self._add(device, element.line)
        self._links.append(self._slot(element, device.id, parent))
        self._gpus += [(device, gpu) for gpu in element.all("gpu")[:1]]
        for nic in element.all("nic"):
            self._nets(nic, device.id)
        for child in element.all("pci"):
            self._pci(child, device.id)

    def _slot(self, element: Element, device: str, parent: str) -> Link:
        speed = element.attributes.get("link_speed", "")
        width = whole(element.attributes.get("link_width", "")) or 0
        if not speed or not width:
            self._lacks(element, device, "link_speed or link_width: taken from the machine")
        elif not knows_speed(speed):
            words = f"the link speed {printable(speed, 30)!r}, so NCCL takes PCIe 3"
            self._lacks(element, device, words)
        return Link(
            a=parent,
            b=device,
            kind=LinkKind.PCI,
            gbs=pcie_gbs(speed, width) if speed else None,
            facts={"link_width": width},
            sources=(self._source,),
        )

    def _nets(self, nic: Element, parent: str) -> None:
        for at, net in enumerate(nic.all("net")):
            name = printable(net.attributes.get("name", f"net{at}"), 40)
            speed = real(net.attributes.get("speed", "")) or 0.0
            facts = self._facts(net, _NET_FACTS)
            facts["gbs"] = (speed if speed > 0 else _NET_DEFAULT_MBS) / 8000
            port = self._device(
                f"{parent}/{name}", DeviceKind.PORT, parent=parent, name=name, facts=facts
            )
            self._add(port, net.line)
            self._links.append(
                Link(a=parent, b=port.id, kind=LinkKind.PART, sources=(self._source,))
            )

    def _device(self, id_: str, kind: DeviceKind, **more: object) -> Device:
        given = {"id": id_, "kind": kind, "sources": (self._source,), **more}
        return msgspec.convert(given, Device)

    def _lacks(self, element: Element, what: str, why: str) -> None:
        self._missing.append(Missing(what=what, why=f"line {element.line}: no known {why}"))

    @staticmethod
    def _facts(element: Element, names: tuple[str, ...]) -> dict[str, str | int | float | bool]:
        given = element.attributes
        return {name: printable(given[name], 255) for name in names if given.get(name)}


def _kind_of(element: Element) -> DeviceKind:
    """By NCCL's rules: what is inside, else the PCI class; without one a leaf says nothing."""
    class_ = element.attributes.get("class", "").lower()
    if element.all("gpu") or class_.startswith("0x03"):
        return DeviceKind.GPU
    if element.all("nic") or class_.startswith("0x02"):
        return DeviceKind.NIC
    return DeviceKind.NVSWITCH if class_ == "0x068000" else DeviceKind.PCI


def gpus(host: HostClass) -> Iterator[Device]:
    """The GPUs of a host, in the file's order."""
    return (device for device in host.devices if device.kind is DeviceKind.GPU)
