"""How many restarts of two gloo ranks initialise.

Every attempt kills rank 1 as soon as both ranks have done an all-reduce. An attempt counts as
good when both had. Prints JSON.

    python benchmarks/restarts.py --restarts 100
    python benchmarks/restarts.py --restarts 20 --launchers torchrun
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "scripts" / "restarting.py"
BIN = Path(sys.executable).parent
MEETINGS = {
    "standalone": ["--standalone"],
    "c10d": ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "restarts"],
}


def count(launcher: str, meeting: str, restarts: int, delay: str) -> dict[str, Any]:
    """Run one job of so many restarts and count the attempts in which both ranks met."""
    with tempfile.TemporaryDirectory() as name:
        notes = Path(name) / "notes"
        notes.touch()
        policy = {
            "RESILIENT_RUN_DIR": str(Path(name) / "run"),
            "RESILIENT_INFRA_RESTARTS_PER_HOUR": "10000",
            "RESILIENT_STALLED_ATTEMPTS": "0",
            "RESILIENT_STANDBY_DELAY_S": delay,
        }
        started = time.monotonic()
        command = [BIN / launcher, *MEETINGS[meeting], "--nproc-per-node=2"]
        command += [f"--max-restarts={restarts}", SCRIPT, "--notes", notes]
        done = subprocess.run(
            [*command, "--last", str(restarts)],
            env={**os.environ, **policy, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        met = Counter(line.split()[0] for line in notes.read_text().splitlines())
        good = sum(met[str(attempt)] == 2 for attempt in range(1, restarts + 1))
        return {
            "launcher": launcher,
            "rendezvous": meeting,
            "restarts": restarts,
            "good_initialisations": good,
            "exit_code": done.returncode,
            "seconds": round(time.monotonic() - started, 1),
        }


def main() -> None:
    """Count for every launcher and rendezvous asked for and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--torchrun-restarts", type=int, default=None, help="default: as above")
    parser.add_argument(
        "--standby-delay", default="5", help="0: standbys are met in the middle of importing"
    )
    parser.add_argument("--launchers", default="resilient-run,torchrun")
    parser.add_argument("--rendezvous", default="standalone,c10d")
    args = parser.parse_args()
    results = []
    for launcher in args.launchers.split(","):
        for meeting in args.rendezvous.split(","):
            restarts = args.restarts
            if launcher == "torchrun" and args.torchrun_restarts is not None:
                restarts = args.torchrun_restarts
            results.append(count(launcher, meeting, restarts, args.standby_delay))
            print(json.dumps(results[-1]), file=sys.stderr)
    print(json.dumps({"schema": 1, "results": results}, indent=1))


if __name__ == "__main__":
    main()
