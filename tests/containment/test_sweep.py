"""sweep finds and kills everything below it, and says what it could not kill."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from containment.creatures import KINDS
from containment.surroundings import (
    HERE,
    as_nobody,
    environment,
    frozen_disk,
    needs_root,
    nothing_left,
    open_folder,
    python,
    running,
    wait_until,
)
from resilient.act import prctl
from resilient.act.reap import reap_orphans, sweep, terminate_then_sweep
from resilient.sense.processes import cmdline, descendants, stat


@pytest.fixture(autouse=True)
def others():
    """Children that other tests have left in this process: not ours to kill."""
    prctl.set_subreaper(True)
    yield {proc.pid for proc in descendants(os.getpid())}
    prctl.set_subreaper(False)


def spawn(folder, *kinds):
    process = subprocess.Popen(python("-S", str(HERE / "creatures.py"), folder, *kinds))
    wait_until(lambda: all(os.path.exists(f"{folder}/{kind}") for kind in kinds), str(kinds))
    return process


@pytest.fixture
def folder():
    with open_folder() as path:
        yield path


def forget(process):
    """The sweep has reaped it by its pid; Popen must not warn about it."""
    process.returncode = -9


@pytest.mark.parametrize("kind", KINDS)
def test_everything_below_is_killed(folder, kind, others):
    parent = spawn(folder, kind)
    swept = sweep(os.getpid(), keep=others, deadline_s=20)
    assert nothing_left(folder)
    assert swept.unkillable == ()
    assert parent.pid in swept.killed
    assert swept.rounds >= 1
    assert {proc.pid for proc in descendants(os.getpid())} == others
    forget(parent)


def test_everything_at_once_from_a_process_of_its_own(folder, others):
    """As an agent does it, and the time that it takes is not the sum of all."""
    parent = spawn(folder, *KINDS)
    swept = sweep(os.getpid(), keep=others, deadline_s=20)
    assert nothing_left(folder)
    assert swept.seconds < 10
    forget(parent)


def test_who_is_kept_lives_with_all_below(folder, others):
    parent = spawn(folder, "plain")
    other = subprocess.Popen(["sleep", "600"])
    below = int(Path(folder, "plain").read_text())
    swept = sweep(os.getpid(), keep={parent.pid} | others, deadline_s=20)
    assert swept.killed == (other.pid,)
    assert {parent.pid, below} <= set(running(folder))
    forget(other)
    assert sweep(os.getpid(), keep={parent.pid} | others, deadline_s=0).killed == ()
    sweep(os.getpid(), keep=others, deadline_s=20)
    assert nothing_left(folder)
    forget(parent)


def test_a_child_that_was_dead_before_is_reaped_and_not_called_killed(others):
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    swept = sweep(os.getpid(), keep=others, deadline_s=20)
    assert (swept.killed, swept.unkillable) == ((), ())
    with pytest.raises(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
    forget(child)


def test_below_another_process_whose_zombies_are_not_ours(folder):
    """root is not the caller: a zombie that only root can reap ends the sweep all the same."""
    root = subprocess.Popen(["bash", "-c", f"sleep 600 & exec -a {folder} sleep 600"])
    wait_until(lambda: cmdline(root.pid) == [folder, "600"], "exec")
    swept = sweep(root.pid, keep=(), deadline_s=20)
    assert len(swept.killed) == 1
    assert swept.unkillable == ()
    assert root.poll() is None
    assert swept.seconds < 5
    root.kill()
    root.wait()


def test_nothing_to_do_costs_next_to_nothing(others):
    crowd = [subprocess.Popen(["sleep", "600"]) for _ in range(30)]
    keep = {process.pid for process in crowd}
    took = min(sweep(os.getpid(), keep=keep | others, deadline_s=20).seconds for _ in range(20))
    for process in crowd:
        process.kill()
        process.wait()
    assert took < 0.01


def test_a_deadline_ends_it(others):
    child = subprocess.Popen(["sleep", "600"])
    started = time.monotonic()
    swept = terminate_then_sweep(os.getpid(), keep=others, grace_s=0, deadline_s=0.0)
    assert time.monotonic() - started < 5
    assert child.pid in swept.killed
    sweep(os.getpid(), keep=others, deadline_s=20)
    forget(child)


def test_asked_politely_first(folder, others):
    code = f"""
import signal, sys
def leave(*_):
    open({folder!r} + "/left", "a").write("x")
    sys.exit()
signal.signal(signal.SIGTERM, leave)
open({folder!r} + "/ready", "w")
signal.pause()
"""
    polite = subprocess.Popen(python("-c", code))
    wait_until(lambda: os.path.exists(f"{folder}/ready"), "handler")
    parent = spawn(folder, "stubborn", "stopped")
    swept = terminate_then_sweep(os.getpid(), keep=others, grace_s=0.5, deadline_s=20)
    assert Path(folder, "left").read_text() == "x"
    assert nothing_left(folder)
    assert swept.unkillable == ()
    assert {polite.pid, parent.pid} <= set(swept.killed)
    forget(polite)
    forget(parent)


def test_a_resource_tracker_may_clean_up_first(folder, others):
    """Its segment in shared memory would stay for ever if it were killed with the others."""
    code = f"""
