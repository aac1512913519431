"""T26: two runs on one host."""

from pathlib import Path

from agent.starting import free_port, killed_at_last, run, start

WAIT = """
from note import HERE, RANK, note
import os, time
note("start")
while not os.path.exists(HERE + "/end"):
    time.sleep(0.01)
"""


def test_two_at_once(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    with killed_at_last(start(first, WAIT)) as one, killed_at_last(start(second, WAIT)) as two:
        one.noted("start", 2)
        two.noted("start", 2)
        for folder in (first, second):
            (folder / "end").touch()
        assert one.end().code == 0
        assert two.end().code == 0


def test_who_holds_the_port_is_said(tmp_path: Path) -> None:
    port = free_port()
    first, second = tmp_path / "first", tmp_path / "second"
    with killed_at_last(start(first, WAIT, rendezvous=f"--master-port={port}")) as one:
        one.noted("start", 2)
        other = run(second, WAIT, rendezvous=f"--master-port={port}")
        assert other.code == 1
        holder = next(line for line in other.err.splitlines() if f"port {port} is held" in line)
        assert str(one.agent) in holder
        assert "resilient-run" in holder and "script.py" in holder
        (first / "end").touch()
        assert one.end().code == 0


def test_who_holds_the_port_of_c10d_is_said(tmp_path: Path) -> None:
    """The port of --rdzv-endpoint: here torch, unlike above, joins what listens there."""
    port = free_port()
    first, second = tmp_path / "first", tmp_path / "second"
    flags = f"--rdzv-backend=c10d --rdzv-endpoint=localhost:{port}"
    with killed_at_last(start(first, WAIT, rendezvous=flags + " --rdzv-id=one")) as one:
        one.noted("start", 2)
        with killed_at_last(start(second, WAIT, rendezvous=flags + " --rdzv-id=two")) as two:
            two.noted("start", 2)
            for folder in (first, second):
                (folder / "end").touch()
            assert one.end().code == 0
            assert two.end().code == 0
