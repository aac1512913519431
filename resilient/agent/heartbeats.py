"""Heartbeats and the lease: two threads beside the agent's loop.

    beater   writes our beat every period, and reads the beats of those to whom we listen
    warden   kills our workers in time when the beater could not renew the lease

A beat is a counter, and is judged by the reader's clock alone: whoever does not change it for
`limit_s` is lost. The lease is the other side of that: a node that could not write its beat has
killed its workers before anybody may call it lost (`decide.lease`).
"""

import threading
import time
from collections.abc import Callable, Iterator
from itertools import repeat

import msgspec

from resilient.agent.control_store import ControlStore, StoreLost
from resilient.agent.sealing import Seal
from resilient.decide.heartbeat import Pulse, heard, least_limit_s, period_s, silent_s
from resilient.decide.lease import Lease
from resilient.decide.watching import RARELY, TOGETHER, Watch

BEAT_BYTES = 512
LEAST_WAIT_S = 0.01
FIRST_BEAT_S = 30.0  # until a node's first beat: its connection may have to wait for a name server


class Beat(msgspec.Struct, frozen=True):
    """The value of a node's own key."""

    count: int


def now_s() -> float:
    """Seconds that also count while the machine sleeps, for leases."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def beat_key(node: str) -> str:
    """Where a node's beat lies."""
    return f"beat/{node}"


