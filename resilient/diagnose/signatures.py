"""Texts of errors and what they show. One row for each kind of wording, no I/O, no verdict.

A new row needs a sample in tests/data/outputs. Wordings are those of torch 2.6 to 2.13, gloo
and NCCL, and of the standard library.
"""

import re


def _any(*wordings: str) -> re.Pattern[str]:
    return re.compile("|".join(wordings), re.IGNORECASE)


# Another process of the job is gone. Who says this is a victim.
PEER_GONE = _any(
    r"connection closed by (?:remote )?peer",
    r"connection reset",
    r"connection refused",
    r"connection was likely closed",
    r"broken pipe",
    r"socket closed",
    r"failed to recv, got 0 bytes",
    r"remote process exited or there was a network error",
    r"nccl ?remote ?error",
    r"remote worker (?:crash|hang)",
    r"failed to pass monitoredBarrier",
    r"nccl communicator was aborted",
)
# It waited for another process, and that process did not come.
TIMEOUT = _any(
    r"timed out waiting \d+ ?ms",
    r"timed out after",
    r"wait timeout after",
    r"collective operation timeout",
    r"watchdog caught",
    r"socket timeout",
    r"heartbeat monitor",
)
# The process was taken down because of what another one did, without an exception.
TAKEN_DOWN = _any(
    r"taking the entire process down",
    r"watchdog thread terminated with exception",
    r"heartbeat monitor timed out",
    r"instance of 'gloo::IoException'",
    r"instance of 'c10::Dist(?:Backend|Network|Store)Error'",
)
# The ranks could not be brought together; before the first step only.
RENDEZVOUS = _any(
    r"\bDist(?:Store|Network)Error\b",
    r"\bRendezvous\w*Error\b",
    r"waiting for clients",
    r"wait timeout after \d+ ?ms, keys:",
    r"client socket has (?:failed|timed out)",
    r"connectFullMesh failed",
    r"server socket has failed",
)
ADDRESS_IN_USE = _any(r"\bEADDRINUSE\b", r"address already in use")
# A process that a worker had started (a DataLoader's) was killed.
HELPER_KILLED = _any(r"worker \(pid\(?s?\)? [\d, ]+\) is killed by signal: ([A-Za-z ]+)")
HELPER_LOST = _any(r"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly")
HELPER_SIGNALS = {
    "killed": 9,
    "segmentation fault": 11,
    "bus error": 7,
    "aborted": 6,
    "terminated": 15,
}
# Exceptions about a connection that the program made itself, to whomever.
OWN_CONNECTION = re.compile(
    r"(?:[\w.]+\.)?(?:Connection(?:Error|Reset\w*|Refused\w*|Aborted\w*|Timeout)|BrokenPipeError"
    r"|EOFError|TimeoutError|ReadTimeout\w*|ConnectTimeout\w*|Timeout|timeout)$"
)
OF_THE_JOB = _any(
    r"\bgloo\b",
    r"\bnccl",
    r"c10d",
    r"TCPStore",
    r"SocketImpl",
    r"\bDist\w*Error\b",
    r"monitoredBarrier",
    r"(?:send|recv) operation",
    r"waiting for clients",
    r"\bwatchdog\b",
    r"collective operation",
)
# Network and storage: the same exception twice does not show that it comes a third time.
ENVIRONMENT = re.compile(
    r"(?:[\w.]+\.)?(?:URLError|HTTPError|gaierror|SSLError|IncompleteRead|ProtocolError"
    r"|ChunkedEncodingError|MaxRetryError|\w*RetryError)$"
)
ENVIRONMENT_ERRNO = re.compile(r"\[Errno (?:5|11|12|1[01]\d|116|121|122)\]")
LIBRARY_WORDS = re.compile(r"\s*what\(\):\s*(.+)")
