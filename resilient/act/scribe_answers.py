"""What the scribe remembers of channels that have ended, and the questions about them.

Two questions: the last lines of a rank (`tail`), and whether all that an attempt
printed has reached the console (`drain`). Both may have to wait for the channels' end.
"""

from collections.abc import Collection
from time import monotonic

from resilient.act.output_tail import Tail
from resilient.act.output_wire import Head
from resilient.act.scribe_channel import Channel

KEPT_ATTEMPTS = 2  # whose tails are remembered
_STREAMS = ("stderr", "output", "stdout")  # where an error's text is looked for, in order


class Answers:
    """Tails by channel, channels not yet on the console, and open questions."""

    def __init__(self) -> None:
        self.questions: list[Head] = []
        self._tails: dict[tuple[int, int, str], Tail] = {}
        self._flowing: list[Channel] = []

    def opened(self, channel: Channel) -> None:
        """Remembers a new channel, and forgets the tails of old attempts."""
        oldest = channel.attempt - KEPT_ATTEMPTS + 1
        self._tails = {key: tail for key, tail in self._tails.items() if key[0] >= oldest}
        self._tails[channel.attempt, channel.rank, channel.stream] = channel.tail

    def ended(self, channel: Channel) -> None:
        if channel.console is not None:
            self._flowing.append(channel)

    def ask(self, question: Head) -> None:
        """A message of the agent; a tail's `timeout` (seconds) starts now."""
        if "timeout" in question:
            question["deadline"] = monotonic() + question["timeout"]
        self.questions.append(question)

    def ready(self, channels: Collection[Channel]) -> list[Head]:
        """Answers that can be given now; `channels` are those not at their end."""
        if self._flowing:
            self._flowing = [c for c in self._flowing if c.flowing]
        answers, waiting = [], []
        for question in self.questions:
            answer = self._answer(question, channels)
            if answer is None:
                waiting.append(question)
            else:
                answers.append(answer)
        self.questions = waiting
        return answers

    def _answer(self, question: Head, channels: Collection[Channel]) -> Head | None:
        attempt = question["attempt"]
        if question["do"] == "drain":
            if any(c.attempt == attempt for c in (*channels, *self._flowing)):
                return None
            return {"answer": question["number"], "value": True}
        rank = question["rank"]
        if monotonic() < question["deadline"]:
            for channel in channels:
                if channel.attempt == attempt and channel.rank == rank:
                    return None
        for stream in _STREAMS:
            tail = self._tails.get((attempt, rank, stream))
            lines = tail.lines(question["lines"]) if tail else ()
            if lines:
                return {"answer": question["number"], "value": lines}
        return {"answer": question["number"], "value": ()}
