"""A stand-in for Slurm's srun: starts the command once for each of SLURM_NNODES nodes, all here.

What it does as Slurm does: a task's environment, one process a task that gets the signals (as with
proctrack/cgroup), the highest exit code of all as its own. What each task was started with is left
in $STAND_IN/task-N.json. An option that it does not know is an error.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

KNOWN = {
    "--export=ALL",
    "--cpu-bind=none",
    "--no-kill",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--label",
}


def main() -> int:
    words = sys.argv[1:]
    while words and words[0].startswith("--"):
        option = words.pop(0)
        assert option in KNOWN, option
    folder = Path(os.environ["STAND_IN"])
    tasks = []
    for number in range(int(os.environ["SLURM_NNODES"])):
        env = os.environ | {"SLURM_NODEID": str(number), "SLURM_PROCID": str(number)}
        (folder / f"task-{number}.json").write_text(json.dumps({"argv": words, "env": env}))
        tasks.append(subprocess.Popen(words, env=env, start_new_session=True))

    def pass_on(signum: int, _: object) -> None:
        for task in tasks:
            task.send_signal(signum)

    for signum in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(signum, pass_on)
    (folder / "srun.pid").write_text(str(os.getpid()))
    return max(code if code >= 0 else 128 - code for code in [task.wait() for task in tasks])


if __name__ == "__main__":
    sys.exit(main())
