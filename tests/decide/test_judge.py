"""Total, pure, recorded, and bounded: whatever happens, a run ends."""

import msgspec
from diagnose.samples import START, end, evidence
from diagnose.strategies import evidences
from hypothesis import given, settings
from hypothesis import strategies as st

from decide.histories import TORCHRUN, one, run
from resilient.decide.judge import remember
from resilient.model.decision import Action, Allowance, DecisionRecord, PastAttempt
from resilient.model.diagnosis import Kind
from resilient.model.evidence import AttemptEvidence, Phase

allowances = st.builds(
    Allowance,
    max_restarts=st.integers(0, 4),
    infra_restarts_per_hour=st.integers(0, 4),
    rendezvous_retries=st.integers(0, 3),
    strict_exit=st.booleans(),
    stalled_attempts=st.integers(0, 3),
)


@settings(max_examples=50, deadline=None)
@given(st.lists(evidences, min_size=1, max_size=4), allowances)
def test_total_and_decided_again_from_its_record(
    attempts: list[AttemptEvidence], allowance: Allowance
) -> None:
    history: tuple[PastAttempt, ...] = ()
    for seen in attempts:
        diagnosis, decision = one(seen, history, allowance)
        assert (diagnosis, decision) == one(seen, history, allowance)
        record = DecisionRecord(
            at=START,
            evidence=seen,
            history=history,
            allowance=allowance,
            diagnosis=diagnosis,
            decision=decision,
        )
        again = msgspec.json.decode(msgspec.json.encode(record), type=DecisionRecord)
        assert again == record
        assert one(again.evidence, again.history, again.allowance) == (diagnosis, decision)
        history = (*history, remember(seen, diagnosis, decision))


def bound(allowance: Allowance) -> int:
    """Attempts within one hour: those charged, and before each a row of uncharged ones."""
    charged = allowance.max_restarts + allowance.infra_restarts_per_hour + 1
    ours = 3 + 1  # late mismatches; the benefit of the doubt
    return (charged + ours + 1) * (allowance.rendezvous_retries + 1)


@settings(max_examples=50, deadline=None)
@given(st.lists(evidences, min_size=1, max_size=5), allowances)
def test_every_run_ends(kinds: list[AttemptEvidence], allowance: Allowance) -> None:
    """The same failures over and over, within an hour, with or without progress."""
    times = bound(allowance) + 1
    attempts = [
        msgspec.structs.replace(kinds[n % len(kinds)], started_at=START, noticed_at=START + 1)
        for n in range(times)
    ]
    decisions, _ = run(attempts, allowance, gap_s=1.0)
    assert decisions[-1].action is Action.STOP
    assert len(decisions) <= bound(allowance)


@settings(max_examples=40, deadline=None)
@given(st.lists(evidences, min_size=1, max_size=4), allowances)
def test_without_progress_it_ends_whatever_time_it_takes(
    kinds: list[AttemptEvidence], allowance: Allowance
) -> None:
    allowance = msgspec.structs.replace(allowance, stalled_attempts=2, infra_restarts_per_hour=99)
    idle = [
        msgspec.structs.replace(
            one,
            started_at=START,
            noticed_at=START + 1,
            ends=tuple(
                msgspec.structs.replace(end, phase=Phase.LOAD, step=None) for end in one.ends
            ),
            furthest_step=None,
        )
        for one in kinds
    ]
    limit = bound(msgspec.structs.replace(allowance, infra_restarts_per_hour=2))
    decisions, _ = run((idle * limit)[: limit + 1], allowance, gap_s=1e5)
    assert decisions[-1].action is Action.STOP


@settings(max_examples=50, deadline=None)
@given(evidences, allowances)
def test_success_and_unkillable_processes_decide_alone(
    seen: AttemptEvidence, allowance: Allowance
) -> None:
    diagnosis, decision = one(seen, (), allowance)
    if seen.unkillable:
        assert (decision.action, decision.exit_code) == (Action.STOP, 70)
    elif diagnosis.kind is Kind.NO_FAILURE:
        assert (decision.action, decision.exit_code) == (Action.STOP, 0)
    elif decision.action is Action.STOP:
        assert decision.exit_code in (1, 75, 78)


def test_strictness_comes_with_the_allowance() -> None:
    seen = evidence(end(0, 0), end(1, -6, main_ended=True))
    assert one(seen)[1].exit_code == 0
    strict = msgspec.structs.replace(TORCHRUN, strict_exit=True)
    assert one(seen, (), strict)[0].first_rank == 1
