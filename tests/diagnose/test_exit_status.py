import pytest

from diagnose.samples import end
from resilient.diagnose.exit_status import signal_of, words
from resilient.diagnose.outcome import failed, succeeded, warnings


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (-9, "killed by SIGKILL"),
        (-11, "killed by SIGSEGV"),
        (-34, "killed by SIGRTMIN"),
        (-40, "killed by SIGRTMIN+6"),
        (-99, "killed by signal 99"),
        (0, "exited with 0"),
        (3, "exited with 3"),
        (2, "exited with 2 (wrong usage, by convention)"),
        (137, "exited with 137 (a command of it was killed by SIGKILL)"),
        (128, "exited with 128"),
        (255, "exited with 255"),
    ],
)
def test_words(code: int, text: str) -> None:
    assert words(code) == text


def test_signal_of() -> None:
    assert [signal_of(code) for code in (-9, 137, 139, 3, 0, 128, 129)] == [9, 9, 11, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("code", "main_ended", "strict", "bad"),
    [
        (0, False, False, False),
        (0, False, True, False),
        (1, False, False, True),
        (1, True, False, True),  # by its own code: a failure even after the script's end
        (-6, True, False, False),
        (-6, True, True, True),
        (-6, False, False, True),
    ],
)
def test_the_latch(code: int, main_ended: bool, strict: bool, bad: bool) -> None:
    worker = end(0, code, main_ended=main_ended)
    assert failed(worker, strict=strict) is bad
    assert succeeded([end(1, 0), worker], strict=strict) is not bad


def test_warnings_name_what_torchrun_would_have_called_a_failure() -> None:
    ends = [end(0, 0), end(1, -11, main_ended=True), end(2, -9, main_ended=True, sent="SIGKILL")]
    (text,) = warnings(ends)
    assert "Rank 1" in text
    assert "SIGSEGV" in text
    assert "RESILIENT_STRICT_EXIT" in text
