"""The agent's loop: attempt after attempt, until success, a stop, or a signal.

    begin ─► watch ─┬─ succeeded ─► leftovers ─► exit barrier ─► done
      ▲             ├─ failed ────► stop, confirm dead ─► judge ─┬─ STOP ─► failed
      │             │                                            │
      ├─────────────┼────────────────── RESTART ◄────────────────┘
      └─────────────┼─ members ───► stop, confirm dead
                    └─ signal ────► stop with the long grace ─► SignalException

What is decided is decided in `decide/`; what was seen and decided is recorded before it is
acted upon.
"""

import signal
from functools import partial

import msgspec

from resilient.agent.attempt import Attempt, Outcome
from resilient.agent.evidence import gather, nothing_known
from resilient.agent.failopen import failing_open, note
from resilient.agent.incidents import Incidents
from resilient.agent.notices import Notices
from resilient.agent.outlets import Outlets
from resilient.agent.plain import watch_plainly
from resilient.agent.recorder import say
from resilient.agent.results import failed_result, succeeded_result
from resilient.agent.run_id import agree_on_run_id
from resilient.agent.session import Session
from resilient.agent.spawner import Spawner
from resilient.agent.standbys import Standbys
from resilient.agent.stopping import Stopper, Why
from resilient.agent.torch_seam import (
    RunResult,
    SeamAgent,
    SignalException,
    signals_to_handle,
)
from resilient.agent.verdicts import Verdicts
from resilient.diagnose.outcome import warnings
from resilient.model.decision import Action, Decision
from resilient.model.diagnosis import Diagnosis
from resilient.model.errors import Unavailable
from resilient.model.evidence import AttemptEvidence, NodeTrouble, NodeTroubleKind


