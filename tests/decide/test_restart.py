"""Which failures are tried again, how often, and what ends a run."""

import msgspec
import pytest
from diagnose.samples import end, evidence, stopped

from decide.histories import THREE, TORCHRUN, one, run, shape
from resilient.model.decision import Action, Allowance, Budget
from resilient.model.evidence import AttemptEvidence, Phase, WorkerEnd


def load(rank: int, code: int, **more: object) -> WorkerEnd:
    return end(rank, code, 5.0, **{"phase": Phase.LOAD, "step": None, **more})


def at(step: int, worker: WorkerEnd, first: int = 1) -> AttemptEvidence:
    """An attempt that trained from `first` to `step`, numbers known."""
    worker = msgspec.structs.replace(worker, step=step, phase=Phase.STEP)
    return evidence(worker, furthest_step=step, first_step=first)


KILL = end(1, -9)
RAISE = end(1, 1, output="exception_rank1")
OTHER = end(1, 1, output="state_dict")
SEGV = end(1, -11)
STUCK = evidence(stopped=(stopped(1),))
NO_STORE = evidence(load(0, 1, output="store_port_in_use"))
LATE = evidence(load(0, 117), late_mismatch=True)
KILLED_EARLY = evidence(load(1, -9))

RUNS = [  # name, attempts, allowance, shape
    ("exception, as torchrun", [at(5, RAISE)], TORCHRUN, "1"),
    ("exit code, as torchrun", [evidence(end(0, 3))], TORCHRUN, "1"),
    ("bare exit codes: all of --max-restarts", [evidence(load(0, 3))] * 9, THREE, "P P P 1"),
    ("exceptions that differ", [at(5, RAISE), at(5, OTHER), at(5, end(1, 4)), at(5, end(1, 5))],
     THREE, "P P P 1"),
    ("the same exception at the same step", [at(5, RAISE)] * 9, THREE, "P 78"),
    ("the same exception, one step on", [at(5, RAISE), at(6, RAISE), at(7, RAISE)], THREE, "P P P"),
    ("the same before the first step", [evidence(load(0, 1, output="state_dict"))] * 9, THREE,
     "P 78"),
    ("the same, with a kill between", [at(5, RAISE), at(4, KILL), at(5, RAISE)], THREE, "P I 78"),
    ("the same, but it trained between",
     [evidence(load(0, 1, output="state_dict")), at(50, KILL),
      evidence(load(0, 1, output="state_dict"))], THREE, "P I P"),
    ("network of the program", [evidence(load(0, 1, output="own_connection_refused"))] * 9,
     THREE, "P P P 1"),
    ("wrong arguments", [evidence(load(0, 2, output="usage_argparse"))], THREE, "78"),
    ("missing module", [evidence(load(0, 1, output="module_missing"))], THREE, "78"),
    ("syntax error", [evidence(load(0, 1, output="syntax"))], THREE, "78"),
    ("name at import", [evidence(load(0, 1, output="name_at_import"))], THREE, "78"),
    ("import that worked before", [at(5, KILL), evidence(load(0, 1, output="module_missing"))],
     THREE, "I P"),
    ("import after the first step", [at(5, end(0, 1, output="module_missing"))], THREE, "P"),
    ("kills that let it train", [at(5 * n, KILL) for n in range(1, 9)], TORCHRUN,
     "I I I I I I I I"),
    ("kills that do not", [at(5, KILL)] * 9, TORCHRUN, "I I 1"),
    ("kills before the first step", [KILLED_EARLY] * 9, TORCHRUN, "I 1"),
    ("stopped ranks", [STUCK, at(9, KILL)], TORCHRUN, "I I"),
    ("crash at the same step", [at(5, SEGV)] * 9, TORCHRUN, "I 78"),
    ("crash at other steps", [at(5, SEGV), at(8, SEGV)], TORCHRUN, "I I"),
    ("crash while loading", [evidence(load(0, -11))] * 9, TORCHRUN, "I 78"),
    ("memory twice", [at(5, KILL), msgspec.structs.replace(at(9, KILL), oom_kills=1),
     msgspec.structs.replace(at(50, KILL), oom_kills=3)], TORCHRUN, "I I 1"),
    ("rendezvous in a row", [NO_STORE] * 9, TORCHRUN, "U U U 1"),
    ("rendezvous, then it went well", [*[NO_STORE] * 3, at(5, KILL), *[NO_STORE] * 4], TORCHRUN,
     "U U U I U U U 1"),
    ("rendezvous is no lack of progress", [KILLED_EARLY, NO_STORE, NO_STORE, at(4, KILL)],
     TORCHRUN, "I U U I"),
    ("late mismatch", [at(5, KILL), LATE, at(9, KILL)], TORCHRUN, "I U I"),
    ("late mismatch without end", [LATE] * 9, TORCHRUN, "U U U 1"),
    ("cannot be killed", [msgspec.structs.replace(at(5, KILL), unkillable=(7,))], THREE, "70"),
    ("no failure", [evidence(end(0, 0), end(1, -11, main_ended=True))], TORCHRUN, "0"),
    ("only victims", [at(5, end(0, 1, output="gloo_closed_by_peer"))], TORCHRUN, "I"),
    ("a timeout is unknown", [at(5, end(0, 1, output="gloo_timed_out"))], TORCHRUN, "1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("attempts", "allowance", "expected"), [row[1:] for row in RUNS], ids=[row[0] for row in RUNS]
)
def test_runs(attempts: list[AttemptEvidence], allowance: Allowance, expected: str) -> None:
    decisions, _ = run(attempts, allowance)
    assert shape(decisions) == expected
    for decision in decisions:
        assert decision.reason
        assert decision.deterministic is (decision.exit_code == 78)


def test_an_ordinary_script_gets_all_its_restarts() -> None:
    """A script without optimizer steps that fails otherwise each time, as under torchrun."""
    texts = ["alpha", "beta", "gamma", "delta", "epsilon"]
    attempts = [evidence(load(0, 1, tail=(text,))) for text in texts]
    assert shape(run(attempts, THREE)[0]) == "P P P 1"


def test_one_hour_and_node() -> None:
    allowance = msgspec.structs.replace(TORCHRUN, infra_restarts_per_hour=2)
    attempts = [at(5 * n, KILL) for n in range(1, 9)]
    assert shape(run(attempts, allowance)[0]) == "I I 1"
    assert shape(run(attempts, allowance, gap_s=1500.0)[0]) == "I I 1"
    assert shape(run(attempts, allowance, gap_s=1900.0)[0]) == "I I I I I I I I"
    other = [
        evidence(msgspec.structs.replace(KILL, host=f"host-{n % 3}", step=n), furthest_step=n,
                 first_step=1)
        for n in range(1, 7)
    ]  # fmt: skip
    assert shape(run(other, allowance)[0]) == "I I I I I I"


def test_stalled_attempts_is_a_bound() -> None:
    three = msgspec.structs.replace(TORCHRUN, stalled_attempts=3)
    never = msgspec.structs.replace(TORCHRUN, stalled_attempts=0)
    assert shape(run([KILLED_EARLY] * 9, three)[0]) == "I I 1"
    assert shape(run([KILLED_EARLY] * 30, never)[0]) == " ".join(["I"] * 20 + ["1"])


def test_warm_workers_get_the_benefit_of_the_doubt() -> None:
    failed = evidence(load(1, 1, output="module_missing"), warm=(0, 1))
    decisions, history = run([KILLED_EARLY, failed, failed], TORCHRUN)
    assert shape(decisions) == "I U 78"
    assert (decisions[0].warm, decisions[1].warm) == (True, False)
    assert history[1].budget is Budget.UNCHARGED
    assert "cold" in decisions[1].reason
    cold = msgspec.structs.replace(failed, warm=(0,))
    assert shape(run([KILLED_EARLY, cold], TORCHRUN)[0]) == "I 78"
    once = evidence(load(0, 1, output="recursion"), warm=(0,))
    assert shape(run([KILLED_EARLY, failed, once], THREE)[0]) == "I U P"
    trained = at(5, RAISE)
    assert shape(run([KILLED_EARLY, msgspec.structs.replace(trained, warm=(1,))])[0]) == "I 1"


def test_after_a_mismatch_all_starts_are_cold() -> None:
    decisions, _ = run([at(5, KILL), LATE, at(9, KILL), at(12, KILL)], TORCHRUN)
    assert [d.warm for d in decisions] == [True, False, False, False]
    hidden = msgspec.structs.replace(at(5, KILL), late_mismatch=True)
    assert one(hidden)[1].warm is False


def test_reasons_name_the_rule_its_numbers_and_the_knob() -> None:
    def last(*attempts: AttemptEvidence, allowance: Allowance = TORCHRUN) -> str:
        return run(attempts, allowance)[0][-1].reason

    assert "--max-restarts is 0" in last(at(5, RAISE))
    assert "restart 1 of 3 (--max-restarts)" in last(at(5, RAISE), allowance=THREE)
    assert "restart 1 of 20 within an hour on host-a" in last(at(5, KILL))
    assert "beyond step 5" in last(*[at(5, KILL)] * 3)
    assert "RESILIENT_RENDEZVOUS_RETRIES" in last(*[NO_STORE] * 4)
    assert "attempt 0, at the same place (step 5)" in last(*[at(5, RAISE)] * 2, allowance=THREE)
    few = msgspec.structs.replace(TORCHRUN, infra_restarts_per_hour=1)
    assert "RESILIENT_INFRA_RESTARTS_PER_HOUR" in last(at(5, KILL), at(9, KILL), allowance=few)
    memory = msgspec.structs.replace(at(9, KILL), oom_kills=2)
    assert "now with 2 kills by the kernel" in last(at(5, KILL), memory, memory)
    assert "state D): 7" in last(msgspec.structs.replace(at(5, KILL), unkillable=(7,)))


def test_one_step_further_is_another_place_but_bounded() -> None:
    creeping = [at(n, RAISE) for n in range(1, 9)]
    decisions, _ = run(creeping, THREE)
    assert shape(decisions) == "P P P 1"
    assert decisions[-1].action is Action.STOP
