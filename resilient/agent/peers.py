"""This node among the others of a run: it beats, listens, raises and hears alarms, and agrees.

    join or first meeting ─► attend ─► trouble? ─► alarm ─► settle ─► next view ─► attend …

All calls are made by the agent's loop and do not wait, except where they say so. They raise
StoreLost when the store's host does not answer any more.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum

import msgspec

from resilient.agent.agreement import Agreement, decision_key, opened
from resilient.agent.clocks import Clock
from resilient.agent.connections import Connections
from resilient.agent.control_store import ControlStore, StoreLost
from resilient.agent.ear import Ear, alarm_key, opened_alarm
from resilient.agent.fence import Fence
from resilient.agent.heartbeats import Heartbeats
from resilient.agent.newcomers import Newcomers
from resilient.agent.roster import Roster
from resilient.agent.sealing import Seal
from resilient.agent.vigil import Vigil
from resilient.model.membership import (
    Alarm,
    GroupCase,
    GroupDecision,
    NodeCard,
    NodeLimits,
    NodeReport,
    Trouble,
    View,
)

LEAVE_POLL_S = 0.05
COLLECT_S, TURN_S = 0.05, 0.2  # between two looks of whoever decides, and of the others
SUSPECTS = 64  # members to whom a node listens at most because they are missed


class PeerEvent(Enum):
    """What the loop has to know of the other nodes."""

    ALARM = "alarm"  # the attempt is over, somebody said so
    STORE_LOST = "store_lost"  # the store's host does not answer
    FENCED = "fenced"  # our lease ran out; our workers have been killed for it


class Peers:
    """One node's place in the group, from its first attempt to its last."""

    def __init__(
        self,
        connect: Callable[[], ControlStore],
        seal: Seal,
        me: NodeCard,
        *,
        limits: NodeLimits,
        limit_s: float,
        kill: Callable[[], None],
        abandon: Callable[[], None] = lambda: None,
    ) -> None:
        """`connect` opens one more connection; `kill` ends our workers at once, on any thread.

        `abandon` is called on a thread when the loop does not ask for events after a fence.
        """
        self._seal, self.me, self.limits = seal, me, limits
        self._connections = Connections(connect)
        self._store = self._connections.open()
        self.roster, self.fence = Roster(self._store, seal), Fence(self._store, seal)
        self._read_end, self._write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._vigil = Vigil(
            lambda count: Heartbeats(
                self._connections.open,
                seal,
                me.node,
                limit_s,
                wake=self._wake,
                kill=kill,
                abandon=abandon,
                count=count,
            ),
            self._store,
            seal,
            me.node,
        )
        self.view = View(attempt=-1, members=())
        self.alarm: Alarm | None = None
        self._alarmed = False  # there is one: we have said or heard it
        self._ear = Ear(self._connections, seal, -1, wake=self._wake)
        self._agreement: Agreement | None = None
        self.newcomers = Newcomers(self.roster)
        self.clock: Clock | None = None  # of the attempt
        self._told_by = ""  # the node whose clock our offset is measured against

    def fileno(self) -> int:
        """Readable when `event` should be asked."""
        return self._read_end

    def _wake(self) -> None:
        with suppress(OSError):  # full: it is readable already; closed: nobody listens
            os.write(self._write_end, b"p")

    def begin_beating(self) -> None:
        """From now on others may count on us."""
        self._vigil.beats.begin()

    def beat_again(self) -> None:
        """After a fence, once nothing runs here any more: take part again. Raises StoreLost."""
        self._vigil.beat_again()

    def stop_beating(self) -> None:
        """From now on nobody may count on us; our lease ends without a kill."""
        self._vigil.beats.close()

    def refused(self) -> dict[str, int]:
        """How many messages were refused so far, by reason."""
        return dict(self._seal.refused)

    @property
    def unanswered_s(self) -> float:
        """After a fence: for how long the store had not answered."""
        return self._vigil.beats.unanswered_s

    def reachable(self) -> bool:
        """After a fence: whether the store can be used again. May wait for the node timeout."""
        return self._vigil.beats.answered_late()

    # An attempt

    def attend(self, view: View, propose: Callable[[GroupCase], GroupDecision]) -> None:
        """Take part in an attempt: listen to other nodes and for alarms."""
        if self.clock is not None:
            self.clock.close(self._store)
        self.view, self.alarm, self._alarmed = view, None, False
        self._vigil.attend(view, self.newcomers.names())
        self._ear.close()
        self._agreement = Agreement(
            self._store, self._seal, view, self.me.node, limits=self.limits, propose=propose
        )
        self._tell_time(view)
        self._ear = Ear(self._connections, self._seal, view.attempt, wake=self._wake)
        self._ear.listen()

    def _tell_time(self, view: View) -> None:
        before, self.clock = self.clock, Clock(self._connections, self._seal, view.attempt)
        first = view.names[0]
        if first == self.me.node:
            self.clock.answer()
        elif before is not None and before.is_fresh and first == self._told_by:
            self.clock.know(before)
        else:
            self.clock.ask(view.names.index(self.me.node))
        self._told_by = first

    def open_attempt(self, view: View, host: str, port: int) -> None:
        """As its first node: let an attempt begin, with a store for workers at an address."""
        self.fence.raise_to(view.attempt)
        self.roster.publish(view)
        self.roster.publish_store(view.attempt, host, port)

    def event(self) -> PeerEvent | None:
        """What has happened, if anything."""
        with suppress(BlockingIOError):
            while os.read(self._read_end, 64):
                pass
        if self._vigil.beats.heed_fence():
            return PeerEvent.FENCED
        if self._vigil.beats.store_lost:
            return PeerEvent.STORE_LOST
        self._alarmed |= self._ear.alarm is not None
        if self._alarmed:
            return PeerEvent.ALARM
        for node, seconds in self._vigil.silent().items():
            self.raise_alarm(Trouble.NODE_LOST, about=node, silent_s=seconds)
            return PeerEvent.ALARM
        return None

    def raise_alarm(self, trouble: Trouble, about: str = "", silent_s: float = 0.0) -> None:
        """Say that the attempt is over, unless somebody has said so before."""
        key = alarm_key(self.view.attempt)
        alarm = Alarm(
            attempt=self.view.attempt,
            node=self.me.node,
            trouble=trouble,
            about=about,
            silent_s=round(silent_s, 3),
            at=time.time(),
        )
        message = self._seal.close(key, alarm)
        present = self._store.replace(key, message)
        if opened_alarm(self._seal, self.view.attempt, present) is None:
            self._store.replace(key, message, present)
        self._alarmed = True

    def is_mine_to_admit(self) -> bool:
        """Whether this node looks after newcomers: the first of the group does."""
        return bool(self.view.names) and self.view.names[0] == self.me.node

    def look_for_newcomers(self) -> int:
        """How many live nodes ask to be taken in. One or two operations on the store."""
        if self.newcomers.look():
            self._vigil.listen(self.newcomers.names())
        return len(self.newcomers.alive(self._vigil.beats))

    # The end of an attempt

    def publish(self, report: NodeReport) -> None:
        """Say how our part of the attempt ended: nothing of it lives any more."""
        assert self._agreement is not None
        assert self.clock is not None
        report = msgspec.structs.replace(
            report,
            offset_s=self.clock.offset.offset_s,
            uncertainty_s=self.clock.offset.uncertainty_s,
        )
        self._agreement.publish(report)

    def settle(self) -> GroupDecision | None:
        """The decision on the attempt, once there is one; to be called again and again."""
        assert self._agreement is not None
        agreement, alarm = self._agreement, self.hear_alarm()
        if agreement.collecting:
            self._look_for_missing(agreement, alarm)
        found = agreement.step(
            time.monotonic(),
            alarm=alarm,
            decision=self._ear.decision,
            lost=self._vigil.lost(),
            joining=self.newcomers.alive(self._vigil.beats),
            may_write=not self._vigil.beats.fenced,
        )
        if found is not None and alarm is None:
            self.raise_alarm(Trouble.DONE)  # wakes those who wait for the decision
        return found

    def _look_for_missing(self, agreement: Agreement, alarm: Alarm | None) -> None:
        self.newcomers.look()
        missing = agreement.missing(self._vigil.lost()) if alarm is not None else ()
        self._vigil.hear(missing)
        self._vigil.listen((*missing[:SUSPECTS], *self.newcomers.names()))

    def decision_on(self, attempt: int) -> GroupDecision | None:
        """The decision on the end of an attempt in which this node took no part."""
        return opened(self._seal, attempt, self._store.read(decision_key(attempt)))

    @property
    def ready(self) -> bool:
        """Whether all have reported, so that only more nodes are waited for."""
        return self._agreement is not None and self._agreement.ready

    @property
    def look_again_s(self) -> float:
        """When to call `settle` again, at the latest; whoever hears of a decision is woken."""
        mine = self._agreement is not None and self._agreement.collecting
        return COLLECT_S if mine else TURN_S

    @property
    def waiting_for(self) -> str:
        """What keeps the agreement, in words."""
        return self._agreement.waiting_for if self._agreement is not None else ""

    def hear_alarm(self) -> Alarm | None:
        """The first word of trouble in this attempt, once we have said or heard it."""
        if self.alarm is None:
            self.alarm = self._ear.alarm
        if self.alarm is None and self._alarmed:
            message = self._store.read(alarm_key(self.view.attempt))
            self.alarm = opened_alarm(self._seal, self.view.attempt, message)
        return self.alarm

    def wait_for_the_others(self, seconds: float) -> None:
        """Until all others, spares too, have left or are lost, at most for `seconds`. Waits."""
        deadline = time.monotonic() + seconds
        left = {self.me.node}
        while time.monotonic() < deadline:
            self.newcomers.look()  # nobody looks for them while the group is full
            silent = self._vigil.beats.silent()
            others = (*self.view.names, *self.newcomers.names())
            here = [n for n in others if n not in left and n not in silent]
            left.update(name for name in here if self.roster.has_left(name))
            if all(name in left for name in here):
                break
            time.sleep(LEAVE_POLL_S)

    def close(self) -> None:
        """Take part no more. Threads that wait for an alarm are let go where that is possible."""
        self._vigil.beats.close()
        self._ear.close()
        with suppress(StoreLost):
            if self.view.attempt >= 0:
                self.raise_alarm(Trouble.LEAVING)
            if self.clock is not None:
                self.clock.close(self._store)
