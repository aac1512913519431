"""Fixtures of the keeper's tests."""

import os
import subprocess
from pathlib import Path

import pytest

from containment.surroundings import HERE, environment, open_folder, python, wait_until


class Job:
    """Agents of `agents.py` under a keeper, in a folder of their own."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.keepers: list[subprocess.Popen[str]] = []

    def command(self, mode: str, *arguments: str) -> list[str]:
        return python(str(HERE / "agents.py"), self.folder, mode, *arguments)

    def start(self, command: list[str], **how: object) -> "subprocess.Popen[str]":
        how = {"env": self.environment(), "text": True, "cwd": "/"} | how
        self.keepers.append(subprocess.Popen(command, **how))
        return self.keepers[-1]

    def environment(self) -> dict[str, str]:
        return environment() | {"TMPDIR": self.folder}

    def ready(self) -> int:
        """Waits for the agent; its pid."""
        wait_until(lambda: self.exists("agent"), "the agent")
        return int(self.text("agent"))

    def stop(self) -> None:
        Path(self.folder, "stop").touch()

    def text(self, name: str) -> str:
        return Path(self.folder, name).read_text()

    def exists(self, name: str) -> bool:
        return Path(self.folder, name).exists()

    def signals(self) -> list[str]:
        """Names of those that the agent has got, in order."""
        return self.text("signals").split() if self.exists("signals") else []

    def private_dirs(self) -> list[str]:
        return [name for name in os.listdir(self.folder) if name.startswith("rr-")]


@pytest.fixture
def job():
    with open_folder() as folder:
        made = Job(folder)
        yield made
        for keeper in made.keepers:
            if keeper.poll() is None:
                keeper.kill()
        for keeper in made.keepers:
            keeper.wait()
            for stream in filter(None, (keeper.stdin, keeper.stdout, keeper.stderr)):
                stream.close()
