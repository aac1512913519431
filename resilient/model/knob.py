"""One knob of the policy: what its environment variable may hold, and how that is read."""

import difflib
import math
import re
from typing import Any

import msgspec
from msgspec import Meta

_SWITCH = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(
    ("0", "false", "no", "off"), False
)
_WEEK_S = 7 * 86400


def seconds(description: str, *, low: float = 0) -> Meta:
    """A duration, up to a week."""
    return Meta(description=description, ge=low, le=_WEEK_S, extra={"unit": "s"})


def mebibytes(description: str, *, low: int) -> Meta:
    """A size in MiB, up to a TiB."""
    return Meta(description=description, ge=low, le=1 << 20, extra={"unit": "MiB"})


def count(description: str) -> Meta:
    """A number of times."""
    return Meta(description=description, ge=0, le=10_000)


def secret(description: str) -> Meta:
    """A text that is shown nowhere."""
    return Meta(description=description, extra={"secret": True})


def plain(description: str) -> Meta:
    """A switch, a choice or a path."""
    return Meta(description=description)


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the policy as a person sees it."""

    field: str
    variable: str
    type: type
    choices: tuple[str, ...]
    default: Any
    unit: str
    description: str
    low: float | None
    high: float | None
    secret: bool = False

    @property
    def allowed(self) -> str:
        """What the variable may hold, in words that follow "must be"."""
        if self.choices:
            return " or ".join(self.choices)
        if self.type is bool:
            return "1 or 0"
        if self.type is str:
            return "a text" if self.secret else "a path"
        noun = "a whole number" if self.type is int else "a number"
        unit = {"s": " of seconds", "MiB": " of MiB"}.get(self.unit, "")
        return f"{noun}{unit} from {self.low:g} to {self.high:.0f}"

    def read(self, text: str) -> Any:
        """The value that `text` stands for; raises ValueError with what would be allowed."""
        value: Any = text
        if self.type is bool:
            value = _SWITCH.get(text.lower())
        elif self.type in (int, float):
            value = self._number(text)
        elif self.choices and text not in self.choices:
            value = None
        if value is None:
            guess = self._guess(text)
            hint = "" if guess is None else f" Did you mean {show(guess)}?"
            raise ValueError(f"must be {self.allowed}.{hint}")
        return value

    def _number(self, text: str) -> float | int | None:
        try:
            number: float | int = self.type(text)
        except ValueError:
            return None
        low, high = (-math.inf if self.low is None else self.low), self.high or math.inf
        return number if low <= number <= high else None  # NaN is within no bounds

    def _guess(self, text: str) -> Any:
        """What was meant, for a slip of the keyboard or a number with its unit; else None."""
        if self.choices or self.type is bool:
            words = self.choices or tuple(_SWITCH)
            return next(iter(difflib.get_close_matches(text.lower(), words, 1, 0.5)), None)
        found = re.fullmatch(r"(\d+(?:[.,]\d+)?)\s*[a-zA-Z]*", text)
        return self._number(found[1].replace(",", ".")) if found else None


def show(value: Any) -> str:
    """A value as one would write it into its variable; "" stands for none."""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float):
        return f"{value:g}"
    return "" if value is None else str(value)
