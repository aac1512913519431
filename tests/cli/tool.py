"""Runs the command `resilient` as its own process, as a user does."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-m", "resilient.cli.tool"]


def environment(**extra: str) -> dict[str, str]:
    """Ours without anything that would change an answer."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("RESILIENT_") and name not in ("COLUMNS", "NO_COLOR")
    }
    path = os.pathsep.join(filter(None, [str(ROOT), env.get("PYTHONPATH", "")]))
    return env | {"PYTHONPATH": path, "TERM": "xterm"} | extra


def resilient(*args: object, cwd: Path | None = None, **extra: str):
    """The finished process of `resilient ARGS…`, its output as text."""
    return subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env=environment(**extra),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
