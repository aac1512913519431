"""The error of all parsers here: where in which file, and what to do."""

from resilient.model.errors import Misuse


class Malformed(Misuse):
    """A file that cannot be read as what it is said to be."""

    def __init__(self, label: str, line: int, what: str, fix: str) -> None:
        """`label` names the file; `line` counts from 1, 0 where the whole file is meant."""
        where = f"{printable(label)}:{line}" if line else printable(label)
        super().__init__(f"{where}: {what}; {fix}")
        self.line = line


def printable(text: str, limit: int = 80) -> str:
    """Untrusted text for a message: one line, no control characters, not too long."""
    clean = "".join(c if c.isprintable() else "?" for c in text[: limit + 1])
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"
