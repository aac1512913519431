"""The laboratory itself: it stands quickly, its faults are real, and nothing of it stays."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from netlab.host import Host
from netlab.lab import Lab

pytestmark = pytest.mark.root

# Says when it was connected, and then every line that it is sent back.
TALK = """
import socket, sys
with socket.create_connection((sys.argv[1], 7000), timeout=1.0) as s:
    s.sendall(b"hello")
    print(s.recv(5).decode())
"""
ECHO = """
import socket
with socket.create_server(("", 7000)) as server:
    print("ready", flush=True)
    while True:
        s, _ = server.accept()
        with s:
            s.sendall(s.recv(5))
"""


def python(program: str, *arguments: str) -> list[object]:
    return [sys.executable, "-I", "-S", "-u", "-c", program, *arguments]


def listen(host: Host) -> None:
    process = host.start(*python(ECHO))
    host.until(lambda: "ready" in process.out, "the server")


def reaches(one: Host, other: Host, network: str) -> bool:
    process = one.start(*python(TALK, other.address(network)))
    return process.wait(10) == 0


def reached(lab: Lab) -> dict[str, bool]:
    return {network: reaches(lab.hosts[0], lab.hosts[1], network) for network in ("ib", "eth")}


def links() -> list[str]:
    return sorted(name for _, name in socket.if_nameindex())


@pytest.mark.parametrize("hosts", [2, 4])
def test_it_stands_in_a_second(new_lab: Callable[[int], Lab], hosts: int) -> None:
    began = time.monotonic()
    lab = new_lab(hosts)
    stands = time.monotonic() - began
    lab.close()
    print(f"\n{hosts} hosts: up in {stands:.2f} s, down in {time.monotonic() - began - stands:.2f}")


def test_names_and_addresses(lab: Lab) -> None:
    program = """
