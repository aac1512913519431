"""How one worker is stopped, step by step: a ladder from a free hand to SIGKILL.

    outside:  signal ── stop grace ──► kill
    fault:    stopped? ────────────────────────────────────────► kill
              saving?  wait, at most the stop grace, then on
              no handler ────────► signal ── fault grace ──► kill   (it dies at the signal)
              handler ──► release ► signal ── fault grace ──► kill   (stop grace while saving)

Asked again after every step and at every deadline; it remembers nothing itself.
"""

from enum import Enum
from math import inf
from typing import Literal

import msgspec

Why = Literal["outside", "fault"]  # a signal to the launcher (or its shutdown); another's failure


class Action(Enum):
    """The next thing to do to one worker."""

    WAIT = "wait"
    RELEASE = "release"  # shut its group's sockets down, so that a waiting collective raises
    TERM = "term"  # the signal, to its process group; SIGCONT after it where it is stopped
    KILL = "kill"


class Graces(msgspec.Struct, frozen=True, kw_only=True):
    """How long a worker may take, in seconds."""

    stop_s: float
    fault_s: float


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """One worker, as it is now."""

    alive: bool = True
    stopped: bool = False  # by SIGSTOP or its like
    catches_term: bool = False  # has a handler for the signal that we would send
    saving: bool = False


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """What was done to it already, and when: seconds on the clock of `now`."""

    began_at: float
    released_at: float | None = None
    term_at: float | None = None
    kill_at: float | None = None


class Step(msgspec.Struct, frozen=True):
    """Do `action`; ask again at once after it, or, where it is WAIT, at `until` at the latest."""

    action: Action
    until: float = inf


def next_step(now: float, facts: Facts, sent: Sent, *, why: Why, graces: Graces) -> Step:
    """The next step for one worker. Total: every combination has an answer."""
    if not facts.alive or sent.kill_at is not None:
        return Step(Action.WAIT)
    if why == "outside":
        return _outside(now, sent, graces)
    if facts.stopped:  # it can act on nothing, and holds the others up
        return Step(Action.KILL)
    if sent.term_at is None:
        return _before_signal(now, facts, sent, graces)
    grace = max(graces.stop_s, graces.fault_s) if facts.saving else graces.fault_s
    return _wait_or_kill(now, sent.term_at + grace)


def _outside(now: float, sent: Sent, graces: Graces) -> Step:
    if sent.term_at is None:
        return Step(Action.TERM)
    return _wait_or_kill(now, sent.term_at + graces.stop_s)


def _before_signal(now: float, facts: Facts, sent: Sent, graces: Graces) -> Step:
    end_of_patience = sent.began_at + graces.stop_s
    if facts.saving and now < end_of_patience:
        return Step(Action.WAIT, end_of_patience)
    if facts.catches_term and sent.released_at is None:
        return Step(Action.RELEASE)
    return Step(Action.TERM)


def _wait_or_kill(now: float, deadline: float) -> Step:
    return Step(Action.WAIT, deadline) if now < deadline else Step(Action.KILL)
