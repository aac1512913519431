"""Words and numbers for people, and text that cannot take over a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.report.text import clean, duration, exit_words, moment, ranks, several


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n", "plain"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link", "link"),
        ("\x1bPq#0\x1b\\text", "text"),
        ("\x1bcreset", "reset"),
        ("10%\r20%\r30%\r\n", "30%"),
        ("a\x00b\x08c\x9bd\u202ee\u200b", "abcde"),
        ("one\ntwo", "one two"),
        ("\tx", "        x"),
        ("grün 漢字 🙂", "grün 漢字 🙂"),
        ("lone \ud800 surrogate", "lone  surrogate"),
        ("[bold]not markup[/bold]", "[bold]not markup[/bold]"),
    ],
)
def test_clean(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(st.text())
def test_clean_leaves_one_printable_line(text: str) -> None:
    shown = clean(text)
    assert clean(shown) == shown
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)
    shown.encode()


def test_numbers() -> None:
    assert [duration(value) for value in (0, 0.0712, 9.994, 9.996, 99.96, 145, 3599.7, 9060)] == [
        *("0.00 s", "0.07 s", "9.99 s", "10.0 s", "1 min 40 s", "2 min 25 s"),
        *("1 h 00 min", "2 h 31 min"),
    ]
    assert duration(-2) == "-2.00 s"
    assert several(1, "step") == "1 step"
    assert several(0, "step") == "0 steps"
    assert ranks([3]) == "rank 3"
    assert ranks([5, 0, 1, 2, 7, 8]) == "ranks 0-2, 5, 7, 8"
    assert [exit_words(code) for code in (0, 3, -9, -200)] == [
        *("exit code 0", "exit code 3", "SIGKILL", "signal 200")
    ]
    assert moment(0) == "00:00:00 UTC"
    assert moment(0, date=True) == "1970-01-01 00:00:00 UTC"
    assert moment(1e300) == "?"
