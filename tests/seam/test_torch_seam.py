"""The seam to torch: what it checks, and that it changes nothing for anybody else."""

import socket

import torch.distributed.launcher.api as launcher_api
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

from resilient.agent import torch_seam
from resilient.agent.fresh_store import fresh_store
from resilient.agent.rebind import rebound


def test_this_torch_is_known():
    assert torch_seam.unknown_torch() is None


def test_a_torch_whose_agent_takes_other_arguments_is_not(monkeypatch):
    monkeypatch.setattr(LocalElasticAgent, "_invoke_run", lambda self, role, more: None)
    assert "_invoke_run" in (torch_seam.unknown_torch() or "")


def test_a_torch_without_the_method_is_not(monkeypatch):
    monkeypatch.delattr(LocalElasticAgent, "_start_workers")
    monkeypatch.delattr(
        LocalElasticAgent.__mro__[1], "_start_workers"
    )  # the abstract one would be found instead
    assert "_start_workers" in (torch_seam.unknown_torch() or "")


def test_a_rebound_function_sees_the_other_name_and_the_module_keeps_its_own():
    made = torch_seam.launch(lambda agent: None)
    assert made is not launcher_api.elastic_launch
    assert launcher_api.LocalElasticAgent is LocalElasticAgent

    def adds(value, *, by=1):
        return len(value) + by

    copy = rebound(adds, len=lambda value: 40)
    assert copy("x", by=2) == 42
    assert copy("x") == 41
    assert adds("x") == 2


def handler_for(**facts):
    return get_rendezvous_handler(
        RendezvousParameters(run_id="test", min_nodes=1, max_nodes=1, timeout=30, **facts)
    )


def store_of(info):
    where = info.bootstrap_store_info
    from torch.distributed import TCPStore

    return TCPStore(where.master_addr, where.master_port, is_master=False)


def test_a_c10d_rendezvous_gets_a_new_empty_server_each_time():
    handler = handler_for(backend="c10d", endpoint="localhost:0")
    first = handler.next_rendezvous()
    store_of(first).set("stale", "address")
    with fresh_store(handler, 1):
        second = handler.next_rendezvous()
    assert not store_of(second).check(["stale"])
    assert "next_rendezvous" not in vars(handler)
    handler.shutdown()


def test_a_static_rendezvous_keeps_the_named_port_and_loses_what_was_stored():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    handler = handler_for(backend="static", endpoint=f"127.0.0.1:{port}", rank=0)
    first = handler.next_rendezvous()
    store_of(first).set("stale", "address")
    del first
    for _ in range(3):
        with fresh_store(handler, 1):
            again = handler.next_rendezvous()
        assert again.bootstrap_store_info.master_port == port
        store = store_of(again)
        assert not store.check(["stale"])
        store.set("stale", "address")
        del again, store
