"""Reads the end of a log file and small JSON files that a worker wrote. Both are untrusted."""

import json
import os
from pathlib import Path
from typing import Any

TAIL_BYTES = 256 << 10  # an exception may quote a compiler's output
JSON_LIMIT = 1 << 20  # bytes; an error file is a few kilobytes


def tail_of_file(path: str, lines: int = 20) -> tuple[str, ...]:
    """The last `lines` lines, each cut to 500 characters; () where the file can't be read."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES))
            text = file.read(TAIL_BYTES).decode(errors="replace")
    except OSError:
        return ()
    return tuple(line[:500] for line in text.splitlines()[-lines:])


def read_json(path: str) -> Any | None:
    """Decoded JSON of a file of at most 1 MiB, None where it is absent, larger or no JSON."""
    try:
        if not path or Path(path).stat().st_size > JSON_LIMIT:
            return None
        return json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
