"""Stop workers: carries out the ladder of `decide.stop` on all of them at once.

Deaths are seen on pidfds, so the usual case (no SIGTERM handler) ends with the worker. Nothing
is reaped here: whoever started a worker collects it.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from resilient.decide.stop import Action, Facts, Graces, Sent, Step, Why, next_step

_LOOK_S = 0.05  # how often a waiting worker is looked at again: saving, stopped, hurry


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A worker to stop: leader of a process group of its own."""

    pid: int
    pidfd: int


class Stopped(msgspec.Struct, frozen=True, kw_only=True):
    """How it ended."""

    dead: bool  # False: it survived SIGKILL for as long as we waited
    mono: float  # when its death was seen, or when we gave up; seconds on the clock of `now`
    signal: str = ""  # name of the last signal that we sent before, "" for none
    released: bool = False  # its group's sockets had been shut down before


@dataclass(frozen=True, kw_only=True)
class Senses:
    """What has to be seen, handed in: this layer may not look for itself."""

    catches: Callable[[int, int], bool]  # (pid, signal number): has it a handler for that
    is_stopped: Callable[[int], bool]
    inside_save: Callable[[int, float], str | None]  # (pid, seconds since the epoch)
    group_sockets: Callable[[], dict[int, list[int]]]  # pid → descriptors; asked at most once
    release: Callable[[int, Sequence[int]], int]


@dataclass
class _Worker:
    target: Target
    sent: Sent
    signal: str = ""
    released: bool = False


@dataclass
class _Stop:
    why: Why
    signum: int
    graces: Graces
    senses: Senses
    now: Callable[[], float]
    workers: dict[int, _Worker]  # those alive, by pidfd
    sockets: dict[int, list[int]] | None = None

    def advance_all(self, hurry: bool) -> float:
        """Take every step that is due, for all; when to look again.

        Those without a handler go first: once a release has cut a connection, its other end
        fails by itself, and that must not look like a failure of its own.
        """
        order = sorted(
            self.workers.values(),
            key=lambda worker: self.senses.catches(worker.target.pid, self.signum),
        )
        return min(self._advance(worker, hurry) for worker in order)

    def _advance(self, worker: _Worker, hurry: bool) -> float:
        while True:
            step = self._next(worker, hurry)
            if step.action is Action.WAIT:
                return step.until
            self._do(step.action, worker)

    def _next(self, worker: _Worker, hurry: bool) -> Step:
        if hurry and worker.sent.kill_at is None:
            return Step(Action.KILL)
        facts = Facts()
        if self.why == "fault" and worker.sent.kill_at is None:
            pid = worker.target.pid
            facts = Facts(
                stopped=self.senses.is_stopped(pid),
                catches_term=self.senses.catches(pid, self.signum),
                saving=self.senses.inside_save(pid, time.time()) is not None,
            )
        return next_step(self.now(), facts, worker.sent, why=self.why, graces=self.graces)

    def _do(self, action: Action, worker: _Worker) -> None:
        if action is Action.RELEASE:
            self._release(worker.target.pid)
            worker.sent = _noted(worker.sent, released_at=self.now())
        elif action is Action.TERM:
            stopped = self.why == "outside" and self.senses.is_stopped(worker.target.pid)
            self._signal(worker, self.signum)
            if stopped:  # it could not act on the signal otherwise
                _send(worker.target, signal.SIGCONT)
            worker.sent = _noted(worker.sent, term_at=self.now())
        else:
            self._signal(worker, signal.SIGKILL)
            worker.sent = _noted(worker.sent, kill_at=self.now())

    def _release(self, pid: int) -> None:
        if self.sockets is None:
            self.sockets = self.senses.group_sockets()
        if self.senses.release(pid, self.sockets.get(pid, [])):
            for worker in self.workers.values():  # their connections to it are cut as well
                worker.released |= bool(self.sockets.get(worker.target.pid))

    def _signal(self, worker: _Worker, signum: int) -> None:
        _send(worker.target, signum)
        worker.signal = _name(signum)


def _noted(sent: Sent, **changes: float) -> Sent:
    return msgspec.structs.replace(sent, **changes)


def _name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"SIG{signum}"


def _send(target: Target, signum: int) -> None:
    """To its whole process group, as torchrun does; to it alone where it leads none."""
    with contextlib.suppress(OSError):  # it has ended meanwhile
        if os.getpgid(target.pid) == target.pid:
            os.killpg(target.pid, signum)
        else:
            signal.pidfd_send_signal(target.pidfd, signum)


def stop_workers(
    targets: Sequence[Target],
    *,
    why: Why,
    signum: int,
    stop_grace_s: float,
    fault_grace_s: float,
    senses: Senses,
    kill_wait_s: float = 10.0,
    now: Callable[[], float] = time.monotonic,
    hurry: Callable[[], bool] = lambda: False,
) -> dict[int, Stopped]:
    """Stop all targets; by pid, how each ended. Returns as soon as the last one is dead.

    A worker that survives SIGKILL (state D) is given up after `kill_wait_s`. `hurry` is asked
    every 50 ms; once it is true, everything still alive gets SIGKILL.
    """
    alive = {t.pidfd: _Worker(t, Sent(began_at=now())) for t in targets}
    graces = Graces(stop_s=stop_grace_s, fault_s=fault_grace_s)
    stop = _Stop(why, signum, graces, senses, now, alive)
    poller = select.poll()
    for pidfd in alive:
        poller.register(pidfd, select.POLLIN)
    ends: dict[int, Stopped] = {}
    timeout_s = 0.0  # a first look: who is dead already needs no signal
    while True:
        for pidfd, _ in poller.poll(timeout_s * 1000):
            poller.unregister(pidfd)
            worker = alive.pop(pidfd)
            ends[worker.target.pid] = _ended(worker, now(), dead=True)
        moment = now()
        for pidfd, worker in list(alive.items()):
            if worker.sent.kill_at is not None and moment >= worker.sent.kill_at + kill_wait_s:
                ends[worker.target.pid] = _ended(alive.pop(pidfd), moment, dead=False)
        if not alive:
            return ends
        until = stop.advance_all(hurry())
        timeout_s = max(0.0, min(until - now(), _LOOK_S))


def _ended(worker: _Worker, moment: float, *, dead: bool) -> Stopped:
    return Stopped(dead=dead, mono=moment, signal=worker.signal, released=worker.released)
