"""What a run leaves in its folder, and the processes that it may have left behind."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any


def kill_left(folder: Path) -> tuple[int, ...]:
    """End whatever of this run is still there; returns what it was."""
    mark, found = f"DIFF_OUT={folder}/out".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
                os.kill(found[-1], signal.SIGKILL)
    return tuple(found)


def standbys(folder: Path) -> int:
    """How many ranks have a standby that is ready, by the event log."""
    return len({e.get("rank") for e in read_events(folder) if e["kind"] == "standby.ready"})


def read_events(folder: Path) -> list[dict[str, Any]]:
    texts = [f.read_text() for f in folder.glob("run/nodes/*/events.jsonl")]
    lines = [line for text in texts for line in text.splitlines(keepends=True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def read_probes(folder: Path) -> dict[tuple[int, int], dict[str, Any]]:
    """What each worker wrote, by attempt and rank; the shell program's as lines."""
    found = {}
    for path in (folder / "out").glob("[0-9]-[0-9].*"):
        attempt, rank = map(int, path.stem.split("-"))
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if path.suffix == ".json":
            found[attempt, rank] = json.loads(text)
        elif path.suffix == ".done":
            variables, _, rest = text.partition("\1")
            pairs = (item.split("=", 1) for item in variables.split("\0") if item)
            found[attempt, rank] = {"environ": dict(pairs), "lines": rest.splitlines()}
    return found


def read_files(folder: Path) -> dict[str, bytes]:
    """Everything under log/ and work/."""
    places = [*folder.glob("log/**/*"), *folder.glob("work/**/*")]
    return {str(p.relative_to(folder)): p.read_bytes() for p in places if p.is_file()}
