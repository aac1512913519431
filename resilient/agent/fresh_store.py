"""A store server of its own for every attempt after the first.

torchrun's restarted workers share the store of the dead ones and read their addresses: of ten
restarts four to seven never initialised. A new server is empty, so nothing stale can be read.
Part of the seam: it knows how torch's two kinds of rendezvous keep their server.
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any

from torch.distributed.elastic.rendezvous.dynamic_rendezvous import DynamicRendezvousHandler
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from resilient.agent.rebind import rebound

BIND_TIMEOUT_S = 10.0  # for how long a port that the user named is tried again


@contextmanager
def fresh_store(handler: Any, nodes: int) -> Iterator[None]:
    """While inside, `handler.next_rendezvous()` gives the workers a new, empty store server.

    c10d and etcd-v2 choose a new port. Static rendezvous keeps the port that the user named:
    the old server is closed first and the bind retried for `BIND_TIMEOUT_S`. A static group of
    several nodes keeps its server, since the other agents are clients of it.
    """
    original = handler.next_rendezvous
    if isinstance(handler, DynamicRendezvousHandler):
        handler._shared_tcp_store_server = None
        handler._bootstrap_store_info = None
        handler.next_rendezvous = MethodType(_without_delay(), handler)  # type: ignore[method-assign]
    elif isinstance(handler, StaticTCPRendezvous) and nodes == 1:
        handler._store = None
        gc.collect()  # a server lives as long as a reference to it, and its port as long
        handler.next_rendezvous = lambda: _bind_again(handler, original)  # type: ignore[method-assign]
    try:
        yield
    finally:
        handler.__dict__.pop("next_rendezvous", None)


def _without_delay() -> Any:
    """torch's method without its random pause, which spreads the first arrival of many nodes."""
    return rebound(DynamicRendezvousHandler.next_rendezvous, _delay=lambda seconds: None)


def _bind_again(handler: Any, next_rendezvous: Any) -> Any:
    deadline = time.monotonic() + BIND_TIMEOUT_S
    while True:
        try:
            return next_rendezvous()
        except RuntimeError as error:
            if "EADDRINUSE" not in str(error) or time.monotonic() > deadline:
                raise
            handler._store = None
            time.sleep(0.05)
