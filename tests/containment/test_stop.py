"""stop_workers on real processes: handlers, graces, stopped, saving, hanging, in a hurry."""

import os
import signal
import subprocess
import time
from dataclasses import replace

import pytest

from containment.surroundings import frozen_disk, needs_root, open_folder, python, wait_until
from resilient.act.release import release
from resilient.act.stop import Senses, Target, stop_workers
from resilient.sense.processes import catches, is_stopped
from resilient.sense.saving import inside_save

LATE = 60.0  # a grace that no test waits for

SENSES = Senses(
    catches=catches,
    is_stopped=is_stopped,
    inside_save=inside_save,
    group_sockets=dict,
    release=release,
)


@pytest.fixture
def folder():
    with open_folder() as path:
        yield path


@pytest.fixture
def start():
    """Starts a worker from Python source: session of its own, prints a line when it is ready."""
    started = []

    def begin(code, *arguments):
        worker = subprocess.Popen(
            python("-c", code, *arguments), stdout=subprocess.PIPE, start_new_session=True
        )
        started.append((worker, os.pidfd_open(worker.pid)))
        assert worker.stdout.readline()
        return worker

    begin.targets = lambda: [Target(pid=w.pid, pidfd=fd) for w, fd in started]
    yield begin
    for worker, pidfd in started:
        os.close(pidfd)
        worker.kill()
        worker.communicate()


def stop(start, **how):
    how = {"signum": signal.SIGTERM, "stop_grace_s": LATE, "fault_grace_s": LATE} | how
    return stop_workers(start.targets(), senses=how.pop("senses", SENSES), **how)


PLAIN = "print(flush=True); import time; time.sleep(600)"

HANDLER = """
import signal, sys, time
def leave(number, frame):
    time.sleep(float(sys.argv[2]))
    open(sys.argv[1], "w").write(str(number))
    sys.exit(7)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, leave)
print(flush=True)
while True:
    time.sleep(600)
"""

DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
time.sleep(600)
"""


def test_the_usual_survivor_dies_of_the_signal_at_once(start):
    workers = [start(PLAIN) for _ in range(3)]
    began = time.monotonic()
    ends = stop(start, why="fault")
    took = time.monotonic() - began
    for worker in workers:
        end = ends[worker.pid]
        assert (end.dead, end.signal, end.released) == (True, "SIGTERM", False)
        assert began <= end.mono <= began + took
        assert worker.wait() == -signal.SIGTERM  # it was left for us to collect
    assert took < 2


def test_a_handler_runs_to_its_end_within_the_grace(start, folder):
    worker = start(HANDLER, f"{folder}/out", "0.3")
    end = stop(start, why="fault")[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGTERM")
    assert worker.wait() == 7
    assert open_text(f"{folder}/out") == str(int(signal.SIGTERM))


def test_a_handler_that_takes_too_long_is_cut_short(start, folder):
    worker = start(HANDLER, f"{folder}/out", "600")
    end = stop(start, why="fault", fault_grace_s=0.2)[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGKILL")
    assert worker.wait() == -signal.SIGKILL


def test_one_that_ignores_the_signal_is_killed_after_the_grace(start):
    worker = start(DEAF)
    assert stop(start, why="fault", fault_grace_s=0.2)[worker.pid].signal == "SIGKILL"


def test_a_stopped_one_is_killed_at_once_after_a_fault(start):
    worker = start(PLAIN)
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(worker.pid), "stop")
    end = stop(start, why="fault")[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGKILL")


def test_from_outside_the_same_signal_is_passed_on_and_a_stopped_one_may_act(start, folder):
    worker = start(HANDLER, f"{folder}/out", "0")
    worker.send_signal(signal.SIGSTOP)
    wait_until(lambda: is_stopped(worker.pid), "stop")
    end = stop(start, why="outside", signum=signal.SIGINT)[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGINT")
    assert open_text(f"{folder}/out") == str(int(signal.SIGINT))


def test_a_release_comes_after_the_signal_to_those_without_a_handler(start, folder):
    """Else a rank whose connection the release cuts would seem to have failed by itself."""
    first, second = start(HANDLER, f"{folder}/out", "0"), start(PLAIN)

    def release_it(pid, fds):
        assert (pid, fds) == (first.pid, [5])
        wait_until(lambda: state(second.pid) == "Z", "the other's end")
        return 1

    senses = replace(SENSES, group_sockets=lambda: {first.pid: [5]}, release=release_it)
    ends = stop(start, why="fault", senses=senses)
    assert (ends[first.pid].signal, ends[first.pid].released) == ("SIGTERM", True)
    assert (ends[second.pid].signal, ends[second.pid].released) == ("SIGTERM", False)


def test_the_whole_process_group_gets_it(start, folder):
    code = f"""
import os, signal, time
if os.fork() == 0:
    def leave(*_):
        open({folder!r} + "/child", "w")
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
    print(flush=True)
time.sleep(600)
"""
    start(code)
    stop(start, why="outside")
    wait_until(lambda: os.path.exists(f"{folder}/child"), "signal to the child")


def test_one_that_was_dead_before_gets_nothing(start):
    worker = start("print(flush=True)")
    os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
    end = stop(start, why="fault")[worker.pid]
    assert (end.dead, end.signal) == (True, "")
    assert worker.wait() == 0


def test_a_second_wish_ends_all_patience(start, folder):
    worker = start(HANDLER, f"{folder}/out", "600")
    asked = []

    def hurry():
        asked.append(time.monotonic())
        return len(asked) > 3

    end = stop(start, why="outside", hurry=hurry)[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGKILL")


SAVER = """
import sys, time
with open(sys.argv[1], "wb") as file:
    for piece in range(int(sys.argv[2])):
        file.write(b"x" * 4096)
        file.flush()
        if piece == 0:
            print(flush=True)
        time.sleep(0.05)
open(sys.argv[1] + ".done", "w")
time.sleep(600)
"""


def test_a_save_is_not_torn_by_a_fault_of_another(start, folder):
    worker = start(SAVER, f"{folder}/checkpoint.pt", "20")
    end = stop(start, why="fault", fault_grace_s=0.1)[worker.pid]
    assert end.signal == "SIGTERM"
    assert os.path.exists(f"{folder}/checkpoint.pt.done")
    assert os.path.getsize(f"{folder}/checkpoint.pt") == 20 * 4096


def test_a_save_that_does_not_end_is_given_up_after_the_stop_grace(start, folder):
    worker = start(SAVER, f"{folder}/checkpoint.pt", "100000")
    end = stop(start, why="fault", stop_grace_s=0.3, fault_grace_s=0.1)[worker.pid]
    assert (end.dead, end.signal) == (True, "SIGTERM")


@pytest.mark.root
@needs_root
def test_state_d_does_not_hold_us_for_ever(start):
    with frozen_disk() as (disk, thaw):
        worker = start(f"print(flush=True); open({disk!r} + '/file', 'w').write('hangs')")
        wait_until(lambda: state(worker.pid) == "D", "state D")
        end = stop(start, why="fault", fault_grace_s=0.1, kill_wait_s=0.3)[worker.pid]
        assert (end.dead, end.signal) == (False, "SIGKILL")
        thaw()
        worker.wait()


def state(pid):
    return open_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0]


def open_text(path):
    with open(path) as file:
        return file.read()
