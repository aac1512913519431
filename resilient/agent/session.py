"""What all parts of one agent share for one run of one node."""

import os
import platform
import secrets
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from resilient.act.scribe_client import Scribe
from resilient.agent.recorder import Recorder, say
from resilient.agent.signals import Signals
from resilient.model.policy import Policy
from resilient.model.run import NodeRun, Run


@dataclass
class Session:
    """Policy, identity and the outlets of one agent. `hooks` says whether workers are Python."""

    policy: Policy
    argv: tuple[str, ...]
    host: str
    agent_id: str
    recorder: Recorder
    scribe: Scribe | None
    signals: Signals
    hooks: bool
    parent: int = field(default_factory=os.getppid)  # the keeper, where there is one
    library: bool = False  # called from a user's program: its other children are not ours
    run_id: str = ""
    writers_left: bool = False  # a process that may still write could not be ended
    threads_stuck: bool = False  # in C++; the interpreter could not end while they are
    exit_code: int | None = None  # set by a decision that differs from torchrun's 0 or 1
    off: list[str] = field(default_factory=list)

    @property
    def node(self) -> str:
        """Name of this node's folder in the run directory."""
        return f"{self.host}-{self.agent_id}"

    def miss(self, what: str) -> None:
        """Note, once, something that cannot be had in this run, and why."""
        if what not in self.off:
            self.off.append(what)
            self.recorder.event("off", what=what)
            self.recorder.update_run(off=tuple(self.off))

    def hear(self) -> None:
        """Take in what the scribe could not do, and tell the person at the terminal."""
        for note in self.scribe.poll() if self.scribe is not None else ():
            self.recorder.event("scribe.note", text=note)
            self.miss(note)
            say(note)


def open_session(
    policy: Policy, argv: tuple[str, ...], scribe: Scribe | None, **facts: Any
) -> Session:
    """A session with an empty run record. `facts`: version, torch_version, hooks, library."""
    host, agent_id = socket.gethostname(), secrets.token_hex(4)
    run = Run(
        run_id="",
        version=facts["version"],
        torch_version=facts["torch_version"],
        started_at=time.time(),
        argv=argv,
        cwd=os.getcwd(),
        nodes=(NodeRun(host=host, agent_id=agent_id, pid=os.getpid(), nproc=0),),
        world_size=0,
        attempts=0,
    )
    session = Session(
        policy=policy,
        argv=argv,
        host=host,
        agent_id=agent_id,
        recorder=Recorder(scribe, run),
        scribe=scribe,
        signals=Signals(),
        hooks=facts["hooks"],
        library=facts["library"],
    )
    session.recorder.event("session", python=platform.python_version(), node=session.node)
    return session
