"""Equal for the same failure again, different for different ones."""

from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.samples import OUTPUTS, error, lines
from resilient.diagnose.fingerprint import fingerprint, normalise
from resilient.diagnose.traceback_text import from_output

TEMPLATE = (
    "rank {n} pid {n}: [{a}:{n}] {h} size {n}.{n}e-{n}, /tmp/job_{w}/part-{n}.bin, "
    "tmp{w}, {d}, cuda:{n}, [::ffff:{a}]:{n}, {u}, {{'b', 'a'}}"
)
numbers = st.integers(0, 10**9)
changing = st.fixed_dictionaries(
    {
        "n": numbers,
        "a": st.ip_addresses(v=4).map(str),
        "h": st.integers(1 << 20, 1 << 47).map(hex),
        "w": st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=8, max_size=8),
        "d": st.binary(min_size=20, max_size=20).map(bytes.hex).filter(lambda d: d.isalnum()),
        "u": st.uuids().map(str),
    }
)


@settings(max_examples=1000, deadline=None)
@given(changing, changing)
def test_what_changes_between_runs_does_not_count(one: dict[str, str], two: dict[str, str]) -> None:
    assert normalise(TEMPLATE.format(**one)) == normalise(TEMPLATE.format(**two))


@settings(max_examples=1000, deadline=None)
@given(st.text("abcdefgh ", max_size=20), st.text("abcdefgh ", max_size=20))
def test_other_words_count(one: str, two: str) -> None:
    same = one.split() == two.split()
    assert (fingerprint("E", one, "f.py:1 in g") == fingerprint("E", two, "f.py:1 in g")) == same


def test_type_and_place_count() -> None:
    prints = {
        fingerprint("E", "m", "a.py:1 in f"),
        fingerprint("F", "m", "a.py:1 in f"),
        fingerprint("E", "m", "a.py:2 in f"),
        fingerprint("E", "m", "b.py:1 in f"),
        fingerprint("E", "m", "a.py:1 in g"),
        fingerprint("E", "", "a.py:1 in f"),
    }
    assert len(prints) == 6
    assert fingerprint("torch.E", "m") == fingerprint("E", "m")
    assert fingerprint("E", "", "/tmp/x1/a.py:3 in f") == fingerprint("E", "", "/tmp/y/a.py:3 in f")


def test_members_of_a_set_come_in_any_order() -> None:
    assert fingerprint("E", "keys {'a', 'b'}") == fingerprint("E", "keys {'b', 'a'}")


def test_the_samples_differ_and_repeat() -> None:
    again = error("gloo_closed_by_peer_again")
    assert error("gloo_closed_by_peer").fingerprint == again.fingerprint
    prints = {
        name: found.fingerprint
        for path in OUTPUTS.glob("*.txt")
        if (found := from_output(lines(name := path.stem)))
    }
    del prints["gloo_closed_by_peer_again"]
    assert len(set(prints.values())) == len(prints) >= 30
