"""The topology: devices and links of hosts, hosts of a cluster, and who uses what.

Two levels. A `HostClass` is one graph for all hosts that are built alike; the `Cluster` has a
`HostRef` for each host, which names its class and what differs there (health, counters, names),
and the network between hosts. Ids are unique inside a class ("gpu3", "0000:18:00.0"); in the
cluster a host's device is "<host>/<id>".
"""

from enum import Enum, IntEnum

import msgspec

Fact = str | int | float | bool


class DeviceKind(Enum):
    """What a node of the graph is."""

    HOST = "host"
    CPU = "cpu"  # a NUMA node
    PCI = "pci"  # a bridge or switch
    GPU = "gpu"
    NVSWITCH = "nvswitch"
    NIC = "nic"
    PORT = "port"  # of a NIC: an InfiniBand port, or a net device
    SWITCH = "switch"  # of a network
    RANK = "rank"


class LinkKind(Enum):
    """What a link is, in NCCL's own words where it has one."""

    PCI = "PCI"
    NVLINK = "NVL"
    C2C = "C2C"  # CPU to GPU, coherent
    CPU = "SYS"  # between CPUs of one host
    NETWORK = "NET"
    PART = "part"  # a port of its NIC, a rank on its GPU: no bandwidth of its own
    USE = "use"  # NCCL or gloo sends between two ranks


class PathType(IntEnum):
    """NCCL's path types, best first (graph/topo.h)."""

    LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET, DIS = range(12)


class Health(Enum):
    """As far as a source could tell."""

    OK = "ok"
    DEGRADED = "degraded"  # works, but slower than it should or with errors
    DOWN = "down"
    UNKNOWN = "unknown"


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """A node of the graph."""

    id: str
    kind: DeviceKind
    name: str = ""  # for people: "H100 SXM5", "mlx5_0"
    parent: str = ""  # where it is drawn inside: a NIC's PCI switch, a port's NIC; "" for a CPU
    bus_id: str = ""  # "0000:18:00.0", lower case
    health: Health = Health.UNKNOWN
    facts: dict[str, Fact] = {}  # by the names of the source that is nearest to the hardware
    counters: dict[str, int] = {}  # ever growing ones
    sources: tuple[str, ...] = ()  # who said so: "nccl_xml:/path", "sysfs", "nvml"


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """Between two devices; the same in both directions unless `one_way`."""

    a: str
    b: str
    kind: LinkKind
    gbs: float | None = None  # GB/s in one direction, as NCCL counts it; None: not known
    best_gbs: float | None = None  # what it could be, e.g. by the slot's width
    count: int = 1  # parallel links that are summed in `gbs`
    one_way: bool = False
    health: Health = Health.UNKNOWN
    facts: dict[str, Fact] = {}
    counters: dict[str, int] = {}
    sources: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The same for the two ways to write it."""
        ends = (self.a, self.b) if self.one_way else sorted((self.a, self.b))
        return f"{self.kind.value}:{ends[0]}--{ends[1]}"


class HostClass(msgspec.Struct, frozen=True, kw_only=True):
    """All hosts that are built alike."""

    devices: tuple[Device, ...]
    links: tuple[Link, ...]


class Differs(msgspec.Struct, frozen=True, kw_only=True):
    """What of one device or link is otherwise on one host. None and empty: as in the class."""

    id: str
    health: Health | None = None
    gbs: float | None = None
    facts: dict[str, Fact] = {}
    counters: dict[str, int] = {}


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that could not be found out, and why."""

    what: str
    why: str


class HostRef(msgspec.Struct, frozen=True, kw_only=True):
    """One host of the cluster."""

    name: str
    class_id: str
    devices: tuple[Differs, ...] = ()
    links: tuple[Differs, ...] = ()
    missing: tuple[Missing, ...] = ()


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The whole: host classes by id, hosts, network switches, ranks, and links between them.

    Ends of `links` are ids of `devices`, or "<host>/<id>".
    """

    classes: dict[str, HostClass]
    hosts: tuple[HostRef, ...]
    devices: tuple[Device, ...] = ()
    links: tuple[Link, ...] = ()
    missing: tuple[Missing, ...] = ()