class Driver:
    """Runs one worker group from the first attempt to the last."""

    def __init__(self, session: Session, agent: SeamAgent) -> None:
        self.session, self.agent = session, agent
        self.standbys = Standbys(session)
        self.outlets = Outlets(session)
        self.stopper = Stopper(session, self._helpers)
        self.incidents = Incidents(session)
        self.verdicts = Verdicts(session, agent)
        self.attempt: Attempt | None = None
        self.plain_result: RunResult | None = None  # torch's, once our own watching has failed
        self.notices = Notices(session, self._helpers, self._stop_grace(agent.stop_grace_s))
        self.spawner = Spawner(session, self.standbys, self.outlets)
        agent.spawn = self.spawner.spawn
        agent.stop_workers = self._stop_workers
        agent.on_rendezvous = self._met
        agent.careful = partial(failing_open, session.recorder)

    def _helpers(self) -> set[int]:
        """Processes of ours that are no workers."""
        return self.standbys.pids | self.outlets.pids

    def run(self) -> RunResult:
        """Until the end. Raises SignalException after a signal, as torch's agent does."""
        try:
            return self._attempts()
        except SignalException as error:
            self._leave(error)
            raise
        finally:
            self.standbys.close()
            with failing_open(self.session.recorder, "closing the last incident"):
                self.incidents.close(self.attempt)
            if self.attempt is not None:
                for worker in self.attempt.workers.values():
                    worker.close()
                self.attempt = None
            self.session.signals.remove()

    def _attempts(self) -> RunResult:
        number = self._first_number()
        while True:
            attempt = self._begin(number)
            result = self._end(attempt, self._watch(attempt))
            if result is not None:
                return result
            number = self._next_number(attempt)

    # What differs where there are several nodes

    def _first_number(self) -> int:
        return 0

    def _next_number(self, attempt: Attempt) -> int:
        return attempt.number + 1

    def _meet(self, number: int) -> None:
        """Rendezvous, and start the workers."""
        self.agent.begin(number)

    def _run_id(self) -> str:
        return agree_on_run_id(self.session, self.agent.group)

    def _end(self, attempt: Attempt, outcome: Outcome) -> RunResult | None:
        """The result of the run; None where there is to be another attempt."""
        if outcome is Outcome.SUCCEEDED:
            return self._succeed(attempt)
        if outcome is Outcome.SIGNAL:
            raise self.session.signals.exception()
        if outcome is Outcome.FAILED:
            diagnosis, decision = self._fail(attempt)
            if decision.action is Action.STOP:
                self.session.exit_code = decision.exit_code
                return self.plain_result or failed_result(self.agent, attempt, diagnosis)
            self.spawner.warm = decision.warm
        elif outcome is Outcome.PREEMPTED:
            return self._preempted(attempt)
        else:
            self._stop("outside", self.agent.stop_grace_s)
            self.stopper.confirm(attempt)
        return None

    def _preempted(self, attempt: Attempt) -> RunResult:
        self._stop("outside", self.agent.stop_grace_s)
        seen = self._gather(attempt) or nothing_known(self.session, attempt)
        trouble = NodeTrouble(
            node=self.session.node,
            host=self.session.host,
            kind=NodeTroubleKind.PREEMPTED,
            ranks=tuple(worker.rank for worker in attempt.workers.values()),
            why=self.session.policy.preemption_signal,
            at=attempt.noticed_at,
            alarmed=True,
        )
        evidence = msgspec.structs.replace(seen, nodes=(trouble,))
        diagnosis, decision = self.verdicts.give(evidence)
        self._tell(attempt, evidence, diagnosis, decision)
        return self._stopped(attempt, diagnosis, decision)

    def _stopped(self, attempt: Attempt, diagnosis: Diagnosis, decision: Decision) -> RunResult:
        """The result of a stopped run. Raises Unavailable where no worker of ours failed."""
        if self.session.exit_code is None:
            self.session.exit_code = decision.exit_code
        result = failed_result(self.agent, attempt, diagnosis)
        if not result.failures:
            raise Unavailable(diagnosis.sentence)
        return result

    # One attempt

    def _new_attempt(self, number: int) -> Attempt:
        return Attempt(self.session, self.agent, number)

    def _begin(self, number: int) -> Attempt:
        before, self.session.recorder.attempt = self.attempt, number
        attempt = self.attempt = self.spawner.attempt = self._new_attempt(number)
        self.standbys.new_attempt()
        with self.session.signals.interruptible():
            self._meet(number)
        self.session.recorder.update_run(attempts=number + 1)
        with failing_open(self.session.recorder, "timing an incident"):
            self.incidents.spawned()
        if before is not None:
            self._let_go(before)
        return attempt

    def _let_go(self, attempt: Attempt) -> None:
        """Of an attempt that is over: quote what its first failing rank said last."""
        with failing_open(self.session.recorder, "quoting the failed rank"):
            self.incidents.quote(attempt.endings.last_words)
        for worker in attempt.workers.values():
            worker.close()

    def _watch(self, attempt: Attempt) -> Outcome:
        with failing_open(self.session.recorder, "watching the workers"):
            return attempt.watch(self._housekeeping)
        outcome, self.plain_result = watch_plainly(self.session, self.agent, attempt)
        return outcome

    def _met(self) -> None:
        """After the rendezvous, before the first process starts."""
        if not self.session.signals.installed:
            # Not before: the first rendezvous may wait in C++ for ever, and there a signal has to
            # end us by itself, as it ends torchrun.
            names = signals_to_handle()
            for problem in self.session.signals.install(names):
                self.session.miss(problem)
                say(problem)
            if not self.session.library:  # a program that called us may have its own use for them
                self.session.signals.user.install(names)
        group = self.agent.group
        with failing_open(self.session.recorder, "opening the run directory"):
            self.incidents.rendezvous()
            if not self.session.run_id:
                self.session.run_id = self._run_id()
                self.outlets.open_run(self.agent)
        self.session.recorder.event(
            "attempt.start",
            world_size=group.workers[0].world_size if group.workers else 0,
            master_addr=group.master_addr,
            master_port=group.master_port,
        )

    def _housekeeping(self, now: float) -> float:
        attempt = self.attempt
        assert attempt is not None
        wait_s = 1.0
        recorder = self.session.recorder
        with failing_open(recorder, "writing the run directory"):
            self.outlets.look_after()
        with failing_open(recorder, "passing a signal on"):
            self.notices.pass_on(attempt, now)
        with failing_open(recorder, "collecting orphans"):
            self.stopper.reap(attempt)
        with failing_open(recorder, "watching an incident"):
            wait_s = min(wait_s, self.incidents.look(attempt, now))
        with failing_open(recorder, "keeping standbys"):
            return min(wait_s, self.standbys.keep(attempt, now))
        return wait_s

    # Ends

    def _succeed(self, attempt: Attempt, *, confirmed: bool = False) -> RunResult:
        self.standbys.close()
        for warning in warnings(attempt.endings.by_local_rank.values()):
            self.session.recorder.event("warning", text=warning)
            say(warning)
        if not confirmed:
            self.stopper.confirm(attempt, gently=True)
        self.agent.close_group(signal.SIGTERM, 1)
        result = succeeded_result(attempt)
        self._wait_for_others()
        return result

    def _wait_for_others(self) -> None:
        with self.session.signals.interruptible():
            self.agent.succeed()

    def _leave(self, error: SignalException) -> None:
        """A signal came from outside: pass it on and wait as torchrun does."""
        name = error.sigval.name
        self.session.recorder.event("signal", name=name)
        say(f"received {name}; passing it on and waiting for the workers to end")
        self.standbys.close()
        self._stop("outside", self.agent.stop_grace_s, int(error.sigval))
        if self.attempt is not None:
            self.stopper.confirm(self.attempt)

    def _stop(self, why: Why, grace_s: float, signum: int = signal.SIGTERM) -> None:
        self.stopper.why = why
        self.agent.close_group(signum, grace_s)

    def _stop_workers(self, signum: int, grace_s: float) -> None:
        """torch asks for the workers to be stopped: in `close_group`, and whenever it cleans up."""
        if self.attempt is None:
            return
        try:
            self.stopper.stop(self.attempt, signum, self._stop_grace(grace_s))
        except Exception as error:
            note(self.session.recorder, "stopping the workers", error)
            raise  # torch's way follows

    def _stop_grace(self, grace_s: float) -> float:
        policy = self.session.policy.stop_grace_s
        return grace_s if policy is None else policy

    def _fail(self, attempt: Attempt) -> tuple[Diagnosis, Decision]:
        self._stop("fault", self.agent.stop_grace_s)
        evidence = self._gather(attempt)
        if evidence is None or self.plain_result is not None:
            seen = evidence or nothing_known(self.session, attempt)
            diagnosis, decision = self.verdicts.as_torchrun(seen)
        else:
            diagnosis, decision = self.verdicts.give(evidence)
        self._tell(attempt, evidence, diagnosis, decision)
        return diagnosis, decision

    def _gather(self, attempt: Attempt, *, gently: bool = False) -> AttemptEvidence | None:
        """Confirm that all is dead, and put together what was seen; None after an error of ours."""
        swept = self.stopper.confirm(attempt, gently=gently)
        with failing_open(self.session.recorder, "learning about standbys"):
            self.standbys.learn(attempt)
        if self.session.hooks and not any(w.hook_seen for w in attempt.workers.values()):
            self.session.hooks = False
            self.session.miss(
                "warm start and step counting: Python does not run our hook in these workers "
                "(-E, -I, -S, or a wrapper in PYTHON_EXEC)"
            )
        with failing_open(self.session.recorder, "gathering evidence"):
            return gather(self.session, attempt, swept.unkillable)
        return None

    def _tell(
        self,
        attempt: Attempt,
        evidence: AttemptEvidence | None,
        diagnosis: Diagnosis,
        decision: Decision,
    ) -> None:
        """Open an incident, and say in a sentence what happened and what is done."""
        with failing_open(self.session.recorder, "opening an incident"):
            log = self._log_of(attempt, diagnosis.first_rank)
            seen = evidence or nothing_known(self.session, attempt)
            self.incidents.begin(seen, diagnosis, decision, log)
        say(diagnosis.sentence)
        if decision.action is Action.RESTART:
            say(f"restarting (attempt {attempt.number + 1}): {decision.reason}")

    def _log_of(self, attempt: Attempt, rank: int | None) -> str:
        for worker in attempt.workers.values():
            if worker.rank == rank:
                return self.outlets.log_of(
                    self.agent, worker.local_rank, rank=worker.rank, attempt=attempt.number
                )
        return ""
