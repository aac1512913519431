"""The agent's loop where a run has several nodes: every end of an attempt is agreed upon.

begin ─► watch ─┬─ succeeded ──────────────────► report DONE ─┐
  ▲             ├─ failed ──► alarm, stop ─► report DEAD ─────┼─► settle ─┬─ STOP ─► end
  │             ├─ peers ───► stop ────────► report DEAD ─────┘           │
  ├─────────────┼──────────────────────────────────────────── RESTART ◄───┘
  ├─────────────┼─ fenced ──► dead already; ask again to be taken in
  │             ├─ signal ──► alarm, stop, report that we leave ─► SignalException
  │             └─ store lost ─► stop, exit code 69
"""

import signal
from contextlib import suppress

import msgspec

from resilient.agent.attempt import Attempt, Outcome
from resilient.agent.decided_rendezvous import workers_of
from resilient.agent.driver import Driver
from resilient.agent.evidence import nothing_known
from resilient.agent.failopen import failing_open
from resilient.agent.nodes import (
    RECYCLE,
    STORE_LOST,
    JoinInstead,
    Nodes,
    NotTakenIn,
    StoreLost,
)
from resilient.agent.recorder import say
from resilient.agent.results import nothing_done
from resilient.agent.run_id import new_run_id
from resilient.agent.session import Session
from resilient.agent.torch_seam import RunResult, SeamAgent, SignalException
from resilient.decide.membership import RECYCLE as NEEDS_RECYCLING
from resilient.model.decision import Action, Decision
from resilient.model.errors import Unavailable
from resilient.model.membership import GroupDecision, NodeState, Trouble, Verdict

STORE_LOST_GRACE_S = 1.0  # another attempt may begin elsewhere; nobody knows of ours any more


