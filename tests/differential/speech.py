"""What came out on the launcher's streams: who said what, in which order, after which prefix."""

import re
from collections import defaultdict

from differential import normal
from differential.execute import Result

TAG = re.compile(r"(?=<\d:\d>)")
TOKEN = re.compile(r"<(\d):(\d)>(.*)", re.DOTALL)
# "W1130 20:49:24.014000 8121 torch/distributed/run.py:947] text"
TORCH_LOG = re.compile(r"^([IWE])\d{4} [\d:.]+ \d+ (\S+?):\d+\] ?(.*)")
AGENT = ("elastic/multiprocessing/", "elastic/agent/")  # how torch's agent tells of a failure

# Where a launcher's own words go on after a worker's unfinished line.
LAUNCHER = re.compile(r"[IWE]\d{4} \d\d:|\[?resilient-run")

Said = dict[tuple[int, int], list[str]]  # by attempt and rank


def spoken(
    output: bytes, result: Result, prefixes: set[str] | None = None
) -> tuple[Said, list[str]]:
    """Each worker's own parts in order, prefixes included, and all lines that no worker wrote.

    A line whose prefix is not one of `prefixes` is the launcher's, repeating what a worker said.
    """
    said: Said = defaultdict(list)
    other = []
    for line in re.split(r"(?<=\n)", output.decode("utf-8", "surrogateescape")):
        before = line
        if launcher := LAUNCHER.search(line):
            before = line[: launcher.start()]
        prefix, *parts = TAG.split(before)
        if prefixes is not None and prefix not in prefixes:
            prefix, parts, before = line, [], line
        for part in parts:
            if match := TOKEN.match(part):
                text = prefix + normal.text_of(match[3], result)
                said[int(match[2]), int(match[1])].append(text)
                prefix = ""
        if rest := (prefix + line[len(before) :]).strip():
            other.append(normal.text_of(rest, result))
    return said, other


def prefixes_of(output: bytes) -> set[str]:
    """What stands before workers' lines."""
    lines = output.decode("utf-8", "surrogateescape").split("\n")
    return {TAG.split(line)[0] for line in lines if TAG.search(line)}


def warnings_of(lines: list[str]) -> list[str]:
    """torch's log lines about the command line; those about a failure are replaced by ours."""
    found = [m.group(1, 2, 3) for line in lines if (m := TORCH_LOG.match(line))]
    return sorted(f"{lvl} {text}" for lvl, path, text in found if not any(a in path for a in AGENT))


def where_they_part(left: list[str], right: list[str]) -> tuple[list[str], list[str]]:
    """The two lists around their first difference."""
    pairs = enumerate(zip(left, right, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
    return left[max(0, at - 1) : at + 3], right[max(0, at - 1) : at + 3]
