"""A relay between a client and its store that can fall silent, as a network does that drops."""

import select
import socket
import threading
from contextlib import suppress


class Relay:
    """Listens on `port` and passes on what comes, until it is told to be silent."""

    def __init__(self, target: int) -> None:
        self._target, self._silent, self._closed = target, threading.Event(), threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def fall_silent(self) -> None:
        """Pass nothing on any more; connections stay open."""
        self._silent.set()

    def speak(self) -> None:
        """Pass on again, and what has been kept."""
        self._silent.clear()

    def close(self) -> None:
        """End the connections."""
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=self._pass_on, args=(near, far), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket) -> None:
        other = {near: far, far: near}
        with near, far, suppress(OSError):
            while not self._closed.is_set():
                for one in select.select([near, far], [], [], 0.05)[0]:
                    while self._silent.is_set() and not self._closed.is_set():
                        self._closed.wait(0.01)
                    data = one.recv(1 << 16)
                    if not data:
                        return
                    other[one].sendall(data)
