"""events.jsonl: one line for each thing that happened on a node, in order."""

from typing import Any

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """`kind` is a dotted name such as "worker.exit"; `data` holds plain JSON values only."""

    schema: int = 1
    at: float  # seconds since the epoch
    mono: float  # seconds, this node's monotonic clock
    kind: str
    attempt: int
    rank: int | None = None
    data: dict[str, Any] = {}
