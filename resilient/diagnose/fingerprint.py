"""When are two failures the same failure again? Texts without what changes from run to run.

Addresses, process ids, ports, ranks, counters and sizes are numbers and are all replaced;
names of temporary folders and digests too. Two errors are then told apart by type, by the
words of the message, and by the line of code that raised them.
"""

import re
from hashlib import blake2b

MESSAGE_LIMIT = 500  # characters of a message that count
_DIGITS = 12  # hexadecimal digits of a fingerprint

_CHANGING = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<id>"),
        (r"\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*\](?::\d+)?", "<address>"),  # IPv6, as [::1]:29500
        (r"\[?\b\d{1,3}(?:\.\d{1,3}){3}\b\]?(?::\d+)?", "<address>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<address>"),
        # The folder below a temporary one, and what tempfile makes anywhere.
        (
            r"(/(?:var/)?tmp|/dev/shm|/run/user/\d+|/var/folders/\w+/\w+/T)/[^/\s'\":]+(?=/)",
            r"\1/<t>",
        ),
        (r"\b(tmp)[a-z0-9_]{6,}", r"\1<t>"),
        (r"\b(?=[a-f]*\d)[0-9a-f]{12,}\b", "<digest>"),
        (r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", "#"),
    )
)
_SET = re.compile(r"\{([^{}]*)\}")


def normalise(text: str) -> str:
    """The words of a text that stay the same when the same thing happens again."""
    for pattern, replacement in _CHANGING:
        text = pattern.sub(replacement, text)
    text = _SET.sub(_in_order, text)  # a set prints in another order in each process
    return " ".join(text.split())


def _in_order(found: re.Match[str]) -> str:
    return "{" + ", ".join(sorted(part.strip() for part in found[1].split(","))) + "}"


def fingerprint(kind: str, message: str = "", place: str = "") -> str:
    """ "ValueError:1f2e3d…": readable in front, exact behind. `place` keeps its numbers.

    Error files name a type without its module, tracebacks with it: only the last part counts.
    """
    name = kind.rpartition(".")[2]
    words = normalise(message[:MESSAGE_LIMIT])
    digest = blake2b(digest_size=_DIGITS // 2)
    for part in (name, words, _same_place(place)):
        digest.update(part.encode("utf-8", "replace") + b"\0")
    return f"{name}:{digest.hexdigest()}"


def _same_place(place: str) -> str:
    """A place in the code, with its line number, and a path without its changing parts."""
    path, colon, rest = place.rpartition(":")
    return normalise(path) + colon + rest
