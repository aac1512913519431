"""`resilient-run`: replaces torchrun.

`command` is the console script: a keeper process that outlives the agent. `main` is for Python
callers, as `torch.distributed.run.main` is: it runs in the caller's process and raises.
"""

import os
import sys
from collections.abc import Sequence

from resilient.agent import keeper
from resilient.model.errors import Misuse, Unavailable
from resilient.model.policy import parse

EXIT_MISUSE = 2


def command() -> None:
    """Run the command line of this process and exit as torchrun would."""
    argv = sys.argv[1:]
    try:
        policy, _ = parse(os.environ)
    except Misuse as error:
        sys.stderr.write(f"resilient-run: {error}\n")
        sys.exit(EXIT_MISUSE)

    def agent() -> int:
        from resilient.agent.command import agent_main  # torch only in the agent

        return agent_main(argv, policy, _private_dir())

    keeper.run_under_keeper(agent)


def _private_dir() -> str | None:
    try:
        return keeper.private_dir()
    except Unavailable:  # torch then makes a folder of its own, as under torchrun
        return None


def main(args: Sequence[str] | None = None) -> None:
    """Run torchrun's command line in this process.

    Raises Misuse for mistakes in RESILIENT_* variables, and what `torch.distributed.run.main`
    raises: ChildFailedError, SignalException, rendezvous errors.
    """
    from resilient.agent.command import library_main  # torch only where it is needed

    library_main(sys.argv[1:] if args is None else list(args))


if __name__ == "__main__":
    command()
