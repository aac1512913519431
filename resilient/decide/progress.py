"""Did an attempt get further than the ones before it?

Steps are compared where their absolute numbers are known (from the optimizer's own state).
Elsewhere any step of an attempt counts; and in a run that never shows an optimizer step, which
may be no training at all, an attempt that lasted a minute.
"""

from collections.abc import Sequence

from resilient.decide.place import is_step
from resilient.model.decision import Budget, PastAttempt
from resilient.model.evidence import AttemptEvidence

LASTED_S = 60.0


def absolute_step(evidence: AttemptEvidence) -> int | None:
    """The furthest step, where the numbers are absolute: only then is the first one known."""
    return evidence.furthest_step if evidence.first_step is not None else None


def did_something(evidence: AttemptEvidence) -> bool:
    """Progress of an attempt by itself: optimizer steps, or a minute's life."""
    if evidence.furthest_step or any(end.step for end in evidence.ends):
        return True
    return evidence.noticed_at - evidence.started_at > LASTED_S


def advanced(attempts: Sequence[PastAttempt]) -> list[bool]:
    """For each attempt, oldest first, whether it got further than all before it."""
    furthest: int | None = None
    steps_seen = False
    found = []
    for one in attempts:
        stepped = one.furthest_step is not None or is_step(one.phase)
        if one.furthest_step is not None:
            found.append(furthest is None or one.furthest_step > furthest)
            furthest = max(one.furthest_step, furthest or 0)
        else:
            # In a run that trains, to have lasted without a step is to have hung or loaded.
            found.append(one.made_progress and (stepped or not steps_seen))
        steps_seen = steps_seen or stepped
    return found


def stalled(attempts: Sequence[PastAttempt]) -> int:
    """How many attempts at the end, without those charged to nobody, made no progress."""
    charged = [
        moved
        for one, moved in zip(attempts, advanced(attempts), strict=True)
        if one.budget is not Budget.UNCHARGED
    ]
    return next((n for n, moved in enumerate(reversed(charged)) if moved), len(charged))
