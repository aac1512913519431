"""A process that a worker had started, such as a DataLoader's, was killed or crashed."""

import signal

from resilient.diagnose import signatures
from resilient.diagnose.exit_status import CRASHES, signal_name
from resilient.diagnose.finding import Finding, oom_words
from resilient.diagnose.parts import oom_kills
from resilient.diagnose.wording import where
from resilient.model.diagnosis import FailureClass
from resilient.model.evidence import AttemptEvidence, ErrorText, WorkerEnd


def of_helper(end: WorkerEnd, error: ErrorText, evidence: AttemptEvidence) -> Finding | None:
    """A finding where the exception tells of such a process, else None."""
    text = "\n".join((*error.related, error.message))
    found = signatures.HELPER_KILLED.search(text)
    number = signatures.HELPER_SIGNALS.get(found[1].strip().lower(), 0) if found else 0
    kills = oom_kills(evidence, end.rank)
    if not number and signatures.HELPER_LOST.search(text) and kills > 0:
        number = signal.SIGKILL
    if not number:
        return None
    name, at = signal_name(number), where(end, evidence, end.at)
    subject = f"A DataLoader worker of rank {end.rank} (pid {end.pid} on {end.host})"
    if number in CRASHES:
        sentence = f"{subject} crashed with {name} ({CRASHES[number]}){at}."
        return Finding(FailureClass.WORKER_CRASH, 0.85, sentence, f"helper:{name}")
    if number == signal.SIGKILL and kills > 0:
        sentence = (
            f"{subject} was killed{at} because memory ran out: {oom_words(evidence, end.rank)}."
        )
        return Finding(FailureClass.HOST_OOM, 0.9, sentence, "host_oom")
    sentence = f"{subject} was killed by {name} (not by resilient-run){at}."
    return Finding(FailureClass.WORKER_KILLED, 0.85, sentence, f"helper:{name}")
