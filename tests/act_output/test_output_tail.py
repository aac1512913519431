"""Quoted lines: the last ones, as a person saw them, and harmless."""

import re
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from resilient.act.output_tail import KEPT, LINE, PART, Tail, clean_lines


def test_last_lines() -> None:
    assert clean_lines(b"a\nb\n\nc\n", 2) == ("b", "c")
    assert clean_lines(b"a\nb", 9) == ("a", "b")
    assert clean_lines(b"", 9) == ()
    assert clean_lines(b"a", 0) == ()


def test_colours_titles_and_links_go() -> None:
    text = (
        b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://evil\x1b\\y\x1b(B\x1b7z\xc2\x9b31m!"
    )
    assert clean_lines(text, 9) == ("red xyz!",)


def test_progress_bar_shows_its_last_state() -> None:
    assert clean_lines(b"\r 10%\r 50%\r100%\ndone\r\n", 9) == ("100%", "done")
    assert clean_lines(b" 10%|#   |\r 50%|##  |\r", 9) == (" 50%|##  |",)


def test_undecodable_and_long() -> None:
    assert clean_lines(b"\xff\xfeok", 9) == ("��ok",)
    (line,) = clean_lines(b"x" * 10_000, 9)
    assert len(line) == LINE and line.endswith("…")


def test_right_to_left_override_goes() -> None:
    assert clean_lines("a\u202eb\u2066c".encode(), 9) == ("abc",)


def test_memory_is_bounded_and_a_cut_line_is_left_out() -> None:
    tail = Tail()
    for number in range(100_000):
        tail.add(b"%06d\n" % number)
    lines = tail.lines(100_000)
    assert KEPT // 7 - 1 <= len(lines) <= (KEPT + PART) // 7
    assert lines[-1] == "099999" and lines[0].isdigit()
    assert all(len(line) == 6 for line in lines)
    tail.add(b"y" * 1_000_000 + b"\nlast\n")
    assert tail.lines(1) == ("last",)


@given(st.binary(max_size=3000), st.integers(0, 30))
def test_any_bytes_give_harmless_text(data: bytes, count: int) -> None:
    tail = Tail()
    for start in range(0, len(data), 700):
        tail.add(data[start : start + 700])
    lines = tail.lines(count)
    assert lines == clean_lines(data, count)
    assert len(lines) <= count
    for line in lines:
        assert len(line) <= LINE
        assert not re.search("[\r\n\x1b]", line)
        assert not [c for c in line if unicodedata.category(c) == "Cc" and c != "\t"]