class NodesDriver(Driver):
    """Runs this node's part of a worker group that spans several nodes."""

    def __init__(self, session: Session, agent: SeamAgent) -> None:
        super().__init__(session, agent)
        self.nodes = Nodes(
            session,
            agent,
            propose=self.verdicts.propose,
            kill=self._kill_workers,
            on_preemption=self.notices.prepare,
        )
        self.notices.on_notice = self._noticed
        session.threads_stuck = not session.library  # some wait in the store's C++ code
        self._agreed = True  # whether the agents can agree; else they do as under torchrun
        self._following = 0  # number of the attempt that was decided upon

    def run(self) -> RunResult:
        """Until the end. Raises SignalException, and Unavailable when the store is lost."""
        try:
            return super().run()
        except NotTakenIn as error:
            say(str(error))
            if not error.exit_code:
                return nothing_done(self.agent)
            self.session.exit_code = error.exit_code
            raise Unavailable(str(error)) from error
        except StoreLost as error:
            if self.session.signals.first is not None:
                self.nodes.lose_store()
                raise self.session.signals.exception() from error
            self._store_lost(error)
            raise Unavailable(
                f"the store that the nodes share does not answer any more ({error}); the workers "
                "of this node have been stopped"
            ) from error
        finally:
            with failing_open(self.session.recorder, "leaving the other nodes"):
                self.nodes.close()

    def _run_id(self) -> str:
        own = new_run_id(self.agent.group.spec.rdzv_handler.get_run_id())
        return self.nodes.peers.roster.run_id(own) if self._agreed else super()._run_id()

    def _kill_workers(self) -> None:
        """On another thread, when our lease has run out: nothing else may be waited for."""
        attempt = self.attempt
        for worker in list(attempt.workers.values()) if attempt is not None else ():
            with suppress(OSError):
                signal.pidfd_send_signal(worker.pidfd, signal.SIGKILL)

    def _store_lost(self, error: StoreLost) -> None:
        self.session.exit_code = STORE_LOST
        self.nodes.lose_store()
        self.session.recorder.event("store.lost", why=str(error))
        self.standbys.close()
        if self.attempt is not None:
            self._stop("fault", STORE_LOST_GRACE_S)
            self.stopper.confirm(self.attempt)

    # Coming in

    def _first_number(self) -> int:
        return self._join() if self.nodes.open() and self.nodes.goes_on() else 0

    def _next_number(self, attempt: Attempt) -> int:
        return self._following if self._agreed else super()._next_number(attempt)

    def _join(self) -> int:
        say("the run is going on without this node; waiting to be taken in")
        with self.session.signals.interruptible():
            number, past = self.nodes.join()
        self.verdicts.take_over(past)
        return number

    def _come_back(self) -> None:
        with self.session.signals.interruptible():
            self._following, past = self.nodes.come_back()
        self.verdicts.take_over(past)

    def _begin(self, number: int) -> Attempt:
        try:
            return super()._begin(number)
        except JoinInstead:
            self.attempt = None
            return super()._begin(self._join())

    def _new_attempt(self, number: int) -> Attempt:
        self._agreed = self.nodes.open() or number == 0
        return Attempt(self.session, self.agent, number, self.nodes if self._agreed else None)

    def _meet(self, number: int) -> None:
        if self.nodes.decided:
            me = self.nodes.peers.me.node
            self.agent.begin_as_decided(
                number, self.nodes.rendezvous, lambda: workers_of(self.nodes.peers.view, me)
            )
        else:
            self.agent.begin(number, look=self.nodes.look)

    def _met(self) -> None:
        if not self.nodes.met():
            self.nodes.meet_first()
            self._agreed = self.nodes.met()
            if not self._agreed:
                self.session.miss(
                    "agreement of the nodes: this kind of rendezvous store cannot carry it, so "
                    "they restart as under torchrun"
                )
        super()._met()

    # Ends

    def _end(self, attempt: Attempt, outcome: Outcome) -> RunResult | None:
        if not self._agreed:
            return super()._end(attempt, outcome)
        if outcome is Outcome.SIGNAL:
            raise self.session.signals.exception()
        if outcome is Outcome.FENCED:
            return self._fenced(attempt)
        return self._agree(attempt, outcome)

    def _fenced(self, attempt: Attempt) -> RunResult | None:
        say("this node could not reach the others in time; its workers were killed")
        self.session.recorder.event("node.fenced")
        self._stop("fault", 0.0)
        self.stopper.confirm(attempt)
        self.nodes.take_part_again()
        try:
            return self._agree(attempt, Outcome.FENCED)
        except StoreLost:  # by connections that broke meanwhile
            self._come_back()
            return None

    def _agree(self, attempt: Attempt, outcome: Outcome) -> RunResult | None:
        done = outcome is Outcome.SUCCEEDED
        fenced = outcome is Outcome.FENCED
        if outcome is Outcome.FAILED or fenced:
            self.nodes.alarm(Trouble.FENCED if fenced else Trouble.FAULT)
        if not done and not fenced:
            whole = outcome is Outcome.PREEMPTED or self.nodes.trouble() is Trouble.JOINING
            self._stop("outside" if whole else "fault", self.agent.stop_grace_s)
        evidence = self._gather(attempt, gently=done)
        if fenced and evidence is not None:  # our own SIGKILLs would look like somebody else's
            evidence = msgspec.structs.replace(evidence, ends=(), stopped=())
        recycle = evidence is not None and bool(evidence.unkillable)
        self.nodes.report(
            evidence,
            state=NodeState.DONE if done else NodeState.DEAD,
            leaving=NEEDS_RECYCLING if recycle else "",
            preempted=self.notices.received,
        )
        decision = self.nodes.settle(self._meanwhile)
        self.verdicts.read(decision, self.nodes.peers.me.node)
        self._following = decision.attempt + 1
        if recycle:
            self.session.exit_code = RECYCLE
        diagnosis, decided = decision.past.diagnosis, acted_on(decision)
        if decided.action is Action.STOP and not decided.exit_code and done:
            return self._succeed(attempt, confirmed=True)
        self._tell(attempt, evidence, diagnosis, decided)
        if decided.action is Action.STOP or recycle:
            return self._stopped(attempt, diagnosis, decided)
        self.spawner.warm = decided.warm
        if not self.nodes.decided:
            say("the others went on without this node; waiting to be taken in again")
            self._come_back()
        return None

    def _noticed(self, attempt: Attempt, now: float) -> None:
        if self._agreed:
            self.nodes.alarm(Trouble.PREEMPTED)  # comes back to all nodes alike, this one too
        else:
            self.notices.prepare(attempt, now)

    def _meanwhile(self) -> None:
        """While the decision is awaited."""
        if self.session.signals.first is not None:
            raise self.session.signals.exception()
        with failing_open(self.session.recorder, "writing the run directory"):
            self.outlets.look_after()

    def _wait_for_others(self) -> None:
        if not self._agreed:  # else the decision was that all have succeeded
            super()._wait_for_others()

    def _leave(self, error: SignalException) -> None:
        if not self.nodes.met():
            super()._leave(error)
            return
        with suppress(StoreLost):
            self.nodes.alarm(Trouble.LEAVING)
        super()._leave(error)
        with suppress(StoreLost):
            seen = nothing_known(self.session, self.attempt) if self.attempt else None
            self.nodes.report(seen, leaving=error.sigval.name)


def acted_on(decision: GroupDecision) -> Decision:
    """What is done: a restart for which too few nodes are left is a stop."""
    decided, change = decision.decision, decision.change
    if change.verdict is not Verdict.STOP or decided.action is Action.STOP:
        return decided
    return msgspec.structs.replace(
        decided, action=Action.STOP, reason=change.reason, exit_code=change.exit_code
    )
