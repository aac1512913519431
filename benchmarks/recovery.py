"""How long a job stands still after a fault, under each launcher.

Starts the same two-rank script under each launcher in turn, breaks rank 1 again and again, and
measures from the fault to the moment when both ranks have done their first collective (or first
optimizer step of a DDP model) of the next attempt. Prints JSON: medians, spreads, counts.

    python benchmarks/recovery.py --faults 10
    python benchmarks/recovery.py --arms resilient-warm,torchrun-private --kinds sigkill

Arms:
    resilient-warm    resilient-run
    resilient-cold    resilient-run, RESILIENT_WARM_START=off
    torchrun-private  torchrun, TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 (its restarts initialise)
    torchrun-shared   torchrun at its defaults
    ft_launcher       nvidia-resiliency-ext, where it is installed
"""

import argparse
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).parent / "scripts" / "faulty.py"
BIN = Path(sys.executable).parent
PRIVATE = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
ARMS: dict[str, tuple[str, dict[str, str]]] = {
    "resilient-warm": ("resilient-run", {}),
    "resilient-cold": ("resilient-run", {"RESILIENT_WARM_START": "off"}),
    "torchrun-private": ("torchrun", PRIVATE),
    "torchrun-shared": ("torchrun", {}),
    "ft_launcher": ("ft_launcher", PRIVATE),
}
HUNG_S = 40.0  # an attempt that has not initialised by then is counted as never
STARTED = ("start",)


class Job:
    """One launched job and the notes of its workers."""

    def __init__(self, arm: str, *, ddp: bool, faults: int, settle_s: float) -> None:
        command, env = ARMS[arm]
        self.folder = Path(tempfile.mkdtemp(prefix="recovery-"))
        self.notes = self.folder / "notes.jsonl"
        self.notes.touch()
        self.settle_s = settle_s if arm == "resilient-warm" else min(settle_s, 1.0)
        policy = {
            "RESILIENT_RUN_DIR": str(self.folder / "run"),
            "RESILIENT_STANDBY_DELAY_S": "0.5",
            "RESILIENT_INFRA_RESTARTS_PER_HOUR": "10000",
            "RESILIENT_STALLED_ATTEMPTS": "0",
        }
        flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
        if command == "ft_launcher":
            flags += ["--ft-param-rank_heartbeat_timeout", "3"]
        self.process = subprocess.Popen(
            [
                BIN / command,
                *flags,
                "--nproc-per-node",
                "2",
                f"--max-restarts={faults}",
                SCRIPT,
                "--notes",
                self.notes,
                *(["--ddp"] if ddp else []),
            ],
            env={**os.environ, **policy, **env, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / "stderr.log").open("wb"),
        )

    def lines(self) -> list[dict[str, Any]]:
        """All complete notes so far."""
        text = self.notes.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def wait(self, attempt: int, event: str) -> float | None:
        """When the last of both ranks noted an event of an attempt; None when it never does."""
        deadline = time.monotonic() + HUNG_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = {
                line["rank"]: line["at"]
                for line in self.lines()
                if line["attempt"] == attempt and line["event"] == event
            }
            if len(found) == 2:
                return max(found.values())
            time.sleep(0.005)
        return None

    def pid(self, attempt: int, rank: int) -> int:
        """Process of a rank."""
        return next(
            int(line["pid"])
            for line in self.lines()
            if (line["attempt"], line["rank"], line["event"]) == (attempt, rank, "start")
        )

    def break_it(self, kind: str, attempt: int) -> float | None:
        """Inflict a fault on rank 1; its time."""
        if kind == "exception":
            self.notes.with_suffix(f".raise-{attempt}-1").touch()
            deadline = time.monotonic() + HUNG_S
            while time.monotonic() < deadline:
                for line in self.lines():
                    if (line["attempt"], line["event"]) == (attempt, "raise"):
                        return float(line["at"])
                time.sleep(0.005)
            return None
        at = time.time()
        number = signal.SIGKILL if kind == "sigkill" else signal.SIGSTOP
        os.kill(self.pid(attempt, 1), number)
        return at

    def end(self) -> None:
        """Stop the job and remove its folder."""
        for line in self.lines():  # torchrun cannot end a stopped worker by SIGTERM
            try:
                os.kill(line["pid"], signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def measure(arm: str, kind: str, *, ddp: bool, faults: int, settle_s: float) -> dict[str, Any]:
    """Seconds from each fault to the recovery; jobs that never came back are started anew."""
    event = "step" if ddp else "collective"
    seconds: list[float] = []
    never = done = 0
    while done < faults:
        job = Job(arm, ddp=ddp, faults=faults, settle_s=settle_s)
        try:
            attempt = 0
            if job.wait(0, event) is None:
                raise RuntimeError((job.folder / "stderr.log").read_text()[-2000:])
            while done < faults:
                time.sleep(job.settle_s)
                at = job.break_it(kind, attempt)
                done += 1
                attempt += 1
                back = job.wait(attempt, event)
                if at is None or back is None:
                    never += 1
                    break
                seconds.append(back - at)
                print(f"  {arm} {kind} {event}: {seconds[-1]:.3f} s", file=sys.stderr)
        finally:
            job.end()
    return {
        "arm": arm,
        "fault": kind,
        "until": f"first {event}" + (" of a DDP model" if ddp else ""),
        "faults": done,
        "never_came_back": never,
        "median_s": round(statistics.median(seconds), 4) if seconds else None,
        "min_s": round(min(seconds), 4) if seconds else None,
        "max_s": round(max(seconds), 4) if seconds else None,
        "seconds": [round(value, 4) for value in seconds],
    }


def main() -> None:
    """Measure every combination asked for and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=10, help="per combination (default 10)")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--kinds", default="sigkill,sigstop,exception")
    parser.add_argument("--figures", default="collective,ddp")
    parser.add_argument("--settle", type=float, default=9.0, help="seconds before each fault")
    parser.add_argument("--peer", default="torchrun-private", help="arm that ratios are taken to")
    args = parser.parse_args()
    results = []
    for arm in args.arms.split(","):
        if not (BIN / ARMS[arm][0]).exists():
            print(f"{arm}: not installed, left out", file=sys.stderr)
            continue
        for kind in args.kinds.split(","):
            if kind == "sigstop" and not arm.startswith("resilient") and arm != "ft_launcher":
                continue  # torchrun does not notice a stopped worker
            for figure in args.figures.split(","):
                results.append(
                    measure(
                        arm, kind, ddp=figure == "ddp", faults=args.faults, settle_s=args.settle
                    )
                )
    peers = {(r["fault"], r["until"]): r["median_s"] for r in results if r["arm"] == args.peer}
    for result in results:
        peer = peers.get((result["fault"], result["until"]))
        if peer and result["median_s"]:
            result["ratio_to_peer"] = round(result["median_s"] / peer, 4)
    print(json.dumps({"schema": 1, "peer": args.peer, "results": results}, indent=1))


if __name__ == "__main__":
    main()
