"""Stop what is left of an attempt, and confirm that every process of it is dead."""

import os
import time
from collections.abc import Callable, Container
from typing import Literal

from resilient.act.reap import (
    Swept,
    mapped_shared_memory,
    reap_orphans,
    remove_orphan_shared_memory,
    remove_shared_memory,
    sweep,
    terminate_then_sweep,
)
from resilient.act.release import release
from resilient.act.stop import Senses, Target, stop_workers
from resilient.agent.attempt import Attempt
from resilient.agent.failopen import failing_open
from resilient.agent.ours import OnlyOurs
from resilient.agent.session import Session
from resilient.sense.processes import catches, descendants, is_stopped
from resilient.sense.saving import inside_save
from resilient.sense.sockets import group_sockets

Why = Literal["outside", "fault"]


class Stopper:
    """Stops one attempt. `keep` are the helpers and standbys, which live on."""

    def __init__(self, session: Session, keep: Callable[[], set[int]]) -> None:
        self._session, self._keep = session, keep
        self.why: Why = "outside"
        # In a user's own program the other children are the user's.
        self._before = {p.pid for p in descendants(os.getpid())} if session.library else set()

    def stop(self, attempt: Attempt, signum: int, stop_grace_s: float) -> None:
        """Run the ladder on every worker that still runs and record how each ended."""
        targets = [Target(pid=w.pid, pidfd=w.pidfd) for w in attempt.running]
        if not targets:
            return
        senses = Senses(
            catches=catches,
            is_stopped=is_stopped,
            inside_save=inside_save,
            group_sockets=self._group_sockets,
            release=release,
        )
        stopped = stop_workers(
            targets,
            why=self.why,
            signum=signum,
            stop_grace_s=stop_grace_s,
            fault_grace_s=self._session.policy.fault_grace_s,
            hurry=self._session.signals.hurry,
            senses=senses,
            kill_wait_s=self._session.policy.unkillable_s,
        )
        for worker in attempt.running:
            end = stopped.get(worker.pid)
            if end is None or not end.dead:
                continue
            with failing_open(self._session.recorder, "noting how a worker was stopped"):
                worker.hear()
                attempt.endings.add(worker, end.mono, sent=end.signal, released=end.released)

    def _group_sockets(self) -> dict[int, list[int]]:
        """Also of the workers' children: a dead rank's data loader holds its connections open."""
        keep = self._keepers()
        return group_sockets([p.pid for p in descendants(os.getpid()) if p.pid not in keep])

    def reap(self, attempt: Attempt) -> None:
        """Collect orphans of the workers, which became our children, while the run goes on."""
        if not self._session.library:
            reap_orphans(self._keep() | {worker.pid for worker in attempt.workers.values()})

    def confirm(self, attempt: Attempt, *, gently: bool = False) -> Swept:
        """Wait until no process of the attempt is left; `gently` asks leftovers first."""
        with failing_open(self._session.recorder, "confirming that all processes are dead"):
            return self._confirm(attempt, gently)
        return Swept(killed=(), unkillable=(), rounds=0, seconds=0.0)

    def _confirm(self, attempt: Attempt, gently: bool) -> Swept:
        started = time.monotonic()
        keep = self._keepers()
        names = set()
        pids = [worker.pid for worker in attempt.workers.values()]
        left = [p.pid for p in descendants(os.getpid()) if p.pid not in keep]
        if left:
            names = mapped_shared_memory(left)
        limit = self._session.policy.unkillable_s
        if gently:
            grace = self._session.policy.fault_grace_s
            swept = terminate_then_sweep(os.getpid(), keep=keep, grace_s=grace, deadline_s=limit)
        else:
            swept = sweep(os.getpid(), keep=keep, deadline_s=limit)
        self._session.writers_left |= bool(swept.unkillable)
        remove_shared_memory([*pids, *swept.killed])
        remove_orphan_shared_memory(names)
        self._session.recorder.event(
            "attempt.dead",
            killed=len(swept.killed),
            unkillable=list(swept.unkillable),
            seconds=round(time.monotonic() - started, 4),
        )
        return swept

    def _keepers(self) -> Container[int]:
        keep = self._keep() | self._before
        return OnlyOurs(keep, self._session.run_id) if self._session.library else keep
