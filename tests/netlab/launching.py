"""A job on several hosts of the laboratory: one launcher each, one script for all.

The script has `note`, `wait_for`, `RANK` and `ATTEMPT` of `agent.starting`, and `HOST`, the name
of its host, which is in each note as well. All hosts share its folder, and the run directory, as
they would by a network file system; the clock of the notes is the same everywhere.
"""

import os
import shlex
import textwrap
import time
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agent.ended import Ended, lines
from agent.starting import BIN, RESILIENT, write

from netlab.host import Host, Process, inherited
from netlab.lab import Lab
from resilient.cli import explain
from resilient.cli.answer import Screen
from resilient.report.read import load

LIMIT_S = 45.0
PORT = 29400
_CACHES = ("torchinductor_",)
_QUIET = {"OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}

_PRELUDE = """\
import functools, os, signal, sys, time
import note as _notes
from note import ATTEMPT, HERE, RANK, wait_for
HOST = os.uname().nodename
note = functools.partial(_notes.note, host=HOST)
"""

# Ends on all ranks at the same step, once `Nodes.finish` was called.
LOOP = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
world = dist.get_world_size()
names = ("RESILIENT_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "GROUP_RANK", "MASTER_ADDR")
note("start", world=world, **{name: os.environ.get(name) for name in names})
step = 0
while True:
    end = torch.tensor([float(os.path.exists(HERE + "/finish"))])
    dist.all_reduce(end)
    note("step", step=step, world=world)
    if end.item():
        break
    step += 1
    time.sleep(0.05)
dist.destroy_process_group()
"""


class Nodes:
    """Launchers of one job. Nothing is started before `start`; leaving it kills what runs."""

    def __init__(
        self,
        lab: Lab,
        folder: Path,
        text: str,
        flags: str = "",
        *,
        nnodes: str | None = None,
        nproc: int = 1,
        launcher: str = RESILIENT,
        static: bool = False,
        env: dict[str, str] | None = None,
    ) -> None:
        """`nnodes`: as for the launcher, else the number of hosts. `static`: without c10d."""
        self.lab, self.folder, self.launcher = lab, folder, launcher
        self.run_dir = folder / "run"
        self._script = write(folder, _PRELUDE + textwrap.dedent(text))
        self._nnodes = nnodes or str(len(lab.hosts))
        self._flags = [f"--nproc-per-node={nproc}", *shlex.split(flags)]
        self._static = static
        self._env = {
            **inherited(),
            "RESILIENT_RUN_DIR": str(self.run_dir),
            "GLOO_SOCKET_IFNAME": "ib0",
            **_QUIET,
            **(env or {}),
        }
        self.launched: dict[int, Process] = {}  # the newest of each host
        self._temp: dict[int, set[str]] = {}  # what lay there before

    def __enter__(self) -> "Nodes":
        return self

    def __exit__(self, *_: object) -> None:
        for number in self.launched:
            self.lab.kill(number)

    def start(self, *hosts: int) -> None:
        """Start a launcher on each of the hosts (none named: on all)."""
        for host in [self.lab.hosts[number] for number in hosts] or self.lab.hosts:
            words = [BIN / self.launcher, f"--nnodes={self._nnodes}", *self._meeting(host)]
            command = [*words, *self._flags, self._script]
            self._temp[host.number] = set(os.listdir(host.temp))
            self.launched[host.number] = host.start(
                *command, name=self.launcher, env=self._env, cwd=self.folder
            )

    def _meeting(self, host: Host) -> list[str]:
        """How the launchers find each other: at the control address of the first host."""
        address = self.lab.hosts[0].address()
        local = f"--local-addr={host.address()}"
        if self._static:
            rank = f"--node-rank={host.number}"
            return [rank, f"--master-addr={address}", f"--master-port={PORT}", local]
        at = f"--rdzv-endpoint={address}:{PORT}"
        return ["--rdzv-backend=c10d", at, f"--rdzv-id={self.folder.name}", local]

    # While it runs

    @property
    def notes(self) -> list[dict[str, Any]]:
        return lines(self.folder / "notes.jsonl")

    def until(self, condition: Callable[[], Any], what: str, seconds: float = LIMIT_S) -> Any:
        """Wait until something is the case, and return it."""
        end = time.monotonic() + seconds
        while not (found := condition()):
            over = all(one.end for one in self.launched.values())
            if over and (found := condition()):  # the last note comes just before the end
                return found
            if over or time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}\n{self.told()}")
            time.sleep(0.01)
        return found

    def noted(
        self,
        kind: str,
        count: int = 1,
        *,
        after: float = 0.0,
        seconds: float = LIMIT_S,
        **more: Any,
    ) -> list[dict[str, Any]]:
        """Wait for so many notes of a kind (of a host, a rank, an attempt …) and return them.

        `after`: only those later than this time.
        """

        def found() -> list[dict[str, Any]] | None:
            wanted = {"kind": kind, **more}.items()
            some = [n for n in self.notes if wanted <= n.items() and n["at"] > after]
            return some if len(some) >= count else None

        result: list[dict[str, Any]] = self.until(found, f"{count} x {kind} {more}", seconds)
        return result

    def finish(self) -> None:
        """Have a `LOOP` end."""
        (self.folder / "finish").touch()

    def told(self) -> str:
        """What the launchers said and what still runs, for messages."""
        parts = []
        for number, one in self.launched.items():
            running = ", ".join(f"{p.comm} {p.state}" for p in self.lab.hosts[number].processes)
            parts.append(f"=== h{number}: {one.end or 'runs'}; {running or 'nothing runs'}")
            parts.append(one.err[-6000:])
        return "\n".join([*parts, "=== notes", *map(str, self.notes[-20:])])

    # Afterwards

    def end(
        self,
        *hosts: int,
        seconds: float = LIMIT_S,
        clean: bool = True,
        explained: bool = True,
    ) -> list[Ended]:
        """Wait for the launchers (of some hosts), and return what each left.

        `clean`: nothing may be left on the host. `explained`: each recorded decision comes out
        the same again. Both are for our launcher only.
        """
        chosen = {number: self.launched[number] for number in hosts or sorted(self.launched)}
        limit = time.monotonic() + seconds
        while not all(one.end for one in chosen.values()):
            if time.monotonic() > limit:
                raise AssertionError(f"no end within {seconds} s\n{self.told()}")
            time.sleep(0.01)
        ours = self.launcher == RESILIENT
        ended = [self._ended(self.lab.hosts[n], one) for n, one in chosen.items()]
        if clean and ours:
            for one in ended:
                assert not one.left, f"left: {one.left}\n{self.told()}"
                assert not one.temp, f"left in TMPDIR: {one.temp}\n{self.told()}"
        if explained and ours and (self.run_dir / "run.json").exists():
            self._explain(ended)
        return ended

    def _ended(self, host: Host, one: Process) -> Ended:
        end = one.end
        assert end is not None
        new = set(os.listdir(host.temp)) - self._temp[host.number]
        temp = [name for name in new if not name.startswith(_CACHES)]
        seconds = end["at"] - one.began
        return Ended(end["code"], one.out, one.err, self.notes, seconds, end["left"], temp)

    def _explain(self, ended: Iterable[Ended]) -> None:
        folder = load(self.run_dir)
        for one in ended:
            one.folder = folder
        answer = explain.answer(Namespace(run_dir=self.run_dir), Screen(80, False))
        assert answer.code == 0, answer.text
