"""What it costs to have resilient-run there when nothing fails.

Runs blocks of three jobs on the same script in random order: torchrun, torchrun again (the A/A
control), and resilient-run. The figure of a job is the mean time of its steps once the job has
settled, so that whatever runs beside it now and then counts. Prints JSON with the median ratios
resilient-run/torchrun and torchrun/torchrun, each with a bootstrap 95 % interval over the pairs.

Standbys are made once, in the first seconds of a job, on cores that on a small machine the
workers would have used. That is not hidden: `settling` says how many seconds longer the steps of
the first `--settle-s` seconds took than as many steady ones, under either launcher. They are
begun after 1 s here instead of 5, so that a job need not run as long before it has settled.

    python benchmarks/overhead.py --pairs 20
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

SCRIPT = Path(__file__).parent / "scripts" / "steady.py"
BIN = Path(sys.executable).parent
RESAMPLES = 10_000


class Timed(NamedTuple):
    """One job: mean seconds of a steady step; seconds that settling took beyond steady steps."""

    step_s: float
    settling_s: float


def timed(launcher: str, options: list[str], folder: Path) -> Timed:
    """Run the job under a launcher."""
    out = folder / "steps.json"
    out.unlink(missing_ok=True)
    subprocess.run(
        [BIN / launcher, "--standalone", "--nproc-per-node", "2", SCRIPT, "--out", out, *options],
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "RESILIENT_RUN_DIR": str(folder / "run"),
            "RESILIENT_STANDBY_DELAY_S": "1",
        },
        check=True,
        stderr=subprocess.DEVNULL,
        timeout=300,
    )
    seconds = json.loads(out.read_text())
    step_s = statistics.mean(seconds["steady"])
    return Timed(step_s, sum(seconds["settling"]) - step_s * len(seconds["settling"]))


def interval(ratios: list[float], seed: int) -> dict[str, Any]:
    """Median and bootstrap 95 % interval of the median."""
    chance = random.Random(seed)
    medians = sorted(
        statistics.median(chance.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES)
    )
    low, high = medians[int(0.025 * RESAMPLES)], medians[int(0.975 * RESAMPLES)]
    return {
        "median": round(statistics.median(ratios), 5),
        "low": round(low, 5),
        "high": round(high, 5),
        "half_width": round((high - low) / 2, 5),
        "pairs": len(ratios),
    }


def judged(blocks: list[dict[str, Timed]], seed: int) -> dict[str, Any]:
    """The figures of all blocks, and whether the cost is within its limit."""
    ours, control = (
        interval([block[job].step_s / block["torchrun"].step_s for block in blocks], seed)
        for job in ("resilient-run", "torchrun again")
    )
    limit = 1.01 + control["half_width"]
    return {
        "schema": 2,
        "resilient_over_torchrun": ours,
        "torchrun_over_torchrun": control,
        "limit": round(limit, 5),
        "within": ours["high"] <= limit,
        "settling": {
            f"{job}_s": round(statistics.median(block[job].settling_s for block in blocks), 3)
            for job in ("torchrun", "resilient-run")
        },
    }


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--settle-s", type=float, default=14.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    options = [f"--steps={args.steps}", f"--settle-s={args.settle_s}"]
    blocks: list[dict[str, Timed]] = []
    with tempfile.TemporaryDirectory() as name:
        for number in range(1, args.pairs + 1):
            jobs = ["torchrun", "torchrun again", "resilient-run"]
            order = chance.sample(jobs, len(jobs))
            blocks.append({job: timed(job.split()[0], options, Path(name)) for job in order})
            base, again, ours = (blocks[-1][job].step_s for job in jobs)
            print(f"pair {number}: {ours / base:.4f}, control {again / base:.4f}", file=sys.stderr)
    print(json.dumps(judged(blocks, args.seed), indent=1))


if __name__ == "__main__":
    main()
