"""Links that NCCL's topology files name inside GPUs, and those between CPUs that it adds."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from resilient.model.topology import Device, DeviceKind, Link, LinkKind, Missing
from resilient.topology.malformed import printable
from resilient.topology.nccl_speeds import cpu_link_gbs, nvlink_gbs, xgmi_gbs
from resilient.topology.numbers import real, whole
from resilient.topology.xml_reader import Element

_ANYWHERE = "ffff:ff:"  # a target that NVML does not name: the NVSwitch
SWITCH = "nvswitch"  # the id of one that no file names


def cpu_mesh(cpus: Sequence[Device], source: str) -> list[Link]:
    """NCCL connects every CPU of a host with every other one."""
    links = []
    for one, other in combinations(cpus, 2):
        facts = one.facts
        arch, vendor = str(facts.get("arch", "")), str(facts.get("vendor", ""))
        model = whole(str(facts.get("modelid", ""))) or 0
        known = cpu_link_gbs(arch, vendor, model) if arch else None
        links.append(Link(a=one.id, b=other.id, kind=LinkKind.CPU, gbs=known, sources=(source,)))
    return links


def gpu_links(
    gpus: Iterable[tuple[Device, Element]], devices: Mapping[str, Device], source: str
) -> tuple[list[Device], list[Link], list[Missing]]:
    """NVLink, xGMI and C2C: switches that only links name, the links, and what is wrong.

    Both ends name a link between two GPUs; it counts once, as the stronger of the two.
    """
    switches: dict[str, Device] = {}
    links: dict[str, Link] = {}
    wrong: list[Missing] = []
    for gpu, element in gpus:
        for inner in element.children:
            if inner.tag in ("nvlink", "xgmi"):
                found = _link(gpu, inner, devices, switches, source)
            elif inner.tag == "c2c":
                found = _c2c(gpu, inner, source)
            else:
                continue
            if isinstance(found, Missing):
                wrong.append(found)
            elif found.id not in links or (links[found.id].gbs or 0) < (found.gbs or 0):
                links[found.id] = found
    return list(switches.values()), list(links.values()), wrong


def _link(
    gpu: Device,
    element: Element,
    devices: Mapping[str, Device],
    switches: dict[str, Device],
    source: str,
) -> Link | Missing:
    target = printable(element.attributes.get("target", "").lower(), 40)
    count = whole(element.attributes.get("count", "")) or 1
    if target == gpu.id:
        return Missing(what=gpu.id, why=f"line {element.line}: its {element.tag} leads to itself")
    if target.startswith(_ANYWHERE) or not target:
        target = SWITCH
    there = devices.get(target)
    if there is None and element.tag == "xgmi":
        return Missing(
            what=gpu.id, why=f"line {element.line}: xgmi to {target}, which is not there"
        )
    if there is None and target not in switches:
        switches[target] = Device(
            id=target,
            kind=DeviceKind.NVSWITCH,
            bus_id=target if target != SWITCH else "",
            sources=(source,),
        )
    return Link(
        a=gpu.id,
        b=target,
        kind=LinkKind.NVLINK,
        gbs=round(count * _each_gbs(gpu, element.tag), 3),
        count=count,
        facts={"protocol": element.tag},
        sources=(source,),
    )


def _each_gbs(gpu: Device, tag: str) -> float:
    if tag == "xgmi":
        return xgmi_gbs(whole(str(gpu.facts.get("gpu_gcn", ""))) or 0)
    return nvlink_gbs(whole(str(gpu.facts.get("gpu_sm", ""))) or 0)


def _c2c(gpu: Device, element: Element, source: str) -> Link:
    count = whole(element.attributes.get("count", "")) or 1
    each = real(element.attributes.get("bw", "")) or 0.0
    return Link(
        a=gpu.parent,
        b=gpu.id,
        kind=LinkKind.C2C,
        gbs=each * count / 1000,
        count=count,
        sources=(source,),
    )
