"""What is left of a run, however it ends: processes, sockets, shared memory, temporary files.

Runs a job that daemonises children (scripts/untidy.py) again and again and ends it in each of
these ways; counts what is left afterwards. Prints JSON: per way the number of runs, how many of
them left something of each kind, the exit codes, and the seconds until the last process was
gone (median, largest), counted from the end of what the user had started.

    python benchmarks/containment.py --runs 20
    python benchmarks/containment.py --launchers resilient-run,torchrun --ways sigterm --runs 5

Ways: success, failure, sigterm, sigkill-agent (torchrun: its only process), sigkill-keeper.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from resilient.act.prctl import set_subreaper  # noqa: E402
from resilient.sense.processes import descendants  # noqa: E402

SCRIPT = Path(__file__).parent / "scripts" / "untidy.py"
BIN = Path(sys.executable).parent
THEN = {"success": "succeed", "failure": "fail"}  # else it waits
WAYS = ("success", "failure", "sigterm", "sigkill-agent", "sigkill-keeper")
LAUNCHERS = ("resilient-run", "torchrun")
STARTED_S, ENDED_S, GONE_S = 60.0, 60.0, 5.0


def living() -> list[int]:
    """Descendants of this process that live; the dead among its children are reaped."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return [proc.pid for proc in descendants(os.getpid()) if proc.state != "Z"]


def wait_until(condition: Any, seconds: float) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return bool(found)


def one(launcher: str, way: str) -> dict[str, Any]:
    """One run: its exit code, what it left, and how long its last process lived on."""
    with tempfile.TemporaryDirectory(prefix="containment-") as name:
        folder, mark, before = Path(name), f"containment-{uuid.uuid4().hex}", semaphores()
        for sub in ("notes", "tmp"):
            (folder / sub).mkdir()
        env = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
        env |= {"TMPDIR": f"{folder}/tmp", "RESILIENT_RUN_DIR": f"{folder}/run"}
        command = [BIN / launcher, "--standalone", "--nproc-per-node", "2", SCRIPT]
        command += ["--notes", folder / "notes", "--mark", mark, "--then", THEN.get(way, "wait")]
        with (folder / "output").open("wb") as output:
            job = subprocess.Popen(
                [str(word) for word in command], env=env, stdout=output, stderr=output
            )
        begun = wait_until(lambda: len(list((folder / "notes").glob("?"))) == 2, STARTED_S)
        ports = [json.loads(note.read_text())["port"] for note in (folder / "notes").glob("?")]
        act(job, launcher, way)
        try:
            code: int | None = job.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            code = None
        ended = time.monotonic()
        gone = wait_until(lambda: not living(), GONE_S)
        seconds = time.monotonic() - ended
        left = {
            "processes": len(living()),
            "sockets": sum(map(listening, ports)),
            "shared memory": len(shared(mark, before)),
            "temporary files": len(os.listdir(folder / "tmp")),
        }
        clear(mark, before)
    return {"code": code, "begun": begun, "left": left, "seconds": seconds if gone else None}


def act(job: "subprocess.Popen[bytes]", launcher: str, way: str) -> None:
    """Do to the job what the way asks for."""
    if way == "sigterm":
        job.terminate()
    elif way == "sigkill-keeper" or (way == "sigkill-agent" and launcher == "torchrun"):
        job.kill()
    elif way == "sigkill-agent":
        for proc in descendants(job.pid):
            if proc.ppid == job.pid and proc.state != "Z":
                os.kill(proc.pid, signal.SIGKILL)


def listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def semaphores() -> set[Path]:
    """multiprocessing's, which carry no mark: nothing else may use them meanwhile."""
    return set(Path("/dev/shm").glob("sem.mp-*"))


def shared(mark: str, before: set[Path]) -> set[Path]:
    return set(Path("/dev/shm").glob(f"{mark}*")) | (semaphores() - before)


def clear(mark: str, before: set[Path]) -> None:
    """Remove what was left, so that the next run is counted by itself."""
    while left := living():
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    for path in shared(mark, before):
        path.unlink(missing_ok=True)


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts over the runs of one way."""
    seconds = [result["seconds"] for result in results if result["seconds"] is not None]
    return {
        "runs": len(results),
        "begun": sum(result["begun"] for result in results),
        "left something": {
            kind: sum(bool(result["left"][kind]) for result in results)
            for kind in results[0]["left"]
        },
        "exit codes": dict(Counter(str(result["code"]) for result in results)),
        "last process gone after s": {
            "median": round(statistics.median(seconds), 3) if seconds else None,
            "largest": round(max(seconds), 3) if seconds else None,
            "count": len(seconds),
        },
    }


def main() -> None:
    """Run and print one JSON object; exit 1 when resilient-run left anything."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20, help="runs of each way (20)")
    parser.add_argument("--ways", default=",".join(WAYS), help="some of: " + ", ".join(WAYS))
    parser.add_argument("--launchers", default=LAUNCHERS[0], help=" or ".join(LAUNCHERS))
    args = parser.parse_args()
    set_subreaper(True)
    found: dict[str, dict[str, Any]] = {}
    for launcher in args.launchers.split(","):
        ways = [w for w in args.ways.split(",") if launcher != "torchrun" or w != "sigkill-keeper"]
        for way in ways:
            results = [one(launcher, way) for _ in range(args.runs)]
            found.setdefault(launcher, {})[way] = summary(results)
    print(json.dumps({"schema": 1, "nproc": 2, **found}, indent=1))
    ours = found.get("resilient-run", {}).values()
    sys.exit(any(any(way["left something"].values()) for way in ours))


if __name__ == "__main__":
    main()
