"""Messages between agents: JSON with a size limit, authenticated by the run's key.

    <64 hex digits of HMAC-SHA256 over scope, name and JSON> <JSON>

The name is the key under which the message lies in the store, so a message that is copied to
another key, attempt or run is refused. Nothing is ever unpickled.
"""

import hashlib
import hmac
from collections import Counter
from typing import TypeVar

import msgspec

from resilient.model.errors import ResilientError

T = TypeVar("T")
MAC_HEX = 64
LIMIT_BYTES = 1 << 20  # of a message that names every node; others have their own limit


class Refused(ResilientError):
    """A message that is not one of ours: too large, not authentic, or not of its schema."""


class Seal:
    """Closes and opens the messages of one run."""

    def __init__(self, key: bytes, scope: str) -> None:
        """`key` is the run's secret, `scope` the run's id; neither travels with a message."""
        self._key = hashlib.sha256(b"resilient-run\0" + key).digest()
        self._scope = scope.encode()
        self.refused: Counter[str] = Counter()  # by reason

    def close(self, name: str, record: msgspec.Struct) -> str:
        """The message that carries a record under a name."""
        body = msgspec.json.encode(record)
        return f"{self._mac(name, body)} {body.decode()}"

    def open(self, name: str, message: bytes, kind: type[T], limit: int = LIMIT_BYTES) -> T:
        """The record in a message. Raises Refused, and counts it."""
        try:
            return self._open(name, message, kind, limit)
        except Refused as error:
            self.refused[str(error)] += 1
            raise

    def opened(
        self, name: str, message: bytes | None, kind: type[T], limit: int = LIMIT_BYTES
    ) -> T | None:
        """The record in what a key holds; None for nothing, and for what is refused."""
        if message is None:
            return None
        try:
            return self.open(name, message, kind, limit)
        except Refused:
            return None

    def _open(self, name: str, message: bytes, kind: type[T], limit: int) -> T:
        if len(message) > limit:
            raise Refused("too large")
        mac, space, body = message[:MAC_HEX], message[MAC_HEX : MAC_HEX + 1], message[MAC_HEX + 1 :]
        if space != b" " or not hmac.compare_digest(mac, self._mac(name, body).encode()):
            raise Refused("not authentic")
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise Refused("not of its schema") from error

    def _mac(self, name: str, body: bytes) -> str:
        head = b"\0".join((self._scope, name.encode(), b""))
        return hmac.new(self._key, head + body, hashlib.sha256).hexdigest()
