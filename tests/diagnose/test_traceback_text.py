"""What is read out of the outputs and error files that workers really leave."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diagnose.samples import OUTPUTS, error, error_json, lines
from resilient.diagnose.traceback_text import from_error_file, from_output

EXPECTED = [  # sample, type, words of the message, place
    ("exception_rank1", "ValueError", "loss is NaN at step 17", "train.py:15 in main"),
    ("gloo_closed_by_peer", "RuntimeError", "Connection closed by peer", "train.py:7 in step"),
    ("gloo_reset_by_peer", "RuntimeError", "Connection reset by peer", "train.py:7 in step"),
    ("gloo_timed_out", "RuntimeError", "Timed out waiting 4000ms", "train.py:7 in step"),
    ("gloo_wrapped", "ArithmeticError", "training step failed", "train.py:25 in main"),
    ("monitored_barrier", "RuntimeError", "Connection reset by peer", "train.py:21 in main"),
    ("store_port_in_use", "torch.distributed.DistNetworkError", "EADDRINUSE", "port.py:4 in <mod"),
    ("store_wait_timeout", "torch.distributed.DistStoreError", "wait timeout after", "in main"),
    ("store_gone", "torch.distributed.DistNetworkError", "Connection was likely closed", ":6 in"),
    ("usage_argparse", "UsageError", "required: --lr", ""),
    ("usage_no_script", "UsageError", "can't open file", ""),
    ("module_missing_dash_m", "ModuleNotFoundError", "No module named nosuch_mod", ""),
    ("module_missing", "ModuleNotFoundError", "nosuchmodule_x", "modnotfound.py:1 in <module>"),
    ("import_name", "ImportError", "cannot import name", "importerror.py:1 in <module>"),
    ("name_at_import", "NameError", "undefined_thing", "nameerr.py:1 in <module>"),
    ("syntax", "SyntaxError", "invalid syntax", "syntax.py:1"),
    ("indentation", "IndentationError", "expected an indented block", "indent.py:2"),
    ("recursion", "RecursionError", "maximum recursion depth", "recur.py:2 in f"),
    ("recursion_two", "RecursionError", "maximum recursion depth", "recur2.py:2 in f"),
    ("exception_group", "ExceptionGroup", "TypeError: bad shard 3", "group.py:6 in <module>"),
    ("chained_cause", "RuntimeError", "cannot resume", "cause.py:5 in load"),
    ("chained_handling", "RuntimeError", "checkpoint has no weights", "chained.py:5 in load"),
    ("keyboard_interrupt", "KeyboardInterrupt", "", "kbd.py:3 in main"),
    ("notes", "ValueError", "while reading shard 4", "notes.py:1 in <module>"),
    ("dataloader_exception", "KeyError", "sample 0", "dlexc.py:4 in __getitem__"),
    ("spawn", "ValueError", "child 0", "spawn.py:2 in f"),
    ("nested_class", "Outer.ConfigProblem", "field 'lr' missing", "deep.py:5 in a"),
    ("state_dict", "RuntimeError", 'state_dict: "weight", "bias"', "statedict.py:3 in <module>"),
    ("thread_and_ignored", "LookupError", "the real one", "thread.py:7 in main"),
    ("recorded", "ValueError", "does not divide", "recorded.py:4 in main"),
]
RELATED = [
    ("gloo_wrapped", "Connection reset by peer"),
    ("chained_cause", "FileNotFoundError: [Errno 2]"),
    ("chained_handling", "KeyError: 'weights'"),
    ("dataloader_killed", "is killed by signal: Killed"),
    ("exception_group", "ValueError: shard 1 is empty"),
]


@pytest.mark.parametrize(("sample", "kind", "message", "place"), EXPECTED)
def test_type_message_and_place(sample: str, kind: str, message: str, place: str) -> None:
    found = error(sample)
    assert found.type == kind
    assert message in found.message
    assert place in found.location
    assert bool(found.location) == bool(place)


@pytest.mark.parametrize(("sample", "text"), RELATED)
def test_what_it_was_raised_from(sample: str, text: str) -> None:
    assert text in error(sample).related[0]


@pytest.mark.parametrize("sample", ["system_exit_text", "faulthandler_segv", "gloo_enforce_abort"])
def test_no_exception(sample: str) -> None:
    assert from_output(lines(sample)) is None


@pytest.mark.parametrize("sample", sorted({row[0] for row in EXPECTED} - {"exception_group"}))
def test_the_tail_and_prefixes_make_no_difference(sample: str) -> None:
    whole = error(sample)
    for text in (
        lines(sample)[-20:],
        [f"[rank3]: {line}" if line else line for line in lines(sample)],
        [f"[default1]:[rank3]: {line}" for line in lines(sample)],
        [f"\x1b[31m{line}\x1b[0m\r" for line in lines(sample)],
        [
            *(["epoch 3 loss 2.1"] * 50),
            *lines(sample),
            "[rank3]:[W1130 20:44:29.36 Pro.cpp:1] leak",
        ],
    ):
        found = from_output(text)
        assert found is not None
        assert (found.type, found.fingerprint) == (whole.type, whole.fingerprint)


def test_an_exception_that_the_program_survived() -> None:
    logged = [*lines("exception_rank1"), *[f"step {n} done" for n in range(30)]]
    assert from_output(logged) is None
    ignored = ["Exception ignored in: <function X.__del__ at 0x7f>", *lines("recursion")]
    assert from_output(ignored) is None


@pytest.mark.parametrize("count", [5, 15, 20, 300])
def test_messages_of_many_lines(count: int) -> None:
    weights = [
        f"\tsize mismatch for h.{n}.w: copying a param with shape torch.Size([3]) from checkpoint"
        for n in range(count)
    ]
    found = from_output([*lines("state_dict")[:-1], *weights])
    assert found is not None
    assert found.type == "RuntimeError"
    fields = [(f"model.{n}.lr", "  Field required [type=missing]") for n in range(min(count, 20))]
    listed = [f"ValidationError: {count} validation errors", *(x for pair in fields for x in pair)]
    found = from_output([*lines("state_dict")[:-2], *listed])
    assert found is not None
    assert found.message.startswith(f"{count} validation errors\nmodel.0.lr\n  Field required")


def test_a_progress_bar_goes_on_after_a_caught_exception() -> None:
    bars = [f" {n}%|##   | {n}/100 [00:01<00:09]" for n in range(10, 50)]
    assert from_output([*lines("exception_rank1"), *bars]) is None


def test_a_thread_speaks_where_nothing_else_does() -> None:
    found = from_output(lines("thread_and_ignored")[:10])
    assert found is not None
    assert found.message == "in thread"


def test_error_file_and_output_agree() -> None:
    there = from_error_file(error_json("recorded"))
    here = error("recorded")
    assert there is not None
    assert (there.source, here.source) == ("error_file", "output")
    assert there.fingerprint == here.fingerprint
    assert (there.type, there.message, there.location) == (here.type, here.message, here.location)


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        ({"message": "ValueError: bad"}, "ValueError", "bad"),
        ({"message": {"message": "my.mod.Err: x: y"}}, "my.mod.Err", "x: y"),
        ({"message": "it just: failed"}, "Error", "it just: failed"),
        ({"message": {"message": "E: m", "extraInfo": {"py_callstack": 7}}}, "E", "m"),
        ({"message": {"message": "E: m", "extraInfo": {"py_callstack": "?"}}}, "E", "m"),
    ],
)
def test_error_files_of_other_shapes(data: object, kind: str, message: str) -> None:
    found = from_error_file(data)
    assert found is not None
    assert (found.type, found.message) == (kind, message)


@pytest.mark.parametrize(
    "data", [None, 3, [], {}, "text", {"message": None}, {"message": "<NONE>"}, {"message": " "}]
)
def test_error_files_without_an_error(data: object) -> None:
    assert from_error_file(data) is None


any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["message", "extraInfo", "py_callstack", "timestamp"]), inner
        )
    ),
    max_leaves=8,
)
PIECES = sorted({line for path in OUTPUTS.glob("*.txt") for line in path.read_text().splitlines()})


@settings(max_examples=100, deadline=None)
@given(any_json)
def test_any_json_is_borne(data: object) -> None:
    found = from_error_file(data)
    if found is not None:
        found.message.encode()
        assert len(found.message) <= 500


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(st.characters(codec=None), max_size=40)))
def test_any_output_is_borne(text: list[str]) -> None:
    found = from_output(text)
    if found is not None:
        for part in (found.type, found.message, found.location, *found.related):
            part.encode()


def test_long_input_takes_no_long_time() -> None:
    for line in ("[" * 100_000, "a" * 100_000, " " * 100_000, '  File "' + "x" * 100_000):
        assert from_output([line] * 200) is None
    deep = "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n' * 100_000
    found = from_error_file({"message": {"extraInfo": {"py_callstack": deep + "E: x"}}})
    assert found is not None
    assert found.type == "E"
