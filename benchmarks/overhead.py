"""What it costs to have resilient-run there when nothing fails.

Runs blocks of three jobs on the same script in random order: torchrun, torchrun again (the A/A
control), and resilient-run. The figure of a job is its median step time. Prints JSON with the
median ratios resilient-run/torchrun and torchrun/torchrun, each with a bootstrap 95 % interval
over the pairs.

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
from typing import Any

SCRIPT = Path(__file__).parent / "scripts" / "steady.py"
BIN = Path(sys.executable).parent
RESAMPLES = 10_000


def step_time(launcher: str, steps: int, folder: Path) -> float:
    """Median seconds of one step of a job under a launcher."""
    out = folder / "steps.json"
    out.unlink(missing_ok=True)
    subprocess.run(
        [
            BIN / launcher,
            "--standalone",
            "--nproc-per-node",
            "2",
            SCRIPT,
            "--out",
            out,
            "--steps",
            str(steps),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1", "RESILIENT_RUN_DIR": str(folder / "run")},
        check=True,
        stderr=subprocess.DEVNULL,
        timeout=300,
    )
    return statistics.median(json.loads(out.read_text()))


def tried_again(launcher: str, steps: int, folder: Path) -> float:
    """As `step_time`; a job that did not initialise is started a second time, and said."""
    try:
        return step_time(launcher, steps, folder)
    except subprocess.CalledProcessError as error:
        print(f"{launcher} failed ({error.returncode}), trying again", file=sys.stderr)
        return step_time(launcher, steps, folder)


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


def main() -> None:
    """Measure and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    ours, control = [], []
    with tempfile.TemporaryDirectory() as name:
        for pair in range(args.pairs):
            order = ["torchrun", "torchrun again", "resilient-run"]
            chance.shuffle(order)
            times = {job: tried_again(job.split()[0], args.steps, Path(name)) for job in order}
            ours.append(times["resilient-run"] / times["torchrun"])
            control.append(times["torchrun again"] / times["torchrun"])
            print(f"pair {pair + 1}: {ours[-1]:.4f}, control {control[-1]:.4f}", file=sys.stderr)
    result = {
        "schema": 1,
        "resilient_over_torchrun": interval(ours, args.seed),
        "torchrun_over_torchrun": interval(control, args.seed),
    }
    limit = 1.01 + result["torchrun_over_torchrun"]["half_width"]
    result["limit"] = round(limit, 5)
    result["within"] = result["resilient_over_torchrun"]["high"] <= limit
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
