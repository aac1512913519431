"""Runs one combination under one launcher and keeps everything that can be seen of it."""

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
from differential.remains import kill_left, read_events, read_files, read_probes, standbys
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
    for name in ("probe.py", "seen.py", "acts.py", "shell.sh"):
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
        seen = {p.stem for p in out.iterdir() if p.suffix in {".json", ".done"}}
        if all(f"0-{rank}" in seen for rank in range(case.nproc)):
            ready_at = ready_at or now
            patience = STANDBY_LIMIT_S if case.warm is not False and launcher == RESILIENT else 0.0
            if case.again and (standbys(folder) >= case.nproc or now - ready_at > patience):
                (out / "go").touch()
        if to_send and (out / "waiting.json").exists():
            process.send_signal(signal.Signals[to_send.pop(0)])
            time.sleep(0.3)
        time.sleep(0.02)
