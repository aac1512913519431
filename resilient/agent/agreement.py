"""How the agents of a run agree on what happens after an attempt: one record, written once.

    publish ─► whose turn? ─► collect the others' reports ─► decide ─► write once ─► read back

Every live member may decide; they take turns, so that one decision is written and not a hundred
tried. Whatever lies in the store first is the decision, also for whoever wanted to write another.
Nothing here waits: `step` is called again and again, with the time as an argument.
"""

from collections.abc import Callable, Mapping

from resilient.agent.control_store import ControlStore
from resilient.agent.sealing import Seal
from resilient.model.membership import (
    Alarm,
    GroupCase,
    GroupDecision,
    LostNode,
    NodeCard,
    NodeLimits,
    NodeReport,
    Verdict,
    View,
)

SPACING_S, PER_MEMBER_S = 0.3, 0.002  # between two turns; reading one member's report
REPORT_BYTES, DECISION_BYTES = 16 << 10, 256 << 10


def decision_key(attempt: int) -> str:
    """Where the decision on an attempt's end lies."""
    return f"attempt/{attempt}/decision"


def report_key(attempt: int, node: str) -> str:
    """Where a node's report lies."""
    return f"attempt/{attempt}/report/{node}"


def opened(seal: Seal, attempt: int, message: bytes | None) -> GroupDecision | None:
    """The decision in a message from its key; None where there is none, or a foreign value."""
    return seal.opened(decision_key(attempt), message, GroupDecision, DECISION_BYTES)


class Agreement:
    """One member's part in the agreement on one attempt's end."""

    def __init__(
        self,
        store: ControlStore,
        seal: Seal,
        view: View,
        me: str,
        *,
        limits: NodeLimits,
        propose: Callable[[GroupCase], GroupDecision],
    ) -> None:
        self._store, self._seal, self._view, self._me = store, seal, view, me
        self._limits, self._propose = limits, propose
        self._place = view.names.index(me)
        self._reports: dict[str, NodeReport] = {}
        self._alarmed_at: float | None = None
        self._ready_at: float | None = None
        self._foreign: bytes = b""  # a value in the decision's place that is none
        self.waiting_for = ""  # in words, while there is no decision
        self.collecting = False  # it is our turn to decide, so whoever is missing has to be watched

    @property
    def ready(self) -> bool:
        """Whether everything is known that this member's decision rests on."""
        return self._ready_at is not None

    def publish(self, report: NodeReport) -> None:
        """Say, once, how our part of the attempt ended. Raises StoreLost."""
        key = report_key(self._view.attempt, self._me)
        self._store.write(key, self._seal.close(key, report))
        self._reports[self._me] = report

    def missing(self, lost: Mapping[str, LostNode]) -> tuple[str, ...]:
        """Members that have not reported and are not lost, as far as is known."""
        return tuple(n for n in self._view.names if n not in self._reports and n not in lost)

    def step(
        self,
        now: float,
        *,
        alarm: Alarm | None,
        decision: GroupDecision | None,
        lost: Mapping[str, LostNode],
        joining: tuple[NodeCard, ...],
        may_write: bool,
    ) -> GroupDecision | None:
        """The decision, once there is one. Raises StoreLost.

        `now` is monotonic; `alarm`: the word that the attempt is over (without it, it ends when
        all have succeeded); `decision`: the one that lies in the store, where we were told of it,
        so that those whose turn it is not need not look for it; `may_write`: our lease holds.
        """
        self.collecting = decision is None and self._is_my_turn(now, alarm is not None, lost)
        found = self._read() if self.collecting else decision
        if found is not None or not self.collecting:
            return found
        self._collect(lost)
        missing = self.missing(lost)
        if missing:
            self.waiting_for = f"the report of {', '.join(missing[:3])}" + ", …" * (
                len(missing) > 3
            )
            return None
        if self._ready_at is None:
            self._ready_at = now
        proposal = self._propose(self._case(now, alarm, lost, joining))
        if proposal.change.verdict is Verdict.WAIT:
            self.waiting_for = proposal.change.reason
            return None
        if may_write:
            key = decision_key(self._view.attempt)
            self._store.replace(key, self._seal.close(key, proposal), self._foreign)
        return self._read()

    def _read(self) -> GroupDecision | None:
        message = self._store.read(decision_key(self._view.attempt))
        found = opened(self._seal, self._view.attempt, message)
        # Only the very value that was refused may be written over: another may be there by then.
        self._foreign = message if found is None and message is not None else b""
        return found

    def _is_my_turn(self, now: float, alarmed: bool, lost: Mapping[str, LostNode]) -> bool:
        if alarmed and self._alarmed_at is None:
            self._alarmed_at = now
        since = now - (self._alarmed_at or now)
        spacing_s = SPACING_S + PER_MEMBER_S * len(self._view.members)
        if self._place - len(lost) - len(self._reports) > since / spacing_s:
            return False  # so many before us cannot have gone
        staying = [
            name for name in self._view.names if name not in lost and not self._is_leaving(name)
        ]
        order = staying or [name for name in self._view.names if name not in lost]
        position = order.index(self._me) if self._me in order else len(order)
        return position * spacing_s <= since if alarmed else position == 0

    def _is_leaving(self, name: str) -> bool:
        return name in self._reports and bool(self._reports[name].leaving)

    def _collect(self, lost: Mapping[str, LostNode]) -> None:
        for name in self.missing(lost):
            key = report_key(self._view.attempt, name)
            report = self._seal.opened(key, self._store.peek(key), NodeReport, REPORT_BYTES)
            if report is not None and (report.attempt, report.node) == (self._view.attempt, name):
                self._reports[name] = report

    def _case(
        self,
        now: float,
        alarm: Alarm | None,
        lost: Mapping[str, LostNode],
        joining: tuple[NodeCard, ...],
    ) -> GroupCase:
        assert self._ready_at is not None
        names = self._view.names
        return GroupCase(
            proposer=self._me,
            view=self._view,
            reports=tuple(self._reports[name] for name in names if name in self._reports),
            lost=tuple(lost[name] for name in names if name in lost and name not in self._reports),
            joining=joining,
            alarm=alarm,
            waited_s=round(now - self._ready_at, 3),
            limits=self._limits,
        )
