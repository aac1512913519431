"""A machine with a process that cannot be killed gets no work of this run any more."""

from typing import cast

import pytest
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from resilient.agent.control_store import TorchControlStore
from resilient.agent.opening import RECYCLE, NotTakenIn, join
from resilient.agent.peers import Peers
from resilient.agent.sealing import Seal
from resilient.agent.session import Session
from resilient.model.membership import NodeCard, NodeLimits
from resilient.sense.machine import boot_id


def test_it_is_not_taken_in_again() -> None:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    first, again = (
        Peers(
            lambda: TorchControlStore(store, "run", 3.0),
            Seal(b"secret", "run"),
            NodeCard(node=name, host="h0", nproc=1),
            limits=NodeLimits(min_nodes=1, max_nodes=2),
            limit_s=3.0,
            kill=lambda: None,
        )
        for name in ("h0-1", "h0-2")
    )
    assert boot_id()
    first.roster.condemn("another machine", "h1-1")
    assert not again.roster.is_condemned(boot_id())
    first.roster.condemn(boot_id(), first.me.node)
    with pytest.raises(NotTakenIn, match="restart the machine") as refused:
        join(again, cast(Session, None), 1.0)  # before it uses the session
    assert refused.value.exit_code == RECYCLE == 70
