"""What one worker's own end means: class, kind, confidence, and a sentence.

For workers that speak for themselves; those that only speak of others are in `victims`.
"""

import signal

from resilient.diagnose import signatures
from resilient.diagnose.exit_status import CRASHES, signal_name, signal_of, words
from resilient.diagnose.finding import Finding, before_first_step, oom_words
from resilient.diagnose.fingerprint import fingerprint
from resilient.diagnose.helper_process import of_helper
from resilient.diagnose.parts import oom_kills
from resilient.diagnose.traceback_text import USAGE
from resilient.diagnose.voices import Voice, speaks_of_error
from resilient.diagnose.wording import (
    last_line,
    library_words,
    named,
    place,
    quote,
    where,
    who,
)
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, ErrorText, StoppedWorker, WorkerEnd


def of_end(end: WorkerEnd, evidence: AttemptEvidence, said: Voice) -> Finding:
    """What the end of a failed worker means that speaks for itself."""
    if end.error is not None and speaks_of_error(end):
        return _of_error(end, end.error, evidence, said)
    if signal_of(end.exit_code) or end.error is not None:  # the latter: KeyboardInterrupt, exit 1
        return _of_signal(end, evidence)
    text = last_line(end)
    return Finding(
        FailureClass.USER_ERROR,
        0.6,
        f"{who(end)} {words(end.exit_code)}{where(end, evidence, end.at)} and left no traceback"
        + (f"; its last line: {text}." if text else "."),
        fingerprint(f"exit {end.exit_code}", text),
        Kind.EXIT,
    )


def of_stopped(worker: StoppedWorker, evidence: AttemptEvidence) -> Finding:
    """A worker that was stopped while others waited for it."""
    at = evidence.noticed_at - worker.seconds
    return Finding(
        FailureClass.RANK_ABSENT,
        0.95,
        f"{who(worker)} was stopped (state T, as by SIGSTOP){where(worker, evidence, at)} and had "
        f"not gone on after {worker.seconds:.1f} s, while other ranks ran.",
        "stopped",
    )


def of_late_mismatch(end: WorkerEnd | None) -> Finding:
    """A standby that could not reproduce a cold start."""
    subject = who(end) if end is not None else "A worker"
    return Finding(
        FailureClass.WARM_START,
        0.95,
        f"{subject} came from a waiting process that did not match a cold start, and gave up "
        "rather than run differently. This is resilient-run's own doing, not the program's.",
        "late_mismatch",
    )


def _of_signal(end: WorkerEnd, evidence: AttemptEvidence) -> Finding:
    number = signal_of(end.exit_code) or signal.SIGINT  # Python turns that into an exception
    name, at = signal_name(number), where(end, evidence, end.at)
    how = f"was killed by {name}"
    if end.exit_code > 0:
        how = words(end.exit_code) if number != signal.SIGINT else f"was interrupted by {name}"
    if number in CRASHES:
        said = library_words(end)
        sentence = f"{who(end)} crashed with {name} ({CRASHES[number]}){at}"
        sentence += f": {said}." if said else "."
        print_ = fingerprint(name, said)
        return Finding(FailureClass.WORKER_CRASH, 0.9, sentence, print_)
    if number == signal.SIGKILL and oom_kills(evidence, end.rank) > 0:
        return Finding(
            FailureClass.HOST_OOM,
            0.95,
            f"{who(end)} {how}{at} because memory ran out: {oom_words(evidence, end.rank)}.",
            "host_oom",
        )
    sentence = f"{who(end)} {how} (not by resilient-run){at}"
    if number == signal.SIGKILL:
        sentence += "; no out-of-memory kill was recorded"
    return Finding(FailureClass.WORKER_KILLED, 0.9, f"{sentence}.", f"signal:{name}")


def _of_error(end: WorkerEnd, error: ErrorText, evidence: AttemptEvidence, said: Voice) -> Finding:
    helper = of_helper(end, error, evidence)
    if helper is not None:
        return helper
    if before_first_step(end) and _of_rendezvous(error):
        return Finding(
            FailureClass.RENDEZVOUS,
            0.85,
            f"The ranks could not be brought together: {who(end)} reported {named(error)}.",
            error.fingerprint,
        )
    kind = _kind(error, said)
    at = where(end, evidence, end.at)
    if kind is Kind.USAGE:
        sentence = f"{who(end)} could not start as it was called: {quote(error.message)}."
    else:
        sentence = f"{who(end)} raised {quote(error.type)}{at}"
        text = quote(error.message)
        sentence += (f": {text}" if text else "") + place(error)
        sentence += f"; it was then {words(end.exit_code)}." if end.exit_code < 0 else "."
    confidence = 0.5 if not said.strong else 0.95 if error.source == "error_file" else 0.9
    return Finding(FailureClass.USER_ERROR, confidence, sentence, error.fingerprint, kind)


def _of_rendezvous(error: ErrorText) -> bool:
    text = f"{error.type}: {error.message}"
    return any(p.search(text) for p in (signatures.RENDEZVOUS, signatures.ADDRESS_IN_USE))


def _kind(error: ErrorText, said: Voice) -> Kind:
    name = error.type.rpartition(".")[2]
    if error.type == USAGE:
        return Kind.USAGE
    if name in ("SyntaxError", "IndentationError", "TabError"):
        return Kind.SYNTAX
    at_import = name == "NameError" and error.location.endswith(" in <module>")
    if name in ("ImportError", "ModuleNotFoundError") or at_import:
        return Kind.IMPORT
    passing = signatures.ENVIRONMENT.match(error.type) or signatures.ENVIRONMENT_ERRNO.search(
        error.message
    )
    return Kind.ENVIRONMENT if passing or not said.strong else Kind.EXCEPTION
