"""Makes one worker's channels and hands their read ends to the scribe."""

import os

from resilient.act.channels import (
    Ends,
    Outputs,
    is_inherited,
    make_pipe,
    make_pty,
    same_output,
)
from resilient.act.scribe_link import Link

_NAMES = {1: "stdout", 2: "stderr"}


def make_outputs(
    link: Link, *, attempt: int, rank: int, streams: set[int], console: bool
) -> Outputs:
    """Channels for the streams (1: stdout, 2: stderr). Raises OSError: no descriptor left.

    With `console`, as the agent's own: a terminal or a pipe, one for both where they are
    one thing, none where the agent's is closed. Without: two pipes, for the logs only.
    """
    if console:
        streams = {number for number in streams if is_inherited(number)}
    shared = console and len(streams) == 2 and same_output(1, 2)
    names = {1: "output"} if shared else {number: _NAMES[number] for number in sorted(streams)}
    fds: dict[int, int] = {}
    try:
        for number, name in names.items():
            ends = _make_ends(link, number if console else None)
            fds[number] = ends.write_fd
            head = {"do": "channel", "attempt": attempt, "rank": rank, "stream": name}
            head |= {"pty": ends.pty, "console": number if console else None}
            link.hold(head, ends.read_fd)
    except OSError:
        Outputs(fds.get(1), fds.get(2)).close()
        raise
    return Outputs(fds.get(1), fds.get(1 if shared else 2))


def _make_ends(link: Link, console: int | None) -> Ends:
    if console is None or not os.isatty(console):
        return make_pipe()
    try:
        return make_pty(console)
    except OSError as error:
        link.notes.append(f"workers get a pipe instead of a terminal: {error.strerror}")
        return make_pipe()
