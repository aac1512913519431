"""The policy record: defaults, reading, and mistakes that are all reported at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.model.errors import Misuse
from resilient.model.knob import show
from resilient.model.policy import PREFIX, RESERVED, Policy, knobs, parse, table

DEFAULTS = {
    "RESILIENT_PASSTHROUGH": False,
    "RESILIENT_RUN_DIR": "",
    "RESILIENT_WARM_START": "auto",
    "RESILIENT_STOP_GRACE_S": None,
    "RESILIENT_FAULT_GRACE_S": 1.0,
    "RESILIENT_STRICT_EXIT": False,
    "RESILIENT_CAPTURE": "auto",
    "RESILIENT_STOPPED_S": 2.0,
    "RESILIENT_UNKILLABLE_S": 10.0,
    "RESILIENT_INFRA_RESTARTS_PER_HOUR": 20,
    "RESILIENT_RENDEZVOUS_RETRIES": 3,
    "RESILIENT_STALLED_ATTEMPTS": 2,
    "RESILIENT_NODE_TIMEOUT_S": 2.5,
    "RESILIENT_ON_NODE_LOSS": "shrink",
    "RESILIENT_NODE_WAIT_S": None,
    "RESILIENT_JOIN_DELAY_S": 30.0,
    "RESILIENT_RUN_KEY": "",
    "RESILIENT_PREEMPTION_SIGNAL": "off",
    "RESILIENT_LOG_HEAD_MIB": 4,
    "RESILIENT_LOG_TAIL_MIB": 60,
    "RESILIENT_STANDBY_MEMORY_MIB": 350,
    "RESILIENT_STANDBY_DELAY_S": 5.0,
}
TYPES = {"passthrough": bool, "log_head_mib": int, "stop_grace_s": float, "run_dir": str}


def test_defaults() -> None:
    policy, origins = parse({})
    assert policy == Policy()
    assert {knob.variable: getattr(policy, knob.field) for knob in knobs()} == DEFAULTS
    assert origins == dict.fromkeys(DEFAULTS, "default")


def test_every_knob_describes_itself_and_reads_its_own_default() -> None:
    for knob in knobs():
        assert knob.description.endswith("."), knob.variable
        assert knob.allowed
        if knob.default is not None:
            assert knob.read(show(knob.default)) == knob.default, knob.variable
    assert {knob.field: knob.type for knob in knobs() if knob.field in TYPES} == TYPES
    assert [row[0] for row in table()] == list(DEFAULTS)


def test_reads_values_and_says_where_they_come_from() -> None:
    policy, origins = parse(
        {
            "RESILIENT_STOP_GRACE_S": " 12.5 ",
            "RESILIENT_LOG_HEAD_MIB": "8",
            "RESILIENT_WARM_START": "off",
            "RESILIENT_STRICT_EXIT": "True",
            "RESILIENT_PASSTHROUGH": "off",
            "RESILIENT_RUN_DIR": "/data/a run",
            "RESILIENT_CAPTURE": "",  # empty counts as not set
            "RESILIENT_ATTEMPT": "3",  # set by resilient-run itself around us
            "PATH": "/bin",
        }
    )
    assert policy == Policy(
        stop_grace_s=12.5,
        log_head_mib=8,
        warm_start="off",
        strict_exit=True,
        run_dir="/data/a run",
    )
    assert type(policy.log_head_mib) is int
    assert origins["RESILIENT_STRICT_EXIT"] == origins["RESILIENT_PASSTHROUGH"] == "environment"
    assert origins["RESILIENT_CAPTURE"] == "default"


def test_all_mistakes_at_once() -> None:
    with pytest.raises(Misuse) as caught:
        parse(
            {
                "RESILIENT_WARM_STRAT": "off",
                "RESILIENT_API_TOKEN": "hunter2",
                "RESILIENT_CAPTURE": "of",
                "RESILIENT_STOP_GRACE_S": "30s",
                "RESILIENT_STOPPED_S": "nan",
                "RESILIENT_FAULT_GRACE_S": "-1",
                "RESILIENT_LOG_TAIL_MIB": "1",
                "RESILIENT_RENDEZVOUS_RETRIES": "2.5",
                "RESILIENT_STRICT_EXIT": "maybe",
            }
        )
    text = str(caught.value)
    assert text.startswith("9 mistakes")
    assert (
        "RESILIENT_WARM_STRAT: there is no such variable. Did you mean RESILIENT_WARM_START?"
        in text
    )
    assert "RESILIENT_CAPTURE='of': must be auto or off. Did you mean off?" in text
    assert "RESILIENT_STOP_GRACE_S='30s'" in text
    assert "Did you mean 30?" in text
    assert "RESILIENT_LOG_TAIL_MIB='1': must be a whole number of MiB from 4 to" in text
    for name in ("STOPPED_S", "FAULT_GRACE_S", "RENDEZVOUS_RETRIES", "STRICT_EXIT"):
        assert f"RESILIENT_{name}=" in text
    assert "hunter2" not in text  # the value of a name that we do not know may be a secret


@pytest.mark.parametrize("value", ["inf", "-inf", "1e309", "1e400", "0x10", "1 000", "4e"])
def test_numbers_that_are_none(value: str) -> None:
    with pytest.raises(Misuse):
        parse({"RESILIENT_STOPPED_S": value})


NAMES = st.one_of(
    st.sampled_from(list(DEFAULTS)),
    st.sampled_from(sorted(RESERVED)),
    st.text(max_size=20).map(lambda text: PREFIX + text),
    st.text(max_size=20),
)


@given(st.dictionaries(NAMES, st.one_of(st.text(max_size=30), st.floats().map(str)), max_size=6))
def test_anything_gives_a_policy_within_bounds_or_misuse(env: dict[str, str]) -> None:
    try:
        policy, _ = parse(env)
    except Misuse as error:
        assert PREFIX in str(error)
        return
    for knob in knobs():
        value = getattr(policy, knob.field)
        if knob.low is not None and value is not None:
            assert knob.low <= value <= knob.high
            assert type(value) is knob.type
