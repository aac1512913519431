"""One combination of flags, program, environment and terminal, to be run under both launchers."""

from collections.abc import Mapping
from dataclasses import dataclass, field

STANDALONE = ("--standalone",)
STATIC = ("--master-port", "{port}")
C10D = ("--nnodes", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:{port}")

# How the workers' program is written on the command line; {p} is the folder of programs.
SCRIPT = ("{p}/probe.py",)
MODULE = ("-m", "probes.probe")
SHELL = ("--no-python", "{p}/shell.sh")
ARGUMENTS = ("--alpha", "a b", "", "-m", "--nproc-per-node=9", "ü*")


@dataclass(frozen=True)
class Case:
    """In flags, program and environment, {d} is the run's own folder and {port} a free port.

    `terminal` says what the launcher's streams are: "pipes", "merged" (2>&1 into one pipe),
    "file" (>file 2>&1), "pty" (all three, a controlling terminal), "pty-out" and "pty-err" (one
    of the two, the other a pipe), "closed" (pipes, no standard input at all).
    """

    name: str
    flags: tuple[str, ...] = STANDALONE
    nproc: int = 1
    program: tuple[str, ...] = SCRIPT
    env: Mapping[str, str] = field(default_factory=dict)
    do: str = ""  # words for the probe
    terminal: str = "pipes"
    stdin: bytes | None = None
    again: bool = True  # rank 0 of attempt 0 fails, so that there is a second one
    warm: bool | None = True  # whether ranks of attempt 1 should come from standbys; None: either
    signals: tuple[str, ...] = ()  # sent to the launcher once the worker waits for them
    torch_both: bool = False  # torchrun's attempt 0 imports torch as well
    under: tuple[str, ...] = ()  # what starts the launcher, before its name
    exit_code: int | None = None  # of resilient-run, where it is meant to differ

    @property
    def words(self) -> str:
        return f"{self.do} again" if self.again else self.do

    @property
    def attempts(self) -> int:
        return 2 if self.again else 1

    def command(self, **places: object) -> list[str]:
        """Flags, program and its arguments, after the launcher's name."""
        written = " ".join([*self.flags, *self.env]).lower()
        nproc = ["--nproc-per-node", str(self.nproc)] if self.nproc > 1 else []
        restarts = ["--max-restarts", "1"] if self.again else []
        nproc = [] if "nproc" in written else nproc
        restarts = [] if "restarts" in written else restarts
        words = [*self.flags, *nproc, *restarts, *self.program, *ARGUMENTS]
        return [word.format(**places) for word in words]
