"""Errors say whose fault it is: yours, the world's, or ours."""


class ResilientError(Exception):
    """Base of all errors that this package raises on purpose."""


class Misuse(ResilientError):
    """Yours: the message names the variable, flag or file, and the fix."""


class Unavailable(ResilientError):
    """The world's: the message names the device, file or peer, and what happens instead."""


class Bug(ResilientError):
    """Ours: it is logged and the job goes on as under torchrun."""
