"""The record of an incident, from the failure to training again."""

import time
from collections.abc import Callable

import msgspec

from resilient.agent.attempt import Attempt
from resilient.agent.session import Session
from resilient.decide.incident import IncidentEvent, step
from resilient.model.decision import Action, Decision
from resilient.model.diagnosis import Diagnosis
from resilient.model.evidence import AttemptEvidence, WorkerEnd
from resilient.model.incident import Incident, IncidentState, Phases

WATCH_S = 600.0  # a script that shows no optimizer step this long after a restart never will
LOOK_S, LOOK_CLOSELY_S = 0.05, 20.0  # how often, and for how long after the restart
SELDOM_S = 0.5


class Incidents:
    """At most one incident is open at a time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: Incident | None = None
        self._zero = 0.0  # the fault, seconds since the epoch
        self._deadline = 0.0
        self._furthest: int | None = None

    def begin(
        self, evidence: AttemptEvidence, diagnosis: Diagnosis, decision: Decision, log: str
    ) -> None:
        """Open an incident with what was decided; one whose restart just failed is closed."""
        if self._open is not None and self._open.state is IncidentState.RESTARTING:
            self._move(IncidentEvent.FAULT)
        first = _first_end(evidence, diagnosis.first_rank)
        seconds = max((worker.seconds for worker in evidence.stopped), default=0.0)
        self._zero = evidence.noticed_at - seconds
        # Only where it is an absolute count can it be compared with where the next one resumes.
        self._furthest = evidence.furthest_step if evidence.first_step is not None else None
        self._open = Incident(
            number=len(self._session.recorder.incidents) + 1,
            attempt=evidence.attempt,
            at=evidence.noticed_at,
            class_=diagnosis.class_.value,
            first_rank=diagnosis.first_rank,
            host=diagnosis.host,
            sentence=diagnosis.sentence,
            action=decision.action.value,
            reason=decision.reason,
            state=IncidentState.OPEN,
            exit_code=first.exit_code if first else None,
            confidence=diagnosis.confidence,
            victims=diagnosis.victims,
            evidence=diagnosis.evidence,
            tail=first.tail if first else (),
            log=log,
            phases=Phases(noticed_s=round(seconds, 3), stopped_s=self._since()),
        )
        event = IncidentEvent.STOP if decision.action is Action.STOP else IncidentEvent.RESTART
        self._move(event)

    def quote(self, last_words: Callable[[int], tuple[str, ...]]) -> None:
        """Add the last lines of the first failing rank, where there was no time for it before."""
        if self._open is None or self._open.tail or self._open.first_rank is None:
            return
        tail = last_words(self._open.first_rank)
        if tail:
            self._change(tail=tail)

    def rendezvous(self) -> None:
        """The next attempt has met."""
        self._phase(rendezvous_s=self._since())

    def spawned(self) -> None:
        """The next attempt's workers are started or told to go."""
        self._phase(spawned_s=self._since())
        self._deadline = time.monotonic() + WATCH_S

    def look(self, attempt: Attempt, now: float) -> float:
        """Close the incident when the new attempt trains; returns when to look again."""
        if self._open is None or self._open.state is not IncidentState.RESTARTING:
            return WATCH_S
        pages = [worker.page for worker in attempt.workers.values()]
        steps = [page.first_step_at for page in pages]
        if all(steps) or now >= self._deadline or not self._session.hooks:
            self._training(attempt, [at for at in steps if at])
            return WATCH_S
        return LOOK_S if now - attempt.started < LOOK_CLOSELY_S else SELDOM_S

    def _training(
        self,
        attempt: Attempt,
        steps: list[float],
        event: IncidentEvent = IncidentEvent.TRAINING,
    ) -> None:
        assert self._open is not None
        workers = attempt.workers.values()
        collectives = [w.page.first_collective_at for w in workers if w.page.first_collective_at]
        resumed = [w.page.first_step for w in workers if w.page.first_step is not None]
        first = min(resumed, default=None)
        lost = None
        if first is not None and self._furthest is not None:
            lost = max(0, self._furthest - (first - 1))
        self._phase(
            first_collective_s=round(max(collectives) - self._zero, 3) if collectives else None,
            first_step_s=round(max(steps) - self._zero, 3) if steps else None,
        )
        self._change(
            steps_lost=lost,
            resumed_step=first,
            warm_ranks=tuple(sorted(w.rank for w in workers if w.warm)),
            cold_why=next((w.cold_why for w in workers if w.cold_why), ""),
        )
        self._move(event)

    def close(self, attempt: Attempt | None) -> None:
        """The run ends: write down what is known of an incident that is still open."""
        if self._open is None:
            return
        if self._open.state is IncidentState.RESTARTING and attempt is None:
            self._move(IncidentEvent.ENDED)
        elif self._open.state is IncidentState.RESTARTING and attempt is not None:
            steps = [w.page.first_step_at for w in attempt.workers.values()]
            self._training(attempt, [at for at in steps if at], IncidentEvent.ENDED)
        self._open = None

    def _since(self) -> float:
        return round(time.time() - self._zero, 4)

    def _phase(self, **seconds: float | None) -> None:
        if self._open is not None:
            self._change(phases=msgspec.structs.replace(self._open.phases, **seconds))

    def _change(self, **changes: object) -> None:
        assert self._open is not None
        self._open = msgspec.structs.replace(self._open, **changes)
        self._session.recorder.incident(self._open)

    def _move(self, event: IncidentEvent) -> None:
        assert self._open is not None
        state, _ = step(self._open.state, event)
        self._change(state=state)
        self._session.recorder.event(
            "incident." + state.value, number=self._open.number, sentence=self._open.sentence
        )


def _first_end(evidence: AttemptEvidence, rank: int | None) -> WorkerEnd | None:
    return next((end for end in evidence.ends if end.rank == rank and not end.ours), None)
