"""What surrounds a job goes away or does odd things: scribe, readers, signals, launchers."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from agent.starting import BIN, killed_at_last, run, start, write
from resilient.sense.processes import descendants

TALKS = """
from note import ATTEMPT, HERE, RANK, note, wait_for
import os, signal, sys, time
print(f"before of {RANK} in {ATTEMPT}", flush=True)
note("start")
if ATTEMPT == 0:
    while not os.path.exists(HERE + "/go"):
        time.sleep(0.01)
    print(f"after of {RANK}", flush=True)
    note("told")
    wait_for("told", 2)
    if RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
note("done")
"""


def test_the_scribe_is_killed(tmp_path: Path) -> None:
    """Another takes over: no output is lost from then on, and a restart works."""
    with killed_at_last(start(tmp_path, TALKS)) as job:
        job.noted("start", 2)
        scribe = next(p.pid for p in descendants(job.pid) if p.comm == "rr-scribe")
        os.kill(scribe, signal.SIGKILL)
        (tmp_path / "go").touch()
        ended = job.end()
    assert ended.code == 0
    assert len(ended.noted("done")) == 2
    assert ended.events("scribe.revived") or ended.events("scribe.note")
    for rank in (0, 1):
        assert f"after of {rank}" in ended.out
        assert f"before of {rank} in 1" in ended.out


def test_the_scribe_is_stopped(tmp_path: Path) -> None:
    """A run that has ended well is not held by it."""
    text = "from note import note\nimport time\nnote('start')\ntime.sleep(2)\nnote('done')"
    with killed_at_last(start(tmp_path, text)) as job:
        job.noted("start", 2)
        scribe = next(p.pid for p in descendants(job.pid) if p.comm == "rr-scribe")
        os.kill(scribe, signal.SIGSTOP)
        ended = job.end(40)
    assert ended.code == 0
    assert len(ended.noted("done")) == 2
    assert "the process that writes the records is stuck" in ended.err


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_nobody_reads_us_any_more(tmp_path: Path, stream: str) -> None:
    """A worker that prints into the broken pipe ends as it would; the launcher's report does not
    change the exit code."""
    (tmp_path / "go").touch()
    quiet = TALKS.replace("print(", "str(") if stream == "stdout" else TALKS
    reading, writing = os.pipe()
    os.close(reading)
    streams: dict[str, Any] = {stream: writing}
    job = start(tmp_path, quiet.replace(", flush=True", ""), **streams)
    os.close(writing)
    with killed_at_last(job):
        ended = job.end()
    assert ended.code == 0
    assert len(ended.noted("done")) == 2


def test_a_signal_that_is_not_handled(tmp_path: Path) -> None:
    """It ends the launcher, as it would end torchrun, but leaves no workers behind."""
    with killed_at_last(start(tmp_path, TALKS)) as job:
        job.noted("start", 2)
        job.signal(signal.SIGUSR1)
        assert job.end().code == -signal.SIGUSR1


def test_a_signal_that_is_asked_for(tmp_path: Path) -> None:
    flags = "--signals-to-handle=SIGTERM,SIGUSR1"
    with killed_at_last(start(tmp_path, TALKS, flags)) as job:
        job.noted("start", 2)
        job.signal(signal.SIGUSR1)
        ended = job.end()
    assert ended.code == 1
    assert ended.run.run.sentence == "Stopped by SIGUSR1 from outside."


def test_a_run_inside_a_run(tmp_path: Path) -> None:
    """A rank starts a launcher of its own; both have records of their own."""
    inner = write(tmp_path / "inner", "from note import note\nnote('inner')")
    outer = f"""
    from note import RANK
    import subprocess, sys
    if RANK == 0:
        command = [{str(BIN / "resilient-run")!r}, "--standalone", "--nproc-per-node=2"]
        sys.exit(subprocess.call([*command, {str(inner)!r}]))
    """
    ended = run(tmp_path, outer)
    assert ended.code == 0
    assert (inner.parent / "notes.jsonl").read_text().count("inner") == 2
    assert ended.run.run.world_size == 2
    assert ended.run.run.exit_code == 0
