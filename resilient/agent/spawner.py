"""Starts the process of a local rank, or wakes the standby that waits for it."""

from collections.abc import Sequence
from subprocess import Popen

from resilient.agent.attempt import Attempt
from resilient.agent.failopen import failing_open
from resilient.agent.outlets import Outlets
from resilient.agent.session import Session
from resilient.agent.standbys import Standbys
from resilient.agent.worker_process import start


class Spawner:
    """What torch's process context calls for each of its processes."""

    def __init__(self, session: Session, standbys: Standbys, outlets: Outlets) -> None:
        self._session, self._standbys, self._outlets = session, standbys, outlets
        self.attempt: Attempt | None = None  # to which the next processes belong
        self.warm = True  # what the last decision allows

    def spawn(
        self,
        local_rank: int,
        argv: Sequence[str],
        env: dict[str, str],
        stdout: int | None,
        stderr: int | None,
    ) -> Popen[bytes]:
        """Start or wake one worker. `stdout`, `stderr`: where torch redirects them, else None."""
        attempt = self.attempt
        assert attempt is not None
        rank = int(env.get("RANK", local_rank))
        env = {
            **{name: value for name, value in env.items() if name != "RESILIENT_RUN_KEY"},
            "RESILIENT_ATTEMPT": str(attempt.number),
            "RESILIENT_RUN_ID": self._session.run_id,
        }
        with self._outlets.streams(attempt.number, rank, stdout, stderr) as (out, err):
            worker = None
            with failing_open(self._session.recorder, "waking a standby"):
                worker = self._standbys.take(local_rank, argv, env, out, err) if self.warm else None
            if worker is None:
                mode = "observe" if self._session.hooks else None
                worker = start(local_rank, argv, env, mode=mode, stdout=out, stderr=err)
        worker.rank = rank
        self._standbys.remember(local_rank, argv, env)
        attempt.add(worker)
        if attempt.number and not worker.warm:
            worker.cold_why = self._standbys.why_cold(local_rank) if self.warm else "as decided"
        self._session.recorder.event(
            "worker.start", rank=rank, pid=worker.pid, warm=worker.warm, why_cold=worker.cold_why
        )
        return worker.popen
