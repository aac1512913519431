"""Small agents, run under the keeper as `resilient-run` runs the real one.

    python agents.py FOLDER MODE ARGUMENT…

FOLDER is in the command line of every process made here. FOLDER/agent holds the agent's pid
once it is ready, FOLDER/private the path of the private directory.
"""

import atexit
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

from resilient.act import prctl
from resilient.act.reap import sweep
from resilient.agent import keeper

HERE = Path(__file__).parent


def write(folder: str, name: str, text: object) -> None:
    """Whole or not at all, so that a reader never sees half."""
    Path(folder, name + ".new").write_text(str(text))
    Path(folder, name + ".new").rename(Path(folder, name))


def ready(folder: str) -> None:
    write(folder, "private", keeper.private_dir())
    write(folder, "agent", os.getpid())


def leave(folder: str, code: str) -> int:
    ready(folder)
    return int(code)


def die(folder: str, name: str) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(getattr(signal, name), signal.SIG_DFL) if name != "SIGKILL" else None
    os.kill(os.getpid(), getattr(signal, name))
    return 99


def fail(folder: str, what: str) -> int:
    raise {"text": SystemExit("the end"), "error": RuntimeError("broken")}[what]


def log(folder: str) -> int:
    """Notes every signal until FOLDER/stop appears; FOLDER/ticks grows meanwhile."""
    taken = os.open(f"{folder}/signals", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(number: int, frame: object) -> None:
        os.write(taken, f"{signal.Signals(number).name}\n".encode())

    for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "CONT", "WINCH", "ALRM"):
        signal.signal(getattr(signal, f"SIG{name}"), note)
    ready(folder)
    ticks = 0
    while not os.path.exists(f"{folder}/stop"):
        time.sleep(0.01)
        ticks += 1
        write(folder, "ticks", ticks)
    return 0


def nest(folder: str, *kinds: str) -> int:
    """A worker with creatures below it. Whatever ends, everything is swept."""

    def stop(number: int, frame: object) -> None:
        sweep(os.getpid(), keep=(), deadline_s=20)
        raise SystemExit(143)

    signal.signal(signal.SIGTERM, stop)
    command = [sys.executable, "-S", "-B", str(HERE / "creatures.py"), folder, *kinds]
    worker = subprocess.Popen(command, start_new_session=True)
    write(folder, "worker", worker.pid)
    ready(folder)
    worker.wait()
    sweep(os.getpid(), keep=(), deadline_s=20)
    return 1


def status(folder: str) -> int:
    """How signals stand in the agent, and in a child of it."""
    lines = [line for line in Path("/proc/self/status").read_text().splitlines() if "Sig" in line]
    print("\n".join(lines), flush=True)
    subprocess.run(["cat", "/proc/self/status"], check=True)
    return 0


def read(folder: str) -> int:
    """A child, not in a session of its own, reads a line from the same stdin."""
    ready(folder)
    subprocess.run(["bash", "-c", 'read line && echo "<$line>"'], check=True)
    return 0


def once(folder: str) -> int:
    atexit.register(lambda: print("at exit, from inside"))
    print("inside")
    return 0


SCRIBE = """
import sys, time
from resilient.act import prctl
prctl.set_name("rr-scribe")
folder, hang = sys.argv[1:]
open(folder + "/scribe", "w")
sys.stdin.buffer.read()
time.sleep(600 if hang == "hang" else 0.3)
open(folder + "/written", "w")
"""


def scribe(folder: str, hang: str) -> int:
    """A daemon writes into a pipe that a scribe reads; the agent leaves both behind."""
    ours, theirs = os.pipe()
    subprocess.Popen(
        [sys.executable, "-c", SCRIBE, folder, hang], stdin=ours, start_new_session=True
    )
    while not os.path.exists(f"{folder}/scribe"):
        time.sleep(0.01)
    code = f"import os, time; os.setsid(); time.sleep(600); '{folder}'"
    subprocess.Popen([sys.executable, "-c", code], stdout=theirs)
    os._exit(6)


def hang(folder: str, path: str) -> int:
    """A child hangs on a dead disk for ever."""
    code = f"open({path!r}, 'w').write('{folder}')"
    child = subprocess.Popen([sys.executable, "-c", code])
    while " D " not in Path(f"/proc/{child.pid}/stat").read_text():
        time.sleep(0.01)
    write(folder, "child", child.pid)
    ready(folder)
    return 4


def main() -> None:
    folder, mode, *arguments = sys.argv[1:]
    if mode == "once":
        atexit.register(lambda: print("at exit, from before"))
        print("before", end=" ")
    if mode == "bare":
        raise SystemExit(status(folder))
    assert prctl.get_pdeathsig() == 0
    keeper.run_under_keeper(lambda: globals()[mode](folder, *arguments))


if __name__ == "__main__":
    main()
