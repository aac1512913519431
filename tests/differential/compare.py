"""Compares two results; says what differs, and whether it belongs to attempt 0 or to attempt 1."""

import json
import re
from dataclasses import dataclass
from typing import Any

from differential import known, normal
from differential.case import Case
from differential.execute import Result
from differential.speech import prefixes_of, spoken, warnings_of, where_they_part

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """`attempt` None: of the whole run. `reason`: why it is meant to be there, if it is."""

    attempt: int | None
    where: str
    theirs: Any
    ours: Any
    reason: str = ""

    def __str__(self) -> str:
        when = "run" if self.attempt is None else f"attempt {self.attempt}"
        sides = f"    torchrun      {self.theirs!r:.700}\n    resilient-run {self.ours!r:.700}"
        return f"{when}, {self.where}:\n{sides}"


def compare(case: Case, theirs: Result, ours: Result) -> list[Difference]:
    """All differences, the known ones with their reasons."""
    found = compare_probes(case, theirs, ours)
    expected = theirs.exit_code if case.exit_code is None else case.exit_code
    if ours.exit_code != expected:
        found.append(Difference(None, "exit code", expected, ours.exit_code))
    for name in ("stdout", "stderr"):
        found += compare_output(name, theirs, ours)
    found += compare_files(theirs, ours)
    if ours.left:
        found.append(Difference(None, "processes left behind", theirs.left, ours.left))
    return found


def leaves(value: Any, path: str = "") -> dict[str, Any]:
    """Nested dictionaries as one flat one; lists are leaves."""
    if not isinstance(value, dict):
        return {path: value}
    flat: dict[str, Any] = {}
    for key, inner in value.items():
        flat |= leaves(inner, f"{path}.{key}" if path else str(key))
    return flat


def compare_probes(case: Case, theirs: Result, ours: Result) -> list[Difference]:
    """Every observable of every worker."""
    found = []
    for key in sorted(theirs.probes.keys() | ours.probes.keys()):
        attempt, rank = key
        if key not in theirs.probes or key not in ours.probes:
            who = (key in theirs.probes, key in ours.probes)
            found.append(Difference(attempt, f"rank {rank} ran", *who))
            continue
        left = leaves(normal.probe(theirs.probes[key], theirs))
        right = leaves(normal.probe(ours.probes[key], ours))
        for where in sorted(left.keys() | right.keys()):
            a, b = left.get(where, ABSENT), right.get(where, ABSENT)
            if where.startswith("group.") and a == ABSENT:
                continue  # torchrun's restart was spared the process group
            if a != b:
                why = known.reason(case, where, a, b)
                found.append(Difference(attempt, f"rank {rank} {where}", a, b, why))
    return found


def compare_output(name: str, theirs: Result, ours: Result) -> list[Difference]:
    """Each rank's own order has to be the same; how ranks take turns does not."""
    prefixes = prefixes_of(getattr(theirs, name))
    left, left_other = spoken(getattr(theirs, name), theirs)
    right, right_other = spoken(getattr(ours, name), ours, prefixes)
    found = []
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            one, two = where_they_part(left.get(key, []), right.get(key, []))
            found.append(Difference(key[0], f"rank {key[1]} {name}", one, two))
    one, two = warnings_of(left_other), warnings_of(right_other)
    if one != two:
        found.append(Difference(None, f"torch's warnings on {name}", one, two))
    return found


def compare_files(theirs: Result, ours: Result) -> list[Difference]:
    """Same names, same contents."""
    left, right = tidy_files(theirs), tidy_files(ours)
    found = []
    for name in sorted(left.keys() | right.keys()):
        a, b = left.get(name, ABSENT), right.get(name, ABSENT)
        if a != b:
            number = re.search(r"attempt_(\d)", name)
            found.append(Difference(int(number[1]) if number else None, name, a, b))
    return found


def tidy_files(result: Result) -> dict[str, Any]:
    """Log files and error files by their normalised paths; an error file without its times."""
    tidy: dict[str, Any] = {}
    for name, data in result.files.items():
        text = normal.text_of(data.decode("utf-8", "surrogateescape"), result)
        content = json.loads(text) if name.endswith(".json") else text
        if isinstance(content, dict) and isinstance(message := content.get("message"), dict):
            message.get("extraInfo", {}).pop("timestamp", None)
        tidy[normal.text_of(name, result)] = content
    return tidy


def warm_ranks(ours: Result) -> list[int]:
    """Ranks of attempt 1 that came from standbys."""
    starts = [e for e in ours.events if e["kind"] == "worker.start" and e["attempt"] == 1]
    return sorted(e["rank"] for e in starts if e["data"].get("warm"))


def not_as_warm(case: Case, ours: Result) -> str:
    """How attempt 1 of resilient-run started otherwise than the case says; empty if it did not."""
    warm, expected = warm_ranks(ours), list(range(case.nproc)) if case.warm else []
    if case.warm is None or warm == expected or not case.again:
        return ""
    why = [e["data"].get("why_cold") for e in ours.events if e["kind"] == "worker.start"]
    return f"ranks {warm} came from standbys, not {expected}: {why}"
