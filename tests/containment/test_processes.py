"""sense.processes against real processes with awkward names and states."""

import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from containment.surroundings import open_folder, python, wait_until
from resilient.sense import processes


@pytest.fixture
def child():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_one_process_as_it_is(child):
    proc = processes.stat(child.pid)
    wait_until(lambda: processes.stat(child.pid).comm == "sleep", "exec")
    assert (proc.pid, proc.ppid) == (child.pid, os.getpid())
    assert processes.stat(child.pid).start == proc.start > 0
    assert processes.cmdline(child.pid) == ["sleep", "600"]
    assert processes.stat(os.getpid()).pid == processes.snapshot()[os.getpid()].pid


def test_a_name_with_brackets_spaces_and_bytes_that_are_no_text():
    with open_folder() as folder:
        name = os.fsencode(folder) + b"/a) R 1 (\xff"
        shutil.copy("/bin/sleep", name)
        process = subprocess.Popen([name, "600"])
        wait_until(lambda: processes.cmdline(process.pid)[1:] == ["600"], "exec")
        proc = processes.stat(process.pid)
        process.kill()
        process.wait()
        assert proc.comm == "a) R 1 (\ufffd"
        assert proc.ppid == os.getpid()


def test_who_is_gone_is_no_error():
    process = subprocess.Popen(["true"])
    process.wait()
    assert processes.stat(process.pid) is None
    assert not processes.is_stopped(process.pid)
    assert not processes.catches(process.pid, signal.SIGTERM)
    assert processes.cmdline(process.pid) == []
    assert processes.descendants(process.pid) == []


def test_descendants_come_parents_first_and_zombies_count():
    with open_folder() as folder:
        script = f"sh -c 'sleep 600; : {folder}' & true & exec sleep 600"
        process = subprocess.Popen(["sh", "-c", script], cwd=folder)

        def family():
            return [(p.comm, p.state == "Z") for p in processes.descendants(process.pid)]

        expected = {("sh", False), ("sleep", False), ("true", True)}
        wait_until(lambda: expected <= {*family()} | {("true", ("sh", True) in family())}, "family")
        found = processes.descendants(process.pid)
        assert process.pid not in {p.pid for p in found}
        seen = {process.pid}
        for proc in found:
            assert proc.ppid in seen
            seen.add(proc.pid)
        for proc in found:
            os.kill(proc.pid, signal.SIGKILL)
        process.kill()
        process.wait()


def test_stopped_by_a_signal_is_stopped_and_running_is_not(child):
    assert not processes.is_stopped(child.pid)
    child.send_signal(signal.SIGSTOP)
    wait_until(lambda: processes.is_stopped(child.pid), "stop")
    child.send_signal(signal.SIGCONT)
    wait_until(lambda: not processes.is_stopped(child.pid), "continue")


def test_a_process_whose_main_thread_has_ended_is_not_taken_for_dead():
    code = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
"""
    process = subprocess.Popen(python("-c", code))

    def main_thread_is_a_zombie():
        with open(f"/proc/{process.pid}/stat") as file:
            return " Z " in file.read()

    try:
        wait_until(main_thread_is_a_zombie, "end of the main thread")
        assert processes.stat(process.pid).state == "S"
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: processes.is_stopped(process.pid), "stop")
    finally:
        process.kill()
        process.wait()


def test_handlers_are_seen_and_ignoring_is_none():
    code = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: None)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
print("ready", flush=True)
signal.pause()
"""
    process = subprocess.Popen(python("-c", code), stdout=subprocess.PIPE)
    assert process.stdout.readline()
    assert processes.catches(process.pid, signal.SIGTERM)
    assert not processes.catches(process.pid, signal.SIGUSR1)
    assert not processes.catches(process.pid, signal.SIGHUP)
    process.kill()
    process.communicate()


def test_a_walk_while_processes_come_and_go():
    end = time.monotonic() + 0.5

    def churn():
        while time.monotonic() < end:
            subprocess.run(["true"], check=True)

    thread = threading.Thread(target=churn)
    thread.start()
    walks = 0
    while time.monotonic() < end:
        assert os.getpid() in processes.snapshot()
        walks += 1
    thread.join()
    assert walks > 3
