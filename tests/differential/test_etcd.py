"""The etcd-v2 rendezvous, where the etcd server and its client for Python are installed."""

import contextlib
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pytest

from differential.case import Case
from differential.compare import compare, not_as_warm
from differential.conftest import note
from differential.execute import RESILIENT, TORCHRUN, execute, free_port
from differential.matrix import GROUP

ETCD = shutil.which("etcd")
pytestmark = [
    pytest.mark.skipif(ETCD is None, reason="no etcd server (Debian: etcd-server)"),
    pytest.mark.skipif(find_spec("etcd") is None, reason="no etcd client (pip: python-etcd)"),
]


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    """A server of our own on free ports, with the old interface that torch speaks."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    options = {"data-dir": str(tmp_path / "etcd"), "listen-peer-urls": peer}
    options |= {"listen-client-urls": client, "advertise-client-urls": client}
    command = [str(ETCD), "--enable-v2", *(f"--{k}={v}" for k, v in options.items())]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"{client}/v2/keys", timeout=1).close()
                break
            time.sleep(0.1)
        yield client.removeprefix("http://")
    finally:
        server.kill()
        server.wait()


def test_etcd(endpoint: str) -> None:
    results = []
    for launcher in (TORCHRUN, RESILIENT):
        flags = ("--nnodes", "1", "--rdzv-backend", "etcd-v2", "--rdzv-endpoint", endpoint)
        case = Case(
            "etcd-v2",
            (*flags, "--rdzv-id", str(uuid4())),
            nproc=2,
            do=GROUP,
            torch_both=True,
        )
        results.append(execute(case, launcher))
    theirs, ours = results
    found = compare(case, theirs, ours)
    note(case, found, ours)
    bad = [d for d in found if not d.reason]
    assert not bad, "\n".join(map(str, bad))
    assert not not_as_warm(case, ours)
