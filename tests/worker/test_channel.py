"""The worker's end of the socket: never in the script's way."""

import os
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from resilient.model.protocol import LATE_MISMATCH_EXIT, MESSAGE_LIMIT
from resilient.worker import channel, warm


@pytest.fixture
def ends() -> Iterator[tuple[channel.Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    worker = channel.Channel(ours.detach())
    with theirs:
        yield worker, theirs
    worker.close()


def framed(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


def test_numbers_are_those_of_the_protocol() -> None:
    assert channel._LIMIT == MESSAGE_LIMIT
    assert warm.LATE_MISMATCH_EXIT == LATE_MISMATCH_EXIT


def test_descriptors_are_out_of_the_way(ends: tuple[channel.Channel, socket.socket]) -> None:
    worker, _ = ends
    assert worker.fd >= 200
    assert not os.get_inheritable(worker.fd)


def test_messages_and_descriptors(ends: tuple[channel.Channel, socket.socket]) -> None:
    worker, agent = ends
    read, write = os.pipe()
    agent.sendall(framed(b'{"t": "plan"}'))
    socket.send_fds(agent, [framed(b'{"t": "go", "fds": [1]}')], [write])
    os.close(write)
    assert worker.receive() == ({"t": "plan"}, [])
    message, (received,) = worker.receive()
    assert message["t"] == "go"
    os.write(received, b"x")
    assert os.read(read, 9) == b"x"
    os.close(received)
    os.close(read)
    worker.send("hook", pid=1)
    assert agent.recv(99) == framed(b'{"t": "hook", "pid": 1}')


@pytest.mark.parametrize("data", [framed(b"{"), framed(b"7"), struct.pack(">I", MESSAGE_LIMIT + 1)])
def test_what_is_no_message(ends: tuple[channel.Channel, socket.socket], data: bytes) -> None:
    worker, agent = ends
    agent.sendall(data)
    with pytest.raises((ValueError, TypeError)):
        worker.receive()


@pytest.mark.parametrize("data", [b"", b"\0", framed(b"abc")[:-1]])
def test_end_of_stream(ends: tuple[channel.Channel, socket.socket], data: bytes) -> None:
    worker, agent = ends
    agent.sendall(data)
    agent.shutdown(socket.SHUT_WR)
    with pytest.raises(channel.Closed):
        worker.receive()


def test_agent_that_does_not_read(ends: tuple[channel.Channel, socket.socket]) -> None:
    """Given up after a second, for good: half a message must not be followed by another."""
    worker, _ = ends
    began = time.monotonic()
    worker.send("late", text="x" * (4 << 20))
    assert worker.fd == -1
    worker.send("late", text="x")
    assert time.monotonic() - began < 30


def test_agent_that_is_gone(ends: tuple[channel.Channel, socket.socket]) -> None:
    worker, agent = ends
    agent.close()
    worker.send("late")  # with no SIGPIPE, which would end pytest
    assert worker.fd == -1


def test_own() -> None:
    read, write = os.pipe()
    assert channel.own(read, "pipe:") == read
    assert channel.own(read, "socket:") == -1
    os.close(read)
    os.close(write)
    assert channel.own(read, "pipe:") == -1
    assert channel.own(-1, "") == -1
