"""sense.sockets: exactly the connections between members, by descriptor."""

import os
import subprocess

import pytest

from containment.surroundings import python, wait_until
from resilient.sense.sockets import group_sockets

NODE = """
import os, socket, sys
listeners, held, children = {}, {}, []
for line in sys.stdin:
    what, *words = line.split()
    if what == "listen":
        address, dual = words
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        listener = socket.socket(family)
        if dual == "dual":
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind((address, 0))
        listener.listen()
        listeners[address] = listener
        print(listener.getsockname()[1], flush=True)
    elif what == "accept":
        connection, _ = listeners[words[0]].accept()
        held[connection.fileno()] = connection
        print(connection.fileno(), flush=True)
    elif what == "connect":
        connection = socket.create_connection((words[0], int(words[1])))
        held[connection.fileno()] = connection
        print(connection.fileno(), flush=True)
    elif what == "fork":
        child = os.fork()
        if child == 0:
            sys.stdin.close()
            os.close(1)
            import signal
            signal.pause()
        print(child, flush=True)
"""


class Node:
    """A process that opens sockets when it is told to."""

    def __init__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self.process = subprocess.Popen(python("-c", NODE), text=True, **pipes)
        self.pid = self.process.pid

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.wait()  # not its output: a child of it may hold that open
        self.process.stdin.close()
        self.process.stdout.close()


@pytest.fixture
def nodes():
    three = [Node(), Node(), Node()]
    yield three
    for node in three:
        node.end()


def connect(client, server, address="127.0.0.1", bind=None, dual="single"):
    """Connects the two; the descriptors on either side."""
    port = server.do("listen", bind or address, dual)
    fd = client.do("connect", address, port)
    return fd, server.do("accept", bind or address)


@pytest.mark.parametrize(
    ("address", "bind", "dual"),
    [("127.0.0.1", None, "single"), ("::1", None, "single"), ("127.0.0.1", "::", "dual")],
)
def test_connections_between_members_and_no_others(nodes, address, bind, dual):
    one, two, store = nodes
    connect(one, store)
    connect(two, store)
    fd_one, fd_two = connect(one, two, address, bind, dual)
    both = [one.pid, two.pid]
    assert group_sockets(both) == {one.pid: [fd_one], two.pid: [fd_two]}
    assert group_sockets([one.pid]) == {one.pid: []}


def test_the_other_end_was_held_by_one_that_died(nodes):
    one, two, store = nodes
    connect(one, store)
    fd, _ = connect(one, two)
    two.end()
    assert group_sockets([one.pid, two.pid]) == {one.pid: [fd], two.pid: []}


def test_the_other_end_lives_on_in_a_child_of_the_dead(nodes):
    one, two, _ = nodes
    fd, other = connect(one, two)
    child = two.do("fork")
    two.end()
    assert group_sockets([one.pid, two.pid]) == {one.pid: [], two.pid: []}
    found = group_sockets([one.pid, two.pid, child])
    assert found == {one.pid: [fd], two.pid: [], child: [other]}
    os.kill(child, 9)
    wait_until(lambda: not group_sockets([child])[child], "end of the child")


def test_a_connection_to_itself_connects_no_members(nodes):
    one, two, _ = nodes
    port = one.do("listen", "127.0.0.1", "single")
    one.do("connect", "127.0.0.1", port)
    one.do("accept", "127.0.0.1")
    assert group_sockets([one.pid, two.pid]) == {one.pid: [], two.pid: []}
