"""Whoever is killed, no worker's output fails, and nobody stays behind."""

import contextlib
import fcntl
import os
import signal
import subprocess
from pathlib import Path

from output_kit import Job, agent, alive, eventually, logs, open_fds, run_agent

COUNT = """
import os, sys, time
for n in range(int(sys.argv[1])):
    os.write(1, b"%d\\n" % n)
    time.sleep(0.005)
"""


def test_killed_scribe_is_replaced_and_the_worker_notices_nothing(tmp_path: Path) -> None:
    code = f"""
job = Job(sys.argv[1])
job.folder()
worker = job.start({COUNT!r}, 300, stderr=False)
job.start("import os; os.write(1, b'short')", rank=1, console=False)
assert job.pump(lambda: "15" in job.scribe.tail(0, 0, timeout_s=0))
first = job.scribe.pid
os.kill(first, signal.SIGKILL)
assert job.pump(lambda: job.scribe.pid != first)
assert job.finish() == [0, 0], job.notes
assert any("was replaced" in note for note in job.notes), job.notes
"""
    status, out, err = run_agent(code, tmp_path / "run")
    assert (status, err) == (0, b"")
    shown = [int(line) for line in out.split()]
    assert shown == sorted(set(shown)) and shown[-1] == 299 and len(shown) > 250
    logged = [int(n) for n in logs(tmp_path / "run")["stdout.log"].split()]
    assert logged == sorted(set(logged)) and logged[-1] == 299 and len(logged) > 250


def test_scribe_that_cannot_live_is_tried_again_in_good_time() -> None:
    job = Job()
    job.start(COUNT, 400, console=False)
    pids = {job.scribe.pid}
    os.kill(job.scribe.pid, signal.SIGKILL)
    assert job.pump(lambda: job.scribe.pid not in pids)
    pids.add(job.scribe.pid)
    os.kill(job.scribe.pid, signal.SIGKILL)
    assert job.pump(lambda: job.scribe.pid not in pids)
    assert job.finish() == [0]


def test_signals_meant_for_the_job_do_not_end_it(tmp_path: Path) -> None:
    job = Job(tmp_path / "run")
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGTSTP", "SIGPIPE", "SIGALRM")
    for name in names:
        os.kill(job.scribe.pid, getattr(signal, name))
    job.start("import os; os.write(1, b'fine')", console=False)
    pid = job.scribe.pid
    assert job.finish() == [0]
    assert job.scribe.pid == pid
    assert logs(tmp_path / "run") == {"stdout.log": b"fine"}


def test_killed_agent(tmp_path: Path) -> None:
    """The scribe goes on for the workers that are left, and ends with the last of them."""
    code = f"""
job = Job(sys.argv[1])
job.folder()
worker = job.start({COUNT!r}, 100, stderr=False)
print(job.scribe.pid, file=sys.stderr)
os.kill(os.getpid(), signal.SIGKILL)
"""
    with agent(code, tmp_path / "run", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        scribe = int(process.stderr.readline())
        out = process.stdout.read()
        assert process.wait(10) == -9
    assert out == b"".join(b"%d\n" % n for n in range(100))
    assert eventually(lambda: not alive(scribe), 10)
    assert logs(tmp_path / "run")["stdout.log"] == out


def test_daemonised_grandchild_keeps_its_channel(tmp_path: Path) -> None:
    worker = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while not os.path.exists(os.sys.argv[1]):
            time.sleep(0.01)
        os.write(1, b"late\\n")
    os._exit(0)
os.write(1, b"early\\n")
"""
    job = Job(tmp_path / "run")
    job.start(worker, tmp_path / "go", console=False)
    assert job.wait() == [0]
    assert not job.scribe.drain(0, timeout_s=0.3)
    assert job.scribe.tail(0, 0, timeout_s=0.1) == ("early",)
    (tmp_path / "go").touch()
    assert job.scribe.drain(0, timeout_s=30)
    assert job.scribe.tail(0, 0) == ("early", "late")
    job.scribe.close()
    assert logs(tmp_path / "run") == {"stdout.log": b"early\nlate\n"}


def test_close_does_not_wait_for_a_talkative_leftover(tmp_path: Path) -> None:
    job = Job(tmp_path / "run")
    worker = job.start("import os\nwhile True: os.write(1, b'x' * 1000)", console=False)
    pid = job.scribe.pid
    assert job.pump(lambda: job.scribe.tail(0, 0, timeout_s=0))
    job.scribe.close(0.5)
    assert worker.wait(30) == 1  # BrokenPipeError
    assert eventually(lambda: not alive(pid), 30)


def test_no_descriptor_is_left_or_inherited(tmp_path: Path) -> None:
    before = open_fds()
    job = Job(tmp_path / "run")
    outputs = job.scribe.outputs(attempt=0, rank=0, stdout=True, stderr=True, console=False)
    for fd in map(int, open_fds() - before):
        with contextlib.suppress(OSError):  # the listing's own
            assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC, os.readlink(
                f"/proc/self/fd/{fd}"
            )
    outputs.close()
    outputs.close()
    for attempt in range(3):
        for rank in range(8):
            job.start("print('x')", rank=rank, attempt=attempt, console=False)
        job.wait()
        assert job.scribe.drain(attempt, timeout_s=30)
    os.kill(job.scribe.pid, signal.SIGKILL)
    assert job.pump(lambda: "replaced" in " ".join(job.notes))
    job.scribe.close()
    job.scribe.close()
    assert open_fds() == before
    assert job.scribe.poll() == () and job.scribe.dropped() == 0


def test_use_after_close_is_harmless() -> None:
    job = Job()
    job.scribe.close()
    job.scribe.record("events", b"{}")
    job.scribe.window_size()
    assert job.scribe.poll() == ()
    assert job.scribe.tail(0, 0) == ()
    assert not job.scribe.drain(0, timeout_s=0.1)
    assert not job.scribe.revive()
    before = open_fds()
    outputs = job.scribe.outputs(attempt=0, rank=0, stdout=True, stderr=True, console=False)
    assert outputs.stdout_fd is None
    outputs.close()
    assert open_fds() == before
