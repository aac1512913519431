"""`make demo`: training loses a process half-way and comes back by itself.

Starts the example as a user would type it, kills one rank from outside with SIGKILL, and shows
what the loss did and what `resilient report` says. Exits 1, with the reason, when the run did not
come back, the loss did not go on falling, or the report is wrong.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
SCRIPT = "launch/examples/char_lm.py"
STEPS, KILL_FROM, KILL_AT_LAST = 400, 145, 285
VICTIM = 1  # the rank to kill
RUNS = Path("resilient-runs")
STEP_LINE = re.compile(r"step +(\d+)  loss ([0-9.]+)")


class WrongResult(Exception):
    """The demonstration did not show what it should."""


@dataclass
class Seen:
    """What the output has said so far."""

    losses: list[tuple[int, float]] = field(default_factory=list)  # (step, loss), as printed
    killed_after: int | None = None  # how many of them came before the kill
    killed_at: float = 0.0  # monotonic seconds


def say(text: str) -> None:
    print(f"\n── {text}", flush=True)


def newest_run(before: Path | None) -> Path | None:
    """The run directory that appeared since `before` was the newest."""
    link = RUNS / "latest"
    target = RUNS / link.resolve().name if link.is_dir() else None
    return None if target == before else target


def events(run: Path | None) -> list[dict[str, Any]]:
    """All whole lines of the run's event log."""
    if run is None:
        return []
    lines = [x for f in run.glob("nodes/*/events.jsonl") for x in f.read_text().splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def standbys_ready(log: list[dict[str, Any]]) -> bool:
    """Whether every rank has a process waiting to take its place."""
    return {e["rank"] for e in log if e["kind"] == "standby.ready"} >= {0, 1}


def kill_rank(log: list[dict[str, Any]]) -> int:
    """SIGKILL to the victim's process, found as an outsider would: in the event log."""
    pids = [e["data"]["pid"] for e in log if e["kind"] == "worker.start" and e["rank"] == VICTIM]
    if not pids:
        raise WrongResult(f"the event log names no process of rank {VICTIM}")
    pid = int(pids[-1])
    if SCRIPT.encode() not in Path(f"/proc/{pid}/cmdline").read_bytes():
        raise WrongResult(f"process {pid} of the event log does not run {SCRIPT}")
    os.kill(pid, signal.SIGKILL)
    return pid


def watch(launcher: "subprocess.Popen[str]", before: Path | None) -> Seen:
    """Show the output as it comes; kill the victim in mid-training."""
    seen = Seen()
    assert launcher.stdout is not None
    for line in launcher.stdout:
        print(f"  │ {line}", end="", flush=True)
        if not (match := STEP_LINE.search(line)):
            continue
        step = int(match[1])
        seen.losses.append((step, float(match[2])))
        if seen.killed_after is not None:
            if len(seen.losses) == seen.killed_after + 1:
                since = time.monotonic() - seen.killed_at
                say(f"training again: first loss line {since:.1f} s after the kill")
            continue
        if step < KILL_FROM:
            continue
        log = events(newest_run(before))
        if standbys_ready(log) or step >= KILL_AT_LAST:
            time.sleep(0.2)  # a few steps on from the line that was just printed
            seen.killed_after, seen.killed_at = len(seen.losses), time.monotonic()
            say(f"kill -9 {kill_rank(log)}   (rank {VICTIM}, in the middle of training)")
            print("   the other rank will complain that its neighbour is gone\n", flush=True)
    return seen


def recent(losses: list[tuple[int, float]]) -> float:
    """Mean of the last three loss lines: single ones go up and down."""
    return sum(loss for _, loss in losses[-3:]) / len(losses[-3:])


def check_loss(seen: Seen) -> None:
    """The loss after the kill goes on from where it was and ends lower."""
    if seen.killed_after is None:
        raise WrongResult("training ended before there was a chance to kill a rank")
    if len(seen.losses) == seen.killed_after:
        raise WrongResult("no step was printed after the kill: training did not come back")
    before_kill, after_kill = seen.losses[: seen.killed_after], seen.losses[seen.killed_after :]
    start, before, after = seen.losses[0][1], recent(before_kill), after_kill[0][1]
    end, last = recent(seen.losses), seen.losses[-1][0]
    say(
        f"loss {start:.2f} at the start, {before:.2f} before the kill, {after:.2f} after it "
        f"(step {after_kill[0][0]}), {end:.2f} at the end (step {last})"
    )
    if last != STEPS:
        raise WrongResult(f"the last step printed is {last}, not {STEPS}")
    if after > (start + before) / 2:
        raise WrongResult("the loss started over: the work before the kill was lost")
    if end >= before:
        raise WrongResult("the loss did not go on falling after the kill")


def read_report(run: Path) -> dict[str, Any]:
    command = [str(BIN / "resilient"), "report", "--json", str(run)]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    report: dict[str, Any] = json.loads(text)
    return report


def check_report(report: dict[str, Any]) -> None:
    """Exactly one incident: the rank that was killed, by SIGKILL, and the run came back."""
    incidents = report["incidents"]
    if len(incidents) != 1:
        raise WrongResult(f"the report has {len(incidents)} incidents instead of one")
    incident = incidents[0]
    if incident["first_rank"] != VICTIM:
        raise WrongResult(f"the report blames rank {incident['first_rank']}, not rank {VICTIM}")
    if incident["class"] != "worker_killed" or "SIGKILL" not in incident["sentence"]:
        raise WrongResult(f"the report does not say SIGKILL: {incident['sentence']}")
    if incident["action"] != "restart" or report["exit_code"] != 0:
        raise WrongResult("the report does not say that the run came back and succeeded")


def demonstrate(checkpoints: str) -> None:
    knobs = {"OMP_NUM_THREADS": "1", "RESILIENT_STANDBY_DELAY_S": "3"}
    command = ["resilient-run", "--standalone", "--nproc-per-node", "2", "--max-restarts", "3"]
    command += [SCRIPT, "--checkpoints", checkpoints, "--steps", str(STEPS), "--print-every", "10"]
    say("two processes train a small language model on this machine; one of them will be killed")
    print("\n$ " + " ".join([f"{k}={v}" for k, v in knobs.items()] + command), flush=True)
    before = newest_run(None)
    began = time.monotonic()
    with subprocess.Popen(
        [BIN / command[0], *command[1:]],
        env=os.environ | knobs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as launcher:
        try:
            seen = watch(launcher, before)
        except BaseException:
            launcher.terminate()
            raise
    if launcher.returncode != 0:
        raise WrongResult(f"resilient-run exited with {launcher.returncode}")
    check_loss(seen)
    run = newest_run(before)
    if run is None:
        raise WrongResult(f"the run left no directory under {RUNS}")
    print(f"\n$ resilient report {run}\n", flush=True)
    subprocess.run([BIN / "resilient", "report", run], check=True)
    check_report(read_report(run))
    say(f"the report is right; {time.monotonic() - began:.0f} s in all")


def main() -> int:
    os.chdir(Path(__file__).parents[1])
    checkpoints = tempfile.mkdtemp(prefix="char-lm-")
    try:
        demonstrate(checkpoints)
    except (WrongResult, subprocess.CalledProcessError) as error:
        print(f"\nThe demonstration failed: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(checkpoints, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
