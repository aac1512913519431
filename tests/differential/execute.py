"""Runs one combination under one launcher and keeps everything that can be seen of it."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from differential.case import Case
from differential.terminal import Streams

PROGRAMS = Path(__file__).with_name("programs")
BIN = Path(sys.executable).parent
TORCHRUN, RESILIENT = "torchrun", "resilient-run"
LIMIT_S = 100.0
STANDBY_LIMIT_S = 30.0


@dataclass(frozen=True)
class Result:
    """What was left when the launcher had gone."""

    exit_code: int
    stdout: bytes
    stderr: bytes  # empty where both went the same way
    probes: dict[tuple[int, int], dict[str, Any]]  # (attempt, rank)
    files: dict[str, bytes]  # log directory and whatever else was written, by relative path
    folder: str
    port: int
    pid: int
    events: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    left: tuple[int, ...] = ()  # processes of the run that outlived the launcher


@cache
def programs() -> Path:
    """The probe as script, module, directory and under an awkward name; removed at exit."""
    base = Path(tempfile.mkdtemp(prefix="df-"))
    for name in ("probe.py", "seen.py", "shell.sh"):
        shutil.copy(PROGRAMS / name, base)
    for name in ("probes/probe.py", "app/__main__.py", "with space/pr öbe.py"):
        (base / name).parent.mkdir(exist_ok=True)
        shutil.copy(PROGRAMS / "probe.py", base / name)
    (base / "linked.py").symlink_to("with space/pr öbe.py")
    site = base / "site"
    site.mkdir()
    site.joinpath("sitecustomize.py").write_text("import builtins\nbuiltins.mine = 'once'\n")
    python = f'"{sys.executable}"'
    wrappers = {
        "isolated": f'exec {python} -I "$@"',
        "developer": f'exec env -u PWD {python} -X dev -W error::BytesWarning "$@"',
        "decorated": f'export DECORATED="rank $RANK"; exec {python} "$@"',
    }
    for name, line in wrappers.items():
        (base / name).write_text(f"#!/bin/sh\n{line}\n")
        (base / name).chmod(0o755)
    return base


def kill_left(folder: Path) -> tuple[int, ...]:
    """End whatever of this run is still there; returns what it was."""
    mark, found = f"DIFF_OUT={folder}/out".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
                os.kill(found[-1], signal.SIGKILL)
    return tuple(found)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def environment(case: Case, launcher: str, folder: Path, **places: object) -> dict[str, str]:
    """A small, known environment: nothing of the machine's own that could change the result."""
    ours = {
        "RESILIENT_RUN_DIR": f"{folder}/run",
        "RESILIENT_STANDBY_DELAY_S": "0.2",
    }
    own = {key: value.format(**places) for key, value in case.env.items()}
    return {
        "PATH": f"{BIN}:/usr/local/bin:/usr/bin:/bin",
        "HOME": f"{folder}/home",
        "TMPDIR": f"{folder}/tmp",
        "LANG": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
        "EMPTY": "",
        "AWKWARD": "two\nlines = 'ü'",
        "DIFF_OUT": f"{folder}/out",
        "DIFF_LIB": str(programs()),
        "DIFF_DO": case.words,
        "DIFF_TORCH": "1" if case.torch_both or launcher == RESILIENT else "0",
        "DIFF_OURS": "1" if launcher == RESILIENT else "0",
        **(ours if launcher == RESILIENT else {}),
        **{key: value for key, value in own.items() if value != "(unset)"},
    }


def execute(case: Case, launcher: str) -> Result:
    """One run, from an empty folder to the launcher's end.

    Raises:
        TimeoutError: it did not end; everything that it started is killed first.
    """
    folder = Path(tempfile.mkdtemp(prefix="df-"))
    for name in ("out", "tmp", "home", "work", "log"):
        (folder / name).mkdir()
    port = free_port()
    places = {"d": folder, "p": programs(), "port": port, "python": sys.executable}
    env = environment(case, launcher, folder, **places)
    for name in [k for k, v in case.env.items() if v == "(unset)"]:
        env.pop(name, None)
    command = [*case.under, sys.executable, str(BIN / launcher), *case.command(**places)]
    began = time.monotonic()
    try:
        with Streams(case.terminal, folder / "console", case.stdin) as streams:
            process = streams.start(command, cwd=folder / "work", env=env)
            try:
                attend(case, launcher, process, folder)
            finally:
                process.kill()
                process.wait()
                left = kill_left(folder)
        return Result(
            exit_code=process.returncode,
            stdout=streams.stdout,
            stderr=streams.stderr,
            probes=read_probes(folder),
            files=read_files(folder),
            folder=str(folder),
            port=port,
            pid=process.pid,
            events=read_events(folder),
            seconds=time.monotonic() - began,
            left=left,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def attend(case: Case, launcher: str, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Wait for the end; on the way, say `go` to attempt 0 and send the case's signals."""
    out, began = folder / "out", time.monotonic()
    to_send = list(case.signals)
    ready_at: float | None = None
    while process.poll() is None:
        now = time.monotonic()
        if now - began > LIMIT_S:
            raise TimeoutError(f"{case.name} under {launcher} did not end; see {folder}")
        seen = {p.stem for p in out.iterdir()}
        if all(f"0-{rank}" in seen for rank in range(case.nproc)):
            ready_at = ready_at or now
            patience = STANDBY_LIMIT_S if case.warm is not False and launcher == RESILIENT else 0.0
            if case.again and (standbys(folder) >= case.nproc or now - ready_at > patience):
                (out / "go").touch()
        if to_send and (out / "waiting.json").exists():
            process.send_signal(signal.Signals[to_send.pop(0)])
            time.sleep(0.3)
        time.sleep(0.02)


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
