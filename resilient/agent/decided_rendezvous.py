"""Part of the seam: worker groups whose members were agreed upon, without torch's rendezvous.

torch's own rendezvous is for nodes that do not know of each other. After the first attempt the
agents do: who takes part is in the group's decision, so only a store for the workers is needed.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, NamedTuple

from torch.distributed import Store, TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.agent.server.api import Worker
from torch.distributed.elastic.rendezvous import dynamic_rendezvous
from torch.distributed.elastic.rendezvous.api import RendezvousInfo, RendezvousStoreInfo
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    DynamicRendezvousHandler,
    _DistributedRendezvousOpExecutor,
)
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from resilient.agent.rebind import rebound
from resilient.model.membership import View


class Met(NamedTuple):
    """What a rendezvous gives to a node: its workers' store and its place."""

    store: Store
    rank: int
    size: int
    host: str
    port: int


@contextmanager
def decided(handler: Any, meet: Callable[[], Met]) -> Iterator[None]:
    """While inside, `handler.next_rendezvous()` returns what `meet` does."""

    def next_rendezvous() -> RendezvousInfo:
        met = meet()
        info = RendezvousStoreInfo(met.host, met.port)
        return RendezvousInfo(met.store, met.rank, met.size, info)

    handler.next_rendezvous = next_rendezvous
    try:
        yield
    finally:
        handler.__dict__.pop("next_rendezvous", None)


@contextmanager
def interrupted(handler: Any, look: Callable[[], None]) -> Iterator[None]:
    """While inside, a node that waits in torch's rendezvous calls `look`, which may raise."""
    if not isinstance(handler, DynamicRendezvousHandler):
        yield
        return

    def delay(seconds: Any) -> None:
        dynamic_rendezvous._delay(seconds)  # type: ignore[attr-defined]
        look()

    executor = handler._op_executor
    run = rebound(_DistributedRendezvousOpExecutor.run, _delay=delay)
    executor.run = MethodType(run, executor)  # type: ignore[method-assign]
    try:
        yield
    finally:
        executor.__dict__.pop("run", None)


def workers_of(view: View, node: str) -> list[Worker]:
    """The workers of one node with their ranks, as torch would number them."""
    at = view.names.index(node)
    me = view.members[at]
    alike = [card for card in view.members if card.role == me.role]
    before = sum(card.nproc for card in view.members[:at] if card.role == me.role)
    return [
        Worker(
            local_rank=local_rank,
            global_rank=view.first_rank(node) + local_rank,
            role_rank=before + local_rank,
            world_size=sum(card.nproc for card in view.members),
            role_world_size=sum(card.nproc for card in alike),
        )
        for local_rank in range(me.nproc)
    ]


def shared_store(handler: Any) -> Store | None:
    """The store that the agents meet over, where it is one that a control plane can use.

    None before a static rendezvous has taken place, and for kinds that are not known.
    """
    store = getattr(handler, "_store", None)
    return store if isinstance(store, Store) else None


def node_limits(handler: Any) -> tuple[int, int, float]:
    """Least and most nodes of --nnodes, and for how many seconds torch waits for enough."""
    if isinstance(handler, DynamicRendezvousHandler):
        settings = handler.settings
        return settings.min_nodes, settings.max_nodes, settings.timeout.join.total_seconds()
    if isinstance(handler, StaticTCPRendezvous):
        return handler.world_size, handler.world_size, handler.timeout.total_seconds()
    return 1, 1, 600.0


def store_for_workers(handler: Any, address: str) -> tuple[Store, str, int]:
    """A store for the next attempt's workers, hosted by this node: store, host, port.

    A static rendezvous keeps the port that the user named. Its server is also the agents' own,
    so what the last attempt's workers left in it is deleted.
    """
    if isinstance(handler, StaticTCPRendezvous):
        store: Any = handler._store
        for key in store.list_keys():
            if not key.lstrip("/").startswith("resilient/"):
                store.delete_key(key)
        return store, handler.master_addr, handler.master_port
    server = TCPStore(address, 0, is_master=True, wait_for_workers=False, multi_tenant=True)
    return server, address, server.port


def own_address(handler: Any) -> str:
    """Where other nodes reach this one, as torch found or was told."""
    if isinstance(handler, DynamicRendezvousHandler):
        return str(handler._this_node.addr)
    return str(getattr(handler, "master_addr", "localhost"))
