"""The agent's end of the socket to a worker: what arrives may be anything."""

import json
import os
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from resilient.agent.channel import Channel, high_fd
from resilient.model.protocol import MESSAGE_LIMIT


@pytest.fixture
def ends():
    channel, fd = Channel.pair()
    peer = socket.socket(fileno=fd)
    yield channel, peer
    channel.close()
    peer.close()


def packed(value: object) -> bytes:
    body = json.dumps(value).encode()
    return struct.pack(">I", len(body)) + body


def test_messages_arrive_whole_however_they_are_cut(ends):
    channel, peer = ends
    data = packed({"t": "hook", "pid": 1}) + packed({"t": "ready"})
    seen = []
    for byte in data:
        peer.sendall(bytes([byte]))
        seen += channel.read()
    assert [message["t"] for message in seen] == ["hook", "ready"]
    assert channel.open


def test_what_came_before_the_peer_left_is_still_read(ends):
    channel, peer = ends
    peer.sendall(packed({"t": "main_ended"}))
    peer.close()
    assert [message["t"] for message in channel.read()] == ["main_ended"]
    assert not channel.open


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">I", MESSAGE_LIMIT + 1),
        packed(["t"]),
        packed({"no": "type"}),
        packed({"t": 3}),
        struct.pack(">I", 3) + b"\xff{]",
    ],
)
def test_a_peer_that_breaks_the_protocol_is_cut_off(ends, data):
    channel, peer = ends
    peer.sendall(packed({"t": "hook"}) + data + packed({"t": "late"}))
    assert [message["t"] for message in channel.read()] == ["hook"]
    assert channel.refused
    assert not channel.open


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(data):
    channel, fd = Channel.pair()
    with socket.socket(fileno=fd) as peer:
        peer.sendall(data)
        channel.read()
    channel.read()
    channel.close()


def test_descriptors_travel_with_a_message(ends):
    channel, peer = ends
    read, write = os.pipe()
    assert channel.send({"t": "go"}, [write])
    data, fds, _, _ = socket.recv_fds(peer, 1 << 16, 4)
    os.write(fds[0], b"here")
    assert os.read(read, 4) == b"here"
    assert json.loads(data[4:]) == {"t": "go"}
    for fd in (read, write, *fds):
        os.close(fd)


def test_sending_to_nobody_says_so(ends):
    channel, peer = ends
    peer.close()
    assert not channel.send({"t": "go"})


def test_a_worker_s_descriptors_are_high_and_the_low_one_is_free_again():
    fd = os.open(os.devnull, os.O_RDONLY)
    high = high_fd(fd)
    again = os.open(os.devnull, os.O_RDONLY)
    assert high >= 64
    assert again == fd
    os.close(high)
    os.close(again)
