"""NCCL's graph files (NCCL_GRAPH_FILE, NCCL_GRAPH_DUMP_FILE): the rings and trees of a host.

graphs > graph (ring, tree, …) > channel > net gpu gpu … net
"""

from enum import IntEnum

import msgspec

from resilient.model.topology import PathType
from resilient.topology.malformed import Malformed, printable
from resilient.topology.numbers import real, whole
from resilient.topology.xml_reader import Element, read_xml

_LOCAL = (1 << 56) - 1  # above it: the number of the system (host) in a multi-host NVLink domain
_FIX = "dump it again with NCCL"


class GraphKind(IntEnum):
    """NCCL's numbers of its graphs."""

    RING = 0
    TREE = 1
    COLLNET_CHAIN = 2
    NVLS = 3
    COLLNET_DIRECT = 4


class Pattern(IntEnum):
    """How a channel's GPUs are connected."""

    BALANCED_TREE = 1
    SPLIT_TREE = 2
    TREE = 3
    RING = 4
    NVLS = 5
    COLLNET_DIRECT = 6


class Stop(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU or NIC of a channel."""

    is_gpu: bool
    dev: int  # NCCL's number on its system
    system: int = 0
    rank: int | None = None  # of a GPU; old files have none


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """One way of sending, over all its channels. Speeds in GB/s for each channel."""

    kind: GraphKind
    pattern: Pattern
    speed_intra: float | None
    speed_inter: float | None
    type_intra: PathType | None  # None: a name that is not known
    type_inter: PathType | None
    crosses_nics: bool
    channels: tuple[tuple[Stop, ...], ...]


def read_graphs(data: bytes, label: str) -> tuple[Graph, ...]:
    """Raises Malformed for what is no graph file."""
    root = read_xml(data, label)
    if root.tag != "graphs":
        what = f"<{printable(root.tag, 30)}> instead of <graphs>"
        raise Malformed(label, root.line, what, "give a graph file, not a topology file")
    if whole(root.attributes.get("version", "")) != 1:
        raise Malformed(label, root.line, "version is not 1", _FIX)
    return tuple(_graph(element, label) for element in root.all("graph"))


def _graph(element: Element, label: str) -> Graph:
    given = element.attributes
    kind, pattern = (whole(given.get(name, "")) for name in ("id", "pattern"))
    if kind not in set(GraphKind) or pattern not in set(Pattern):
        raise Malformed(label, element.line, "a graph whose id or pattern is not known", _FIX)
    channels = tuple(_channel(one, label) for one in element.all("channel"))
    expected = whole(given.get("nchannels", ""))
    if expected is not None and expected != len(channels):
        what = f"{len(channels)} channels instead of {expected}"
        raise Malformed(label, element.line, what, f"the file is cut off or edited; {_FIX}")
    return Graph(
        kind=GraphKind(kind),
        pattern=Pattern(pattern),
        speed_intra=real(given.get("speedintra", "")),
        speed_inter=real(given.get("speedinter", "")),
        type_intra=PathType.__members__.get(given.get("typeintra", "")),
        type_inter=PathType.__members__.get(given.get("typeinter", "")),
        crosses_nics=bool(whole(given.get("crossnic", ""))),
        channels=channels,
    )


def _channel(element: Element, label: str) -> tuple[Stop, ...]:
    stops = []
    for one in element.children:
        if one.tag not in ("gpu", "net"):
            continue
        dev = whole(one.attributes.get("dev", ""))
        if dev is None or dev < 0:
            raise Malformed(label, one.line, f"a <{one.tag}> without a number as dev", _FIX)
        stops.append(
            Stop(
                is_gpu=one.tag == "gpu",
                dev=dev & _LOCAL,
                system=dev >> 56,
                rank=whole(one.attributes.get("rank", "")),
            )
        )
    return tuple(stops)
