"""Parts of sentences: who, where, and what was said."""

from collections.abc import Iterable

from resilient.diagnose import signatures
from resilient.model.evidence import AttemptEvidence, ErrorText, Phase, StoppedWorker, WorkerEnd

_QUOTE = 160  # characters of an error in a sentence


def who(worker: WorkerEnd | StoppedWorker) -> str:
    """Rank 1 (pid 4242 on host-a)."""
    return f"Rank {worker.rank} (pid {worker.pid} on {worker.host})"


def where(worker: WorkerEnd | StoppedWorker, evidence: AttemptEvidence, at: float) -> str:
    """ " at step 120", with a space before it; "" where nothing is known."""
    if worker.phase is Phase.TEARDOWN:
        return " after its script had ended"
    if worker.step:
        return f" at step {worker.step}"
    if worker.phase is Phase.LOAD:
        return " before its first optimizer step"
    age = at - evidence.started_at
    return f" {age:.1f} s after its start" if 0 <= age < 1e9 else ""


def quote(text: str) -> str:
    """The first line of a text that has any, without a full stop, at most 160 characters."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{first[:_QUOTE]}…" if len(first) > _QUOTE else first.rstrip(" .")


def named(error: ErrorText) -> str:
    """ValueError: loss is NaN."""
    said = quote(error.message)
    return f"{quote(error.type)}: {said}" if said else quote(error.type)


def place(error: ErrorText) -> str:
    """ " (train.py:8 in main)"."""
    where = quote(error.location).rpartition("/")[2]
    return f" ({where})" if where else ""


def library_words(end: WorkerEnd) -> str:
    """What a C++ library said before it aborted the process, or ""."""
    found = (signatures.LIBRARY_WORDS.match(line) for line in reversed(end.tail))
    return next((quote(match[1]) for match in found if match), "")


def last_line(end: WorkerEnd) -> str:
    """The last line of its output that has any text, or ""."""
    return next((quote(line) for line in reversed(end.tail) if line.strip()), "")


def ranks(numbers: Iterable[int]) -> str:
    """rank 3; ranks 0, 2 and 5; ranks 1-7; "no rank" for none."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    words: list[str] = []
    for low, high in spans:
        words += [f"{low}-{high}"] if high > low + 1 else map(str, sorted({low, high}))
    if not words:
        return "no rank"
    if len(words) == 1:
        return f"rank {words[0]}" if "-" not in words[0].lstrip("-") else f"ranks {words[0]}"
    return f"ranks {', '.join(words[:-1])} and {words[-1]}"


def times(number: int) -> str:
    """once, 2 times."""
    return "once" if number == 1 else f"{number} times"
