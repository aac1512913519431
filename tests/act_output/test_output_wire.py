"""Messages of any size arrive whole and in order, and sending never waits."""

import os
import socket

import pytest

from resilient.act.output_wire import PACKET, Wire


@pytest.fixture
def wires() -> "tuple[Wire, Wire]":
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pair = Wire(first, bound=1 << 20), Wire(second)
    yield pair
    for wire in pair:
        wire.close()


@pytest.mark.parametrize("size", [0, 1, PACKET - 8, PACKET, 3 * PACKET + 5, 1_000_000])
def test_sizes(wires: "tuple[Wire, Wire]", size: int) -> None:
    sender, receiver = wires
    payload = os.urandom(size)
    assert sender.send({"n": size}, payload)
    got = receiver.receive()
    while not got:
        sender.flush()
        got = receiver.receive()
    (message,) = got
    assert message.head == {"n": size}
    assert message.payload == payload
    assert not sender.pending


def test_names_that_are_not_utf8(wires: "tuple[Wire, Wire]") -> None:
    sender, receiver = wires
    sender.send({"path": os.fsdecode(b"/x\xff")})
    (message,) = receiver.receive()
    assert os.fsencode(message.head["path"]) == b"/x\xff"


def test_descriptors_travel(wires: "tuple[Wire, Wire]") -> None:
    sender, receiver = wires
    read_fd, write_fd = os.pipe()
    sender.send({"do": "channel"}, b"x" * 2 * PACKET, fds=(read_fd,))
    os.close(read_fd)
    (message,) = receiver.receive()
    os.write(write_fd, b"through")
    assert os.read(message.fds[0], 99) == b"through"
    os.close(message.fds[0])
    os.close(write_fd)


def test_overflow_is_dropped_and_counted_but_not_what_matters(wires: "tuple[Wire, Wire]") -> None:
    sender, receiver = wires
    sent = sum(sender.send({"n": n}, b"x" * 10_000, droppable=True) for n in range(500))
    assert sender.dropped == 500 - sent > 100
    assert sender.send({"vital": True})
    heads = []
    while sender.pending or not heads or "vital" not in heads[-1]:
        sender.flush()
        heads += [message.head for message in receiver.receive()]
    assert [head.get("n") for head in heads[:-1]] == list(range(sent))


def test_end_of_the_other_side(wires: "tuple[Wire, Wire]") -> None:
    sender, receiver = wires
    sender.send({"last": 1})
    sender.close()
    assert [m.head for m in receiver.receive()] == [{"last": 1}]
    assert receiver.closed
    receiver.send({}, b"kept for a successor", droppable=True)
    assert receiver.take_droppable() == [b"{}\nkept for a successor"]
