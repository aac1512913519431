"""The decision for when our own judgement failed is torchrun's."""

import pytest

from resilient.decide.as_torchrun import as_torchrun
from resilient.model.decision import Action
from resilient.model.evidence import AttemptEvidence, WorkerEnd


def end(rank: int, sent: str = "") -> WorkerEnd:
    return WorkerEnd(
        rank=rank, local_rank=rank, pid=1, host="h", exit_code=1, mono=0.0, at=0.0, sent=sent
    )


@pytest.mark.parametrize(
    ("attempt", "allowed", "action"),
    [(0, 0, Action.STOP), (0, 1, Action.RESTART), (1, 1, Action.STOP), (5, 3, Action.STOP)],
)
def test_it_restarts_while_max_restarts_allows(attempt, allowed, action):
    evidence = AttemptEvidence(attempt=attempt, host="h", started_at=0, noticed_at=1)
    _, decision = as_torchrun(evidence, allowed, "a bug")
    assert decision.action is action
    assert decision.exit_code == 1


def test_it_never_names_a_process_that_we_killed():
    evidence = AttemptEvidence(
        attempt=0, host="h", started_at=0, noticed_at=1, ends=(end(0, "SIGTERM"), end(1))
    )
    diagnosis, _ = as_torchrun(evidence, 0, "a bug")
    assert diagnosis.first_rank == 1
