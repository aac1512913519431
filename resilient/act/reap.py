"""Nobody outlives the run: kill, reap, look again, until no descendant is left.

The caller is a subreaper (`prctl.set_subreaper`), so whatever loses its parent, daemons of any
kind included, becomes its child; see `family` for why an empty list of children is proof.
"""

import contextlib
import os
import signal
import time
from collections.abc import Container, Iterator

import msgspec

from resilient.act import family
from resilient.act.shared_memory import (
    mapped_shared_memory,
    remove_orphan_shared_memory,
    remove_shared_memory,
)

__all__ = [
    "Swept",
    "mapped_shared_memory",
    "reap_orphans",
    "remove_orphan_shared_memory",
    "remove_shared_memory",
    "sweep",
    "terminate_then_sweep",
]

_SHORTEST_S, _LONGEST_S = 0.0002, 0.01  # pauses between looks at processes that take their time
_STUCK_ROUNDS = 8  # rounds without news after which the whole tree is walked again


class Swept(msgspec.Struct, frozen=True):
    """What a sweep did."""

    killed: tuple[int, ...]  # pids that were found alive and were signalled
    unkillable: tuple[int, ...]  # pids still alive at the deadline (state D, another user's)
    rounds: int
    seconds: float


class _Hunt:
    """The processes below `root` but for those in `keep` and below."""

    def __init__(self, root: int, keep: Container[int], tracker_grace_s: float) -> None:
        self._root, self._keep, self._tracker_grace_s = root, keep, tracker_grace_s
        self._began = time.monotonic()
        self._rounds = 0
        self._met: dict[int, None] = {}  # all that were signalled, in order
        self._signalled: dict[int, int] = {}  # pid → last signal, until it is reaped
        self._trackers: dict[int, bool] = {}
        self._lonely_since: float | None = None  # since when only trackers are left

    def run(self, signum: int, deadline: float) -> bool:
        """Send `signum` to each until none is left (True) or the deadline has passed."""
        pause, quiet = _SHORTEST_S, 0
        settled: list[int] = []
        while (listed := self._children()) != settled:
            self._rounds += 1
            whole = quiet % _STUCK_ROUNDS == 0  # the first time, and whenever things are stuck
            news = self._strike(self._tree() if whole else iter(listed), signum)
            if time.monotonic() >= deadline:
                return False
            if self._root != os.getpid() and all(map(family.ended, listed)):
                settled = listed  # zombies of another: none has left an orphan if no pid is new
            elif news:
                quiet, pause = 1, _SHORTEST_S
            else:
                quiet, pause = quiet + 1, min(2 * pause, _LONGEST_S)
                time.sleep(pause)
        return True

    def result(self) -> Swept:
        left = [pid for pid in self._tree() if not family.ended(pid)]
        seconds = time.monotonic() - self._began
        return Swept(tuple(self._met), tuple(left), self._rounds, seconds)

    def _children(self) -> list[int]:
        return [pid for pid in family.children(self._root) if pid not in self._keep]

    def _tree(self) -> Iterator[int]:
        """All of them, parents first; each one's children are read before it is handed out."""
        waiting = self._children()
        for pid in waiting:
            waiting += [child for child in family.children(pid) if child not in self._keep]
            yield pid

    def _strike(self, pids: Iterator[int], signum: int) -> bool:
        """Reap the dead and signal the living; whether anything new was met."""
        news, others = False, False
        patient = []
        for pid in pids:
            if _reap(pid):
                news = True
                self._signalled.pop(pid, None)  # the number may come again
                self._trackers.pop(pid, None)
            elif self._is_tracker(pid):
                patient.append(pid)
            elif not family.ended(pid):
                others = True
                news |= self._signal(pid, signum)
        if others or not patient:
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = time.monotonic()
        elif time.monotonic() - self._lonely_since > self._tracker_grace_s:
            for pid in patient:
                self._signal(pid, signal.SIGKILL)
        return news

    def _is_tracker(self, pid: int) -> bool:
        if pid not in self._trackers:
            self._trackers[pid] = _cleans_up_by_itself(pid)
        return self._trackers[pid]

    def _signal(self, pid: int, signum: int) -> bool:
        """Signal it once; whether it is the first time."""
        if self._signalled.get(pid) == signum:
            return False
        self._met[pid] = None
        self._signalled[pid] = signum
        with contextlib.suppress(OSError):  # gone, or another user's: then it stays listed
            os.kill(pid, signum)
        return True


def _reap(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else's child
        return False


def reap_orphans(keep: Container[int]) -> int:
    """Collect children of this process that have ended and are not in `keep`; how many.

    A subreaper inherits what daemonises, and nobody else collects it: without this a job that
    daemonises often runs out of pids. `keep` names every child that has a `Popen` or a waiter.
    """
    return sum(_reap(pid) for pid in family.children(os.getpid()) if pid not in keep)


def _cleans_up_by_itself(pid: int) -> bool:
    """multiprocessing's resource tracker or torch's shared memory manager.

    They remove what the others left in shared memory once the last of these is gone.
    """
    line = family.read(f"/proc/{pid}/cmdline")
    return b"resource_tracker import main" in line or b"torch_shm_manager" in line


def sweep(
    root: int, *, keep: Container[int], deadline_s: float, tracker_grace_s: float = 1.0
) -> Swept:
    """SIGKILL every descendant of `root` that is neither in `keep` nor below one that is.

    Children of the calling process are reaped, each by its pid: one that has a `Popen` must
    have been collected before, or be in `keep`. Ends when none is left, or after `deadline_s`.
    Resource trackers get `tracker_grace_s` to end by themselves once all others are dead.
    """
    hunt = _Hunt(root, keep, tracker_grace_s)
    hunt.run(signal.SIGKILL, time.monotonic() + deadline_s)
    return hunt.result()


def terminate_then_sweep(
    root: int, *, keep: Container[int], grace_s: float, deadline_s: float
) -> Swept:
    """The same, but first SIGTERM and up to `grace_s` to end; `deadline_s` counts from there."""
    hunt = _Hunt(root, keep, 1.0)
    if not hunt.run(signal.SIGTERM, time.monotonic() + grace_s):
        hunt.run(signal.SIGKILL, time.monotonic() + deadline_s)
    return hunt.result()
