"""Private copies of functions: replace a global name for one caller, not for the process."""

import inspect
from types import FunctionType
from typing import Any


def rebound(function: Any, **names: Any) -> Any:
    """A copy of a Python function that sees other objects under the given global names."""
    plain = inspect.unwrap(function)
    copy = FunctionType(
        plain.__code__,
        {**plain.__globals__, **names},
        plain.__name__,
        plain.__defaults__,
        plain.__closure__,
    )
    copy.__kwdefaults__ = plain.__kwdefaults__
    return copy
