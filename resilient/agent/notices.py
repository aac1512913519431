"""Signals that are for the workers, and the platform's notice that it takes a node back."""

import signal
from collections.abc import Callable

from resilient.agent.attempt import Attempt
from resilient.agent.recorder import say
from resilient.agent.session import Session
from resilient.agent.user_signals import pass_on


class Notices:
    """What the loop does about SIGUSR1 and SIGUSR2. `helpers` are processes that get none."""

    def __init__(self, session: Session, helpers: Callable[[], set[int]], grace_s: float) -> None:
        """`grace_s`: how long workers that heard a notice of preemption have to save."""
        self._session, self._helpers, self._grace_s = session, helpers, grace_s
        self.received = False  # it is this node that the platform takes back
        self.on_notice: Callable[[Attempt, float], None] = self.prepare

    def pass_on(self, attempt: Attempt, now: float) -> None:
        """Deal with the signals that have come since the last call."""
        signals = self._session.signals
        came = signals.user.take()
        if came:
            signals.clear()
        for number in came:
            name = signal.Signals(number).name
            if name == self._session.policy.preemption_signal:
                self.received = True
                self.on_notice(attempt, now)
                continue
            told = pass_on(number, self._helpers())
            self._session.recorder.event("signal.passed_on", name=name, processes=told)
            if not told:
                signals.user.by_default(number)

    def prepare(self, attempt: Attempt, now: float) -> None:
        """Tell the workers, where they can hear it, and let them have the grace to save."""
        if attempt.preempted_until is not None:
            return
        name, told = self._session.policy.preemption_signal, 0
        if name != "off":
            told = pass_on(signal.Signals[name], self._helpers())
        self._session.recorder.event("preemption", name=name, processes=told)
        say("the platform takes a node back; the workers have time to save, then all nodes stop")
        attempt.preempted_until = now + (self._grace_s if told else 0.0)
