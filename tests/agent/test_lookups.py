"""A silent name server holds up the agent for a moment, not for the resolver's ten seconds."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import os, socket, threading, time
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.77", 53))
from resilient.agent.command import _bound_lookups
_bound_lookups()

def ask():  # as the thread that serves torch's store does
    try:
        socket.getnameinfo(("127.0.0.9", 80), 0)
    except OSError:
        pass

began = time.monotonic()
thread = threading.Thread(target=ask)
thread.start()
thread.join()
print(time.monotonic() - began)
os.execvp("sh", ["sh", "-c", "echo ${RES_OPTIONS-absent}"]) if os.fork() == 0 else os.wait()
"""


@pytest.mark.root
@pytest.mark.skipif(shutil.which("unshare") is None, reason="no unshare")
def test_a_silent_name_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RES_OPTIONS", raising=False)
    resolver = tmp_path / "resolv.conf"
    resolver.write_text("nameserver 127.0.0.77\n")
    program = tmp_path / "ask.py"
    program.write_text(ASK)
    script = 'mount --bind "$0" /etc/resolv.conf && exec "$1" "$2"'
    words = [str(word) for word in (resolver, sys.executable, program)]
    command = ["unshare", "--mount", "sh", "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    seconds, inherited = done.stdout.split()
    assert 0.5 < float(seconds) < 5.0, done.stdout
    assert inherited == "absent"
