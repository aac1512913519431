"""Standbys: one process per local rank that has imported torch and waits to be the next worker.

Whether one may be started is decided in `decide/standby.py`; this file keeps them: starts one
at a time when the attempt is quiet, listens, hands one out at a restart, replaces one once.
"""

from collections.abc import Sequence
from contextlib import suppress

from resilient.agent.attempt import Attempt
from resilient.agent.session import Session
from resilient.agent.worker_process import WorkerProcess, go, start_standby
from resilient.decide.standby import Standby, may_start, plan_for, quiet
from resilient.model.protocol import Late, Observed
from resilient.sense.memory import available_mib
from resilient.sense.processes import is_stopped

START_LIMIT = 2  # per local rank and attempt: the first, and one replacement


class Standbys:
    """The standbys of this node's local ranks."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._waiting: dict[int, WorkerProcess] = {}
        self._observed: dict[int, tuple[Observed | None, Late | None]] = {}
        self._commands: dict[int, tuple[tuple[str, ...], dict[str, str]]] = {}
        self._started: dict[int, int] = {}
        self._said: dict[int, Standby] = {}  # the last verdict on each local rank
        self.disabled = ""  # why none is made any more in this run
        self.no_late = False

    @property
    def pids(self) -> set[int]:
        """Processes that the sweep between attempts must leave alone."""
        return {process.pid for process in self._waiting.values()}

    def remember(self, local_rank: int, argv: Sequence[str], env: dict[str, str]) -> None:
        """How the worker of a local rank was started: its standby is started the same way."""
        self._commands[local_rank] = (tuple(argv), env)

    def new_attempt(self) -> None:
        """Each attempt may start its standbys anew."""
        self._started.clear()

    def take(
        self,
        local_rank: int,
        argv: Sequence[str],
        env: dict[str, str],
        out: int | None,
        err: int | None,
    ) -> WorkerProcess | None:
        """A standby that has become the worker, or None where there is none that fits."""
        process = self._waiting.pop(local_rank, None)
        if process is None:
            return None
        fits = process.argv == tuple(argv) and not is_stopped(process.pid)
        if fits and go(process, env, out, err):
            return process
        self._end(process)
        return None

    def why_cold(self, local_rank: int) -> str:
        """Why the worker of a local rank has no standby."""
        verdict = self._said.get(local_rank)
        against = verdict.why if verdict is not None and not verdict.ok else ""
        return self.disabled or against or "no standby had been started yet"

    def learn(self, attempt: Attempt) -> None:
        """Take over what the workers of an attempt reported about themselves."""
        for worker in attempt.workers.values():
            if not worker.warm and worker.observed is not None:
                self._observed[worker.local_rank] = (worker.observed, worker.late)
            if worker.started_over and not self.disabled:
                self.disable(f"rank {worker.rank} could not be started warm: {worker.started_over}")
            if worker.late_mismatch:
                self.no_late = True

    def disable(self, why: str) -> None:
        """Make no more standbys in this run."""
        self.disabled = why
        self._session.recorder.event("standby.disabled", why=why)
        self.close()

    def keep(self, attempt: Attempt, now: float) -> float:
        """Look after the standbys; returns in how many seconds to be called again."""
        self._listen()
        self.learn(attempt)
        if any(not process.ready for process in self._waiting.values()):
            return 0.25
        if self.disabled or not quiet(
            now=now,
            started=attempt.started,
            last_report=attempt.last_report,
            delay_s=self._session.policy.standby_delay_s,
        ):
            return 1.0
        self._replace_outdated()
        for local_rank, worker in attempt.workers.items():
            if local_rank not in self._waiting and self._start(local_rank, worker):
                return 0.25
        return 1.0

    def _replace_outdated(self) -> None:
        """End standbys that were started before their rank came to import torch._dynamo.

        Without it a DDP worker would still spend most of a cold start's time.
        """
        for local_rank, process in list(self._waiting.items()):
            _, late = self._observed.get(local_rank, (None, None))
            if late is not None and not process.late_planned and not self.no_late:
                self._session.recorder.event("standby.outdated", rank=process.rank)
                self._end(self._waiting.pop(local_rank))
                self._started[local_rank] = max(0, self._started.get(local_rank, 0) - 1)

    def _start(self, local_rank: int, worker: WorkerProcess) -> bool:
        if self._started.get(local_rank, 0) >= START_LIMIT or local_rank not in self._commands:
            return False
        observed, late = self._observed.get(local_rank, (None, None))
        verdict = may_start(
            python=self._session.hooks,
            switched_on=self._session.policy.warm_start == "auto",
            observed=observed,
            free_mib=available_mib(),
            margin_mib=self._session.policy.standby_memory_mib,
        )
        self._tell(local_rank, worker.rank, verdict)
        if not verdict.ok or observed is None:
            return False
        argv, env = self._commands[local_rank]
        plan = plan_for(observed, None if self.no_late else late)
        process = start_standby(local_rank, argv, env, plan)
        process.rank, process.late_planned = worker.rank, plan.late is not None
        self._waiting[local_rank] = process
        self._started[local_rank] = self._started.get(local_rank, 0) + 1
        self._session.recorder.event(
            "standby.start", rank=worker.rank, pid=process.pid, late=plan.late is not None
        )
        return True

    def _tell(self, local_rank: int, rank: int, verdict: Standby) -> None:
        if verdict != self._said.get(local_rank):
            self._said[local_rank] = verdict
            self._session.recorder.event("standby.rule", rank=rank, ok=verdict.ok, why=verdict.why)

    def _listen(self) -> None:
        for local_rank, process in list(self._waiting.items()):
            for message in process.hear():
                kind = message.pop("t")
                self._session.recorder.event(f"standby.{kind}", rank=process.rank, **message)
            if process.popen.poll() is not None:
                self._session.recorder.event(
                    "standby.exit", rank=process.rank, exit_code=process.popen.returncode
                )
                process.close()
                del self._waiting[local_rank]

    def _end(self, process: WorkerProcess) -> None:
        if process.channel is not None:
            process.channel.close()
        with suppress(ProcessLookupError):
            process.popen.kill()
        process.popen.wait()
        process.close()

    def close(self) -> None:
        """End all standbys."""
        while self._waiting:
            self._end(self._waiting.popitem()[1])
