"""One life of the worker group: start it, watch it until it succeeds or something goes wrong.

    start ──► watch ──┬─ every worker succeeded ───────────► SUCCEEDED
                      ├─ a worker failed, or was stopped ──► FAILED
                      ├─ a signal came from outside ───────► SIGNAL
                      ├─ a node wants to join ─────────────► MEMBERS  (torch's rendezvous)
                      ├─ another node says it is over ─────► PEERS    (ours, see `nodes`)
                      ├─ our lease ran out ────────────────► FENCED
                      └─ the platform takes a node back ───► PREEMPTED, once the workers had time

Deaths come by pidfd. A failure that only repeats what a peer did ("connection closed") waits
`fault_grace_s` for the peer's own death, so that the report names the first one.
"""

import select
import time
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from resilient.agent.endings import Endings
from resilient.agent.failopen import failing_open
from resilient.agent.oom import OomCounter
from resilient.agent.session import Session
from resilient.agent.torch_seam import SeamAgent
from resilient.agent.worker_process import WorkerProcess
from resilient.model.evidence import StoppedWorker, WorkerEnd
from resilient.sense.processes import is_stopped

TICK_S = 0.5  # how often things that no descriptor tells are looked at


class Outcome(Enum):
    """How watching an attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SIGNAL = "signal"
    MEMBERS = "members"
    PEERS = "peers"
    FENCED = "fenced"
    PREEMPTED = "preempted"


class Others(Protocol):
    """The other nodes of the run, where there are any."""

    def fileno(self) -> int:
        """Readable when they should be asked."""

    def outcome(self, attempt: "Attempt", now: float) -> Outcome | None:
        """What the others make of the attempt."""


class Attempt:
    """The workers of one attempt on this node and what was seen of them."""

    def __init__(
        self, session: Session, agent: SeamAgent, number: int, others: Others | None = None
    ) -> None:
        self.session, self.agent, self.number, self._others = session, agent, number, others
        self.workers: dict[int, WorkerProcess] = {}  # by local rank
        self.oom = OomCounter()
        self.endings = Endings(session, agent, number)
        self.started_at, self.started = time.time(), time.monotonic()
        self.noticed_at, self.noticed = 0.0, 0.0
        self.last_report = self.started  # of any bootstrap, by the monotonic clock
        self.stopped: dict[int, StoppedWorker] = {}
        self._stopped_since: dict[int, float] = {}
        self._next_members = self.started
        self._settle_until: float | None = None
        self.preempted_until: float | None = None  # when the workers have had their time to save
        told = agent.fixed_membership or others is not None
        self._tick_s = TICK_S if told else agent.group.spec.monitor_interval

    @property
    def running(self) -> list[WorkerProcess]:
        """Workers that have not ended."""
        return [w for w in self.workers.values() if w.local_rank not in self.endings.by_local_rank]

    def add(self, worker: WorkerProcess) -> None:
        """Take in a started worker."""
        self.workers[worker.local_rank] = worker

    def watch(self, housekeeping: Callable[[float], float]) -> Outcome:
        """Watch until an outcome. `housekeeping(now)` is called at every wake-up, and returns in
        how many seconds at most it wants to be called again."""
        poller = self._poller()
        wait_s = 0.0
        while True:
            ready = {fd for fd, _ in poller.poll(max(0.0, wait_s) * 1000)}
            now = time.monotonic()
            for fd in self._take_in(ready, now):
                poller.unregister(fd)
            if self.session.signals.first is not None:
                return self._noticed(Outcome.SIGNAL, now)
            outcome = self._outcome(now)
            if outcome is not None:
                return self._noticed(outcome, now)
            wait_s = min(self._tick_s, housekeeping(now), self._until_settled(now))

    def _noticed(self, outcome: Outcome, now: float) -> Outcome:
        self.noticed_at, self.noticed = time.time(), now
        return outcome

    def _poller(self) -> select.poll:
        poller = select.poll()
        poller.register(self.session.signals.fileno(), select.POLLIN)
        if self._others is not None:
            poller.register(self._others.fileno(), select.POLLIN)
        for worker in self.running:
            poller.register(worker.pidfd, select.POLLIN)
            if worker.channel is not None and worker.channel.open:
                poller.register(worker.channel.fileno(), select.POLLIN)
        return poller

    def _take_in(self, ready: set[int], now: float) -> list[int]:
        """Read what is readable; returns the descriptors that are finished with."""
        done = []
        for worker in self.running:
            channel = worker.channel
            if channel is not None and channel.open and channel.fileno() in ready:
                self._hear(worker, now)
                if not channel.open:
                    done.append(channel.fileno())
        for worker in self.running:
            if worker.pidfd in ready:
                if worker.channel is not None and worker.channel.open:
                    self._hear(worker, now)
                    done.append(worker.channel.fileno())
                self.endings.add(worker, now)
                done.append(worker.pidfd)
        return done

    def _hear(self, worker: WorkerProcess, now: float) -> None:
        with failing_open(self.session.recorder, "listening to a worker"):
            for message in worker.hear():
                self.last_report = now
                kind = message.pop("t")
                # Values of variables stay where they are: names are enough to explain.
                if isinstance(message.get("env"), dict):
                    message["env"] = sorted(message["env"])
                self.session.recorder.event(f"worker.{kind}", rank=worker.rank, **message)

    def _outcome(self, now: float) -> Outcome | None:
        if self.preempted_until is not None:
            over = now >= self.preempted_until or not self.running
            return Outcome.PREEMPTED if over else None
        failed = self.endings.failures()
        if failed:
            return Outcome.FAILED if self._settled(failed, now) else self._elsewhere(now)
        if self.workers and not self.running:
            return Outcome.SUCCEEDED
        return Outcome.FAILED if self._watch_stopped(now) else self._elsewhere(now)

    def _elsewhere(self, now: float) -> Outcome | None:
        """What other nodes make of it, and nodes that want to join."""
        if self._others is not None:
            return self._others.outcome(self, now)
        waiting = not self.endings.failures() and self._members(now)
        return Outcome.MEMBERS if waiting else None

    def _settled(self, failed: list[WorkerEnd], now: float) -> bool:
        """Whether the first cause is among the ends so far, or waiting for it is over."""
        if not self.running or not self.endings.only_victims(failed):
            return True
        if self._settle_until is None:
            self._settle_until = now + self.session.policy.fault_grace_s
        return now >= self._settle_until

    def _until_settled(self, now: float) -> float:
        return TICK_S if self._settle_until is None else max(0.0, self._settle_until - now)

    def _watch_stopped(self, now: float) -> bool:
        """Notice workers that were stopped while others run; all stopped is somebody's pause."""
        limit = self.session.policy.stopped_s
        if not limit:
            return False
        stopped = [worker for worker in self.running if is_stopped(worker.pid)]
        if len(stopped) == len(self.running):
            self._stopped_since.clear()
            return False
        for local_rank in set(self._stopped_since) - {w.local_rank for w in stopped}:
            del self._stopped_since[local_rank]
        for worker in stopped:
            seconds = now - self._stopped_since.setdefault(worker.local_rank, now)
            if seconds >= limit:
                self.stopped[worker.local_rank] = StoppedWorker(
                    rank=worker.rank,
                    local_rank=worker.local_rank,
                    pid=worker.pid,
                    host=self.session.host,
                    seconds=round(seconds, 2),
                    phase=worker.page.phase,
                    step=worker.page.step,
                )
        return bool(self.stopped)

    def _members(self, now: float) -> bool:
        """Whether a node wants to join; asked as often as torchrun asks."""
        if self.agent.fixed_membership or now < self._next_members:
            return False
        self._next_members = now + max(self.agent.group.spec.monitor_interval, 0.1)
        return self.agent.waiting_nodes() > 0