import os, socket
print(socket.gethostname(), socket.getfqdn(), socket.gethostbyname(socket.gethostname()))
print(*[socket.gethostbyname(name) for name in ("h0", "h1", "h1-ib", "localhost")])
links = sorted(name for _, name in socket.if_nameindex())
print(links, os.environ["TMPDIR"], os.getsid(0) == os.getpid())
"""
    said = [host.run(*python(program)).splitlines() for host in lab.hosts]
    assert said[1] == [
        "h1 h1 10.77.2.2",
        "10.77.2.1 10.77.2.2 10.77.1.2 127.0.0.1",
        "['eth0', 'ib0', 'lo'] /mnt True",
    ]
    assert said[0][0] == "h0 h0 10.77.2.1"
    assert [lab.hosts[0].address(network) for network in ("ib", "eth")] == [
        "10.77.1.1",
        "10.77.2.1",
    ]


def test_nobody_outside_is_asked_for_a_name(lab: Lab) -> None:
    program = "import socket\ntry: socket.gethostbyname('example.com')\nexcept OSError: print('no')"
    began = time.monotonic()
    assert lab.hosts[0].run(*python(program)).strip() == "no"
    assert time.monotonic() - began < 5


def test_files_of_a_host_are_its_own(lab: Lab) -> None:
    for host in lab.hosts:
        host.run("sh", "-c", "echo $(hostname) > /dev/shm/it; echo $(hostname) > $TMPDIR/it")
    for host in lab.hosts:
        assert host.run("cat", "/dev/shm/it").strip() == host.name
        assert (host.temp / "it").read_text().strip() == host.name
    assert not Path("/dev/shm/it").exists()


def test_a_process_is_followed_to_its_end(lab: Lab) -> None:
    host = lab.hosts[1]
    process = host.start(
        "sh",
        "-c",
        "sleep 60 & until grep -q sleep /proc/$!/comm; do :; done; "
        "echo said; echo told >&2; exit 3",
        env={"PATH": os.environ["PATH"]},
    )
    assert process.wait() == 3
    assert (process.out, process.err) == ("said\n", "told\n")
    assert process.end is not None
    assert [words.split()[1] for words in process.end["left"]] == ["(sleep)"]
    assert [proc.comm for proc in host.processes] == ["sleep"]
    sleeper = host.start("sleep", "60")
    assert host.alive(sleeper.pid)
    sleeper.signal(signal.SIGTERM)
    assert sleeper.wait() == -signal.SIGTERM
    assert not host.alive(sleeper.pid)
    with pytest.raises(OSError, match="no such program"):
        host.start("no such program")


@pytest.mark.parametrize("fault", ["cut", "drop"])
def test_networks_fail_and_heal(lab: Lab, fault: str) -> None:
    listen(lab.hosts[1])
    assert reached(lab) == {"ib": True, "eth": True}
    getattr(lab, fault)(1, "ib")
    assert reached(lab) == {"ib": False, "eth": True}
    carrier = lab.hosts[1].run("ip", "-o", "link", "show", "ib0")
    assert ("LOWER_UP" in carrier) == (fault == "drop")  # nobody is told of a drop
    getattr(lab, fault)(1)
    assert reached(lab) == {"ib": False, "eth": False}
    lab.heal(1, "eth")
    assert reached(lab) == {"ib": False, "eth": True}
    lab.heal(1)
    assert reached(lab) == {"ib": True, "eth": True}


def test_a_frozen_host_does_nothing_until_it_is_thawed(lab: Lab) -> None:
    listen(lab.hosts[1])
    lab.freeze(1)
    assert {proc.state for proc in lab.hosts[1].processes} == {"T"}
    assert not reaches(lab.hosts[0], lab.hosts[1], "eth")
    lab.thaw(1)
    assert reaches(lab.hosts[0], lab.hosts[1], "eth")


def test_a_killed_host_can_be_used_again(lab: Lab) -> None:
    listen(lab.hosts[1])
    lab.kill(1)
    lab.hosts[1].until(lambda: not lab.hosts[1].processes, "all to be dead")
    assert not reaches(lab.hosts[0], lab.hosts[1], "eth")
    listen(lab.hosts[1])
    assert reaches(lab.hosts[0], lab.hosts[1], "eth")


def test_two_at_once(new_lab: Callable[[int], Lab]) -> None:
    one, other = new_lab(2), new_lab(2)
    listen(one.hosts[1])
    assert reached(one) == {"ib": True, "eth": True}
    assert reached(other) == {"ib": False, "eth": False}


def in_namespaces(spaces: set[str]) -> list[int]:
    """Processes that live in one of the network namespaces."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{pid}/ns/net") in spaces:
                found.append(int(pid))
        except OSError:
            pass
    return found


def spaces_of(inits: list[int]) -> set[str]:
    return {os.readlink(f"/proc/{pid}/ns/net") for pid in inits}


def test_nothing_is_left(new_lab: Callable[[int], Lab]) -> None:
    before = links()
    lab = new_lab(3)
    for host in lab.hosts:
        host.start("sh", "-c", "setsid sleep 600 & sleep 600")
    spaces = spaces_of([host.init for host in lab.hosts])
    assert len(spaces) == 3
    assert links() == before  # nothing of it can be seen outside
    lab.close()
    assert not in_namespaces(spaces)
    assert links() == before


# A laboratory whose process is about to be killed; a forked child holds all its files.
ABANDONED = """
import os, sys, time
from pathlib import Path
from netlab.lab import Lab
lab = Lab(Path(sys.argv[1]), 2)
lab.hosts[0].start("sleep", "600")
if os.fork() == 0:
    time.sleep(600)
print(*[host.init for host in lab.hosts], flush=True)
time.sleep(600)
"""


@pytest.mark.usefixtures("new_lab")  # skips where there is none
def test_it_ends_when_its_process_is_killed(tmp_path: Path) -> None:
    before = links()
    tests = str(Path(__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", ABANDONED, tmp_path],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": tests},
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        spaces = spaces_of([int(pid) for pid in process.stdout.readline().split()])
        try:
            assert in_namespaces(spaces)
            process.kill()
            end = time.monotonic() + 5
            while in_namespaces(spaces):
                assert time.monotonic() < end, in_namespaces(spaces)
                time.sleep(0.01)
        finally:
            os.killpg(process.pid, signal.SIGKILL)  # the child as well
    assert links() == before
