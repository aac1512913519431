"""Where the workers' output and our records go: the scribe, or nowhere when it can't be had."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from resilient.agent.failopen import failing_open
from resilient.agent.recorder import say
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.model.run import NodeRun


class Outlets:
    """The agent's use of the scribe."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._scribe = session.scribe
        self._capture = session.policy.capture == "auto"

    @property
    def pids(self) -> set[int]:
        """Helper processes, which no sweep may touch."""
        return {self._scribe.pid} if self._scribe is not None else set()

    def open_run(self, agent: SeamAgent) -> None:
        """Name the run directory and write its first run.json."""
        session, group = self._session, agent.group
        if self._scribe is not None:
            self._scribe.open_run(
                self._candidates(),
                run_id=session.run_id,
                node=session.node,
                head_mib=session.policy.log_head_mib,
                tail_mib=session.policy.log_tail_mib,
            )
        node = NodeRun(
            host=session.host,
            agent_id=session.agent_id,
            pid=os.getpid(),
            nproc=group.spec.local_world_size,
        )
        session.recorder.update_run(
            run_id=session.run_id,
            nodes=(node,),
            world_size=group.workers[0].world_size if group.workers else 0,
        )

    def _candidates(self) -> list[str]:
        run_id = self._session.run_id
        named = self._session.policy.run_dir
        first = Path(named) if named else Path("resilient-runs") / run_id
        return [str(Path.cwd() / first), str(Path(tempfile.gettempdir()) / f"resilient-{run_id}")]

    @contextmanager
    def streams(
        self, attempt: int, rank: int, stdout: int | None, stderr: int | None
    ) -> Iterator[tuple[int | None, int | None]]:
        """Descriptors for a worker's stdout and stderr; None means the agent's own.

        torch gives a descriptor where it redirects to a file of its own, and one of /dev/null
        where a rank is filtered from the console: that rank is captured all the same, silently.
        """
        out = self._wants(stdout)
        err = self._wants(stderr)
        if self._scribe is None or not self._capture or not (out or err):
            yield stdout, stderr
            return
        console = not any(fd is not None and _is_null(fd) for fd in (stdout, stderr))
        outputs = None
        with failing_open(self._session.recorder, "capturing output"):
            outputs = self._scribe.outputs(
                attempt=attempt, rank=rank, stdout=out, stderr=err, console=console
            )
        if outputs is None:
            yield stdout, stderr
            return
        try:
            yield (
                outputs.stdout_fd if out and outputs.stdout_fd is not None else stdout,
                outputs.stderr_fd if err and outputs.stderr_fd is not None else stderr,
            )
        finally:
            outputs.close()

    @staticmethod
    def _wants(fd: int | None) -> bool:
        return fd is None or _is_null(fd)

    def look_after(self) -> None:
        """Read the scribe's answers, start another when it died, keep window sizes right."""
        if self._scribe is None:
            return
        self._session.hear()
        if self._scribe.revive():
            self._session.recorder.event("scribe.revived", pid=self._scribe.pid)
            say("the process that captures output had died; another one took over")
        self._scribe.window_size()

    def log_of(self, agent: SeamAgent, local_rank: int, *, rank: int, attempt: int) -> str:
        """Where the output of a rank lies: torch's file, or the folder in the run directory."""
        stdout, stderr = agent.outputs(local_rank)
        for path in (stderr, stdout):
            if path and path != os.devnull:
                return os.path.abspath(path)  # the report would look below the run directory
        if self._scribe is None or not self._capture:
            return ""
        return f"nodes/{self._session.node}/attempt-{attempt}/{rank}/"


def _is_null(fd: int) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), os.stat(os.devnull))
    except OSError:
        return False
