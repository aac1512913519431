"""T23: nothing of an attempt starts before all of the one before is dead."""

import os
from pathlib import Path

from agent.starting import free_port, run

# Each kind notes its pid, and beats until it is killed.
CREATURES = """
from note import ATTEMPT, HERE, RANK, note, wait_for
import json, os, signal, subprocess, sys, time

BEAT = '''
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
while True:
    os.write(fd, b"%d %r\\\\n" % (os.getpid(), time.monotonic()))
    time.sleep(0.001)
'''
COMMAND = [sys.executable, "-I", "-S", "-c", BEAT, os.path.join(HERE, f"beats-{ATTEMPT}")]


def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(COMMAND[0], COMMAND, {})
        os._exit(0)
    os.wait()


def living():
    found = []
    for line in open(os.path.join(HERE, f"beats-{ATTEMPT - 1}")):
        pid = int(line.split()[0])
        try:
            state = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and BEAT.encode() in open(f"/proc/{pid}/cmdline", "rb").read():
            found.append(pid)
    return found


note("start", living=living() if ATTEMPT else [])
if ATTEMPT < 2:
    signal.signal(signal.SIGTERM, lambda *_: None)
    daemon()
    subprocess.Popen(COMMAND, start_new_session=True)
    stopped = subprocess.Popen(COMMAND)
    time.sleep(0.3)
    stopped.send_signal(signal.SIGSTOP)
    note("ready")
    if RANK == 1:
        wait_for("ready", 2 + 2 * ATTEMPT)
        raise [ValueError, KeyError][ATTEMPT]
    while True:
        time.sleep(1)
"""


def test_all_are_dead_before_the_next_attempt(tmp_path: Path) -> None:
    """Daemons with a clean environment, deaf to SIGTERM, or stopped; workers deaf to it too."""
    ended = run(
        tmp_path,
        CREATURES,
        "--max-restarts=2",
        rendezvous=f"--master-port={free_port()}",
        env={"RESILIENT_FAULT_GRACE_S": "0.3"},
    )
    assert ended.code == 0
    starts = {e["attempt"]: e["mono"] for e in ended.events("attempt.start")}
    assert set(starts) == {0, 1, 2}
    assert all(not line["living"] for line in ended.noted("start"))
    for attempt in (0, 1):
        beats = [line.split() for line in (tmp_path / f"beats-{attempt}").read_text().splitlines()]
        pids = {int(pid) for pid, _ in beats}
        assert len(pids) == 6  # three of each rank
        assert max(float(at) for _, at in beats) < starts[attempt + 1]
        assert not any(Path(f"/proc/{pid}/cwd").exists() for pid in pids if pid != os.getpid())
