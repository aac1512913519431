"""Numbers in untrusted text."""

import re
from math import isfinite

_WHOLE = re.compile(r"\s*(?:0x([0-9a-fA-F]{1,16})|([+-]?[0-9]{1,18}))\s*")


def whole(text: str) -> int | None:
    """Decimal or 0x hexadecimal; None for anything else."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    return int(found[1], 16) if found[1] else int(found[2])


def real(text: str) -> float | None:
    """A finite number; None for anything else."""
    try:
        value = float(text) if len(text) <= 40 else float("nan")
    except ValueError:
        return None
    return value if isfinite(value) else None