import time
from multiprocessing import shared_memory
segment = shared_memory.SharedMemory(create=True, size=100)
with open({folder!r} + "/name", "w") as file:
    file.write(segment.name)
open({folder!r} + "/ready", "w")
time.sleep(600)
"""
    maker = subprocess.Popen(python("-c", code))
    wait_until(lambda: os.path.exists(f"{folder}/ready"), "segment")
    segment = "/dev/shm/" + Path(folder, "name").read_text()
    assert os.path.exists(segment)
    tracker = [pid for pid in running("resource_tracker") if stat(pid).ppid == maker.pid]
    swept = sweep(os.getpid(), keep=others, deadline_s=20, tracker_grace_s=10)
    assert not os.path.exists(segment)
    assert swept.killed == (maker.pid,)
    assert len(tracker) == 1
    assert not os.path.exists(f"/proc/{tracker[0]}")
    forget(maker)


def test_a_resource_tracker_that_does_not_end_is_killed(others):
    fake = "import time; 'resource_tracker import main'; time.sleep(600)"
    tracker = subprocess.Popen(python("-c", fake))
    wait_until(lambda: fake in cmdline(tracker.pid), "exec")
    swept = sweep(os.getpid(), keep=others, deadline_s=20, tracker_grace_s=0.2)
    assert swept.killed == (tracker.pid,)
    assert swept.seconds > 0.2
    forget(tracker)


@pytest.mark.root
@needs_root
def test_state_d_is_reported_and_does_not_hold_the_caller(others):
    with frozen_disk() as (disk, thaw):
        code = f"import os, time; os.fork() or time.sleep(600); open({disk!r} + '/file', 'w')"
        writer = subprocess.Popen(python("-c", code))
        wait_until(lambda: stat(writer.pid).state == "D", "state D")
        (below,) = descendants(writer.pid)
        swept = sweep(os.getpid(), keep=others, deadline_s=0.5)
        assert swept.unkillable == (writer.pid,)
        assert set(swept.killed) == {writer.pid, below.pid}
        assert swept.seconds < 5
        thaw()
        assert sweep(os.getpid(), keep=others, deadline_s=20).unkillable == ()
        forget(writer)


def test_a_process_whose_main_thread_has_ended_is_killed_too(others):
    code = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = subprocess.Popen(python("-c", code))
    own = Path(f"/proc/{process.pid}/stat")
    wait_until(lambda: ") Z " in own.read_text(), "end of the main thread")
    swept = sweep(os.getpid(), keep=others, deadline_s=20)
    assert (swept.killed, swept.unkillable) == ((process.pid,), ())
    forget(process)


def test_inherited_orphans_are_collected_and_own_children_are_not(others):
    own = subprocess.Popen(["true"])
    subprocess.run(["sh", "-c", "sleep 0.1 & true & true &"], check=True)
    collected = []

    def all_three():
        collected.append(reap_orphans(others | {own.pid}))
        return sum(collected) == 3

    wait_until(all_three, "three orphans")
    assert reap_orphans(others | {own.pid}) == 0
    assert own.wait() == 0


SWEEPER = """
import json, os, subprocess, sys, time
from resilient.act import prctl
from resilient.act.reap import sweep
folder, creatures, *kinds = sys.argv[1:]
prctl.set_subreaper(True)
subprocess.Popen([sys.executable, "-S", creatures, folder, *kinds]).returncode = 0
while not all(os.path.exists(f"{folder}/{kind}") for kind in kinds):
    time.sleep(0.01)
swept = sweep(os.getpid(), keep=(), deadline_s=20)
try:
    os.waitpid(-1, os.WNOHANG)
    left = True
except ChildProcessError:
    left = False
print(json.dumps([os.getpid(), os.geteuid(), left, swept.unkillable, len(swept.killed)]))
"""


def sweeper(folder):
    return python("-c", SWEEPER, folder, str(HERE / "creatures.py"), *KINDS)


def outcome(command, **where):
    done = subprocess.run(
        command,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **where,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.root
@needs_root
def test_an_ordinary_user_needs_no_privilege(folder):
    _, uid, left, unkillable, killed = outcome(as_nobody(sweeper(folder), folder), cwd="/")
    assert uid != 0
    assert (left, unkillable) == (False, [])
    assert killed >= len(KINDS)
    assert nothing_left(folder)


@pytest.mark.root
@needs_root
def test_as_pid_1_of_a_pid_namespace(folder):
    pid, _, left, unkillable, _ = outcome(["unshare", "-pf", "--mount-proc", *sweeper(folder)])
    assert pid == 1
    assert (left, unkillable) == (False, [])
    assert nothing_left(folder)
