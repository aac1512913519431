"""Takes out of a result what differs between any two runs: paths, ports, process ids, times."""

import re
from collections.abc import Callable
from typing import Any

from differential.execute import Result

PATTERNS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r"torchelastic_[a-z0-9_]{8}|rr-[a-z0-9_]{8}/logs"), "<log directory>"),
    (re.compile(r"(?<=/)([^/\s]+)_[a-z0-9_]{8}(?=/attempt_)"), r"\1_<x>"),
    (re.compile(r"\b(pipe|socket):\[\d+\]"), r"\1:[<n>]"),
    (re.compile(r"/dev/pts/\d+"), "/dev/pts/<n>"),
    (re.compile(r"0x[0-9a-f]{6,}"), "<address>"),
    (re.compile(r"(tracker_fd|pipe_handle|parent_pid)=\d+"), r"\1=<n>"),
    (re.compile(r"\(pid: \d+\)|\bprocess \d+\b"), "<pid>"),
]
OWN = ("DIFF_", "RESILIENT_")  # variables of the comparison, and of resilient-run
RANDOM_PORT = "<some port>"


def text_of(value: str, result: Result) -> str:
    """One string without the marks of its run."""
    value = value.replace(result.folder, "<folder>")
    value = re.sub(rf"(?<!\d){result.port}(?!\d)", "<port>", value)
    for pattern, instead in PATTERNS:
        value = pattern.sub(instead, value)
    return value


def walk(value: Any, change: Callable[[str], str]) -> Any:
    """`value` with every string in it changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {walk(k, change): walk(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [walk(v, change) for v in value]
    return value


def environ(variables: dict[str, str], result: Result) -> dict[str, str]:
    """Without our own variables; a port that nobody named is only known to be one."""
    kept = {k: v for k, v in variables.items() if not k.startswith(OWN)}
    port = kept.get("MASTER_PORT", "")
    if port.isdigit() and port != str(result.port) and port != "29500":
        kept["MASTER_PORT"] = RANDOM_PORT
    return kept


def probe(raw: dict[str, Any], result: Result) -> dict[str, Any]:
    """One worker's observables, ready to be compared."""
    kept = dict(raw)
    kept["environ"] = environ(kept["environ"], result)
    kept.pop("seeds", None)  # have to differ; compared between ranks
    if "child_environ" in kept:
        pairs = (v.split("=", 1) for v in kept["child_environ"].split("\0") if v)
        kept["child_environ"] = environ(dict(pairs), result)
    if "ancestors" in kept:
        kept["ancestors"] = result.pid in kept["ancestors"]
    if "torch" in kept:
        seen = dict(kept["torch"])
        seen["environ"] = environ(seen["environ"], result)
        del seen["seed"]
        kept["torch"] = seen
    clean: dict[str, Any] = walk(kept, lambda text: text_of(text, result))
    return clean
