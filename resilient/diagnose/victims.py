"""What can be said when every worker that failed only speaks of others."""

from collections.abc import Sequence

from resilient.diagnose import signatures
from resilient.diagnose.finding import Finding, before_first_step
from resilient.diagnose.parts import elsewhere, memory_host
from resilient.diagnose.voices import Voice, voice
from resilient.diagnose.wording import last_line, named, ranks, times, where, who
from resilient.model.diagnosis import FailureClass, Kind
from resilient.model.evidence import AttemptEvidence, WorkerEnd

_LOOK = {
    False: "Look at the logs of the other nodes, and at the kernel's log and the network between "
    "them",
    True: "Look at the kernel's logs of the nodes, and at the network between them",
}


def of_victims(
    ends: Sequence[WorkerEnd], finished: Sequence[WorkerEnd], evidence: AttemptEvidence
) -> tuple[Finding, WorkerEnd | None]:
    """A finding and the worker to be named as the first, where one can be.

    `ends`: failed workers, none of which speaks for itself, in order of death, at least one.
    `finished`: workers that had ended well.
    """
    first = ends[0]
    if evidence.oom_kills > 0:
        return _out_of_memory(ends, evidence), None
    gone = next((end for end in finished if end.mono <= first.mono), None)
    if gone is not None:
        return _returned(gone, first, evidence), gone
    for end in ends:
        if before_first_step(end) and signatures.RENDEZVOUS.search(_text(end)):
            return _rendezvous(end), end
    waited = next((end for end in ends if voice(end) is Voice.TIMEOUT), None)
    if waited is not None:
        return _timed_out(waited, evidence), None
    return _peer_gone(ends, evidence), None


def _text(end: WorkerEnd) -> str:
    return named(end.error) if end.error is not None else last_line(end)


def _out_of_memory(ends: Sequence[WorkerEnd], evidence: AttemptEvidence) -> Finding:
    host = memory_host(evidence, ends)
    on = f" on {host}" if host else ""
    return Finding(
        FailureClass.HOST_OOM,
        0.6,
        f"The kernel's out-of-memory killer struck {times(evidence.oom_kills)} in this job's "
        f"memory group{on} during attempt {evidence.attempt}; which process it killed was not "
        f"seen, but {ranks(end.rank for end in ends)} lost the connection to another one.",
        "host_oom",
        host=host,
    )


def _returned(gone: WorkerEnd, first: WorkerEnd, evidence: AttemptEvidence) -> Finding:
    return Finding(
        FailureClass.RANK_ABSENT,
        0.6,
        f"{who(gone)} had ended its script with success while rank {first.rank} still needed it"
        f"{where(first, evidence, first.at)}: {_text(first)}.",
        "returned",
        Kind.RETURNED,
    )


def _rendezvous(end: WorkerEnd) -> Finding:
    return Finding(
        FailureClass.RENDEZVOUS,
        0.7,
        f"The ranks could not be brought together: {who(end)} reported {_text(end)}.",
        end.error.fingerprint if end.error is not None else "rendezvous",
    )


def _timed_out(end: WorkerEnd, evidence: AttemptEvidence) -> Finding:
    others = (
        f"{ranks(evidence.still_running)} still ran then" if evidence.still_running else "none ran"
    )
    return Finding(
        FailureClass.UNDETERMINED,
        0.2,
        f"{who(end)} waited in vain for another rank{where(end, evidence, end.at)}: {_text(end)}. "
        f"Which rank held it up cannot be told from how the processes ended ({others}); next time "
        "look at the stacks of all ranks while they hang, for example with py-spy dump.",
        "timeout",
    )


def _peer_gone(ends: Sequence[WorkerEnd], evidence: AttemptEvidence) -> Finding:
    return Finding(
        FailureClass.PEER_GONE,
        0.2,
        f"Only victims speak: {ranks(end.rank for end in ends)} lost the connection to another "
        f"rank{where(ends[0], evidence, ends[0].at)} ({_text(ends[0])}), and the first cause was "
        f"not found {elsewhere(evidence)}. {_LOOK[len(evidence.parts) > 1]} at that time.",
        "peer_gone",
    )