class Heartbeats:
    """Beats for one node. `wake` is called from a thread whenever something has changed."""

    def __init__(
        self,
        connect: Callable[[], ControlStore],
        seal: Seal,
        me: str,
        limit_s: float,
        *,
        wake: Callable[[], None],
        kill: Callable[[], None],
        abandon: Callable[[], None] = lambda: None,
        count: int = 0,
    ) -> None:
        """`kill`: our lease has run out. `abandon`: and nobody has heeded that for the limit.

        `count`: of the last beat under this name, where there was one before.
        """
        self._connect, self._seal, self._me, self._wake, self._kill = connect, seal, me, wake, kill
        self._abandon, self._heeded = abandon, threading.Event()
        self._given_s = self._limit_s = limit_s  # many nodes need a longer one than was given
        self._lease = Lease(limit_s=limit_s)
        self._period_s = period_s(2, limit_s)
        self._pulses: dict[str, Pulse] = {}
        self._rarely: frozenset[str] = frozenset()  # of those, whom we ask only now and then
        self._store: ControlStore  # from `begin` on, the beater's own
        self.count, self._rounds, self._written = count, 0, b""
        self._lock = threading.Lock()
        self._closed, self._changed = threading.Event(), threading.Event()
        self._renewed = now_s()
        self.store_lost = ""  # why, once the store's host does not answer any more
        self.fenced = False  # our lease ran out, and our workers were killed for it
        self.unanswered_s = 0.0  # then: for how long the store had not answered
        self._ended = threading.Event()  # the beater has: its last beat was answered, or failed

    def begin(self) -> None:
        """Write the first beat, and go on on threads. Raises StoreLost.

        No worker may be started before: the lease begins with this beat.
        """
        self._store = self._connect()
        self._renewed = now_s()
        self._beat()
        for run in (self._beat_on, self._guard):
            threading.Thread(target=run, name=f"resilient-{run.__name__}", daemon=True).start()

    def watch(self, whom: Watch, *, group: int) -> None:
        """Listen to these nodes' beats from now on; `group` nodes share the store."""
        limit_s = max(self._given_s, least_limit_s(group))
        wanted, period = {*whom.often, *whom.rarely}, period_s(group, limit_s)
        with self._lock:
            self._rarely = frozenset(whom.rarely) - set(whom.often)
            if wanted == set(self._pulses) and period == self._period_s:
                return
            new = Pulse(count=-1, changed_at=now_s())
            self._pulses = {node: self._pulses.get(node, new) for node in wanted}
            self._period_s, self._limit_s, self._lease = period, limit_s, Lease(limit_s=limit_s)
        self._changed.set()

    def silent(self) -> dict[str, float]:
        """Nodes whose beat did not change for the limit, and the seconds since it last did."""
        with self._lock:
            now = now_s()
            return {n: silent_s(p, now) for n, p in self._pulses.items() if self._is_over(p, now)}

    def _is_over(self, pulse: Pulse, now: float) -> bool:
        limit_s = self._limit_s if pulse.count >= 0 else max(FIRST_BEAT_S, self._limit_s)
        return silent_s(pulse, now) >= limit_s

    def count_of(self, node: str) -> int:
        """The last beat heard of a node; -1 before the first."""
        with self._lock:
            pulse = self._pulses.get(node)
        return pulse.count if pulse is not None else -1

    def heed_fence(self) -> bool:
        """Whether our lease has run out; from now on the caller looks after what follows."""
        if self.fenced:
            self._heeded.set()
        return self.fenced

    def answered_late(self) -> bool:
        """After a fence: whether the store answers again after all. Waits up to the limit.

        No other thread should ask the store before: a host that is frozen never answers.
        """
        return self._ended.wait(self._limit_s) and not self.store_lost

    def close(self) -> None:
        """Beat no more; the lease ends with it, and nobody is killed for that."""
        self._closed.set()
        self._changed.set()

    def _beat_on(self) -> None:
        try:
            while not (self._closed.is_set() or self.fenced):
                sent = now_s()
                if self._beat() and not self._renew(sent):
                    return
                self._listen(self._store)
                self._changed.wait(self._pause(sent))
                self._changed.clear()
        except StoreLost as error:
            self.store_lost = str(error) or "no answer"
            self._wake()
        finally:
            self._ended.set()

    def _beat(self) -> bool:
        """Write the next beat; whether the store has answered that it lies there.

        Setting a key has no answer; only comparing and setting it has.
        """
        self.count += 1
        key = beat_key(self._me)
        message = self._seal.close(key, Beat(self.count))
        found = self._store.replace(key, message, self._written)
        self._written = message.encode()
        if found != self._written:  # a stranger's value lay there
            found = self._store.replace(key, message, found)
        return found == self._written

    def _pause(self, sent: float) -> float:
        """Until the next beat; sooner while somebody is suspected, to notice at the limit."""
        now = now_s()
        with self._lock:
            due, limit_s = sent + self._period_s, self._limit_s
            often = [pulse for node, pulse in self._pulses.items() if node not in self._rarely]
        near = [end for one in often if now < (end := one.changed_at + limit_s) < due]
        return max(0.0, min([due, *near]) - now)

    def _listen(self, store: ControlStore) -> None:
        self._rounds += 1
        with self._lock:
            asleep = self._rarely if self._rounds % RARELY else frozenset()
            known = {node: pulse.count for node, pulse in self._pulses.items()}
        names = [name for name in known if name not in asleep]
        changed = False
        for name, asked, message in self._messages(store, names, known):
            beat = self._seal.opened(beat_key(name), message, Beat, BEAT_BYTES)
            count = beat.count if beat is not None else -1
            with self._lock:
                pulse = self._pulses.get(name)
                if pulse is None:
                    continue
                self._pulses[name] = heard(pulse, count, now_s(), asked=asked)
                changed |= self._is_over(self._pulses[name], now_s())
        if changed:
            self._wake()

    def _messages(
        self, store: ControlStore, names: list[str], known: dict[str, int]
    ) -> Iterator[tuple[str, float, bytes | None]]:
        """Each node's name, when it was asked for, and what its key holds."""
        there = [name for name in names if known[name] >= 0]
        if len(there) > TOGETHER:
            asked = now_s()
            messages = store.read_all([beat_key(name) for name in there])
            yield from zip(there, repeat(asked), messages, strict=False)
            names = [name for name in names if known[name] < 0]
        for name in names:
            yield name, now_s(), store.peek(beat_key(name))

    def _renew(self, sent: float) -> bool:
        """Note a renewal; False when it came too late, and the lease had run out before."""
        with self._lock:
            late = sent >= self._lease.kill_at(self._renewed)
            if not late:
                self._renewed = sent
        if late:
            self._fence()
        return not late

    def _guard(self) -> None:
        while True:
            with self._lock:
                left_s = self._lease.kill_at(self._renewed) - now_s()
            if left_s <= 0:
                self._fence()
                if not self._heeded.wait(self._limit_s) and not self._closed.is_set():
                    self._abandon()
                return
            if self._closed.wait(max(left_s, LEAST_WAIT_S)):
                return

    def _fence(self) -> None:
        if not self._closed.is_set():
            if not self.fenced:
                self.unanswered_s = now_s() - self._renewed
            self.fenced = True
            self._kill()
            self._wake()
