"""What happens on one node happens to all: they restart together, stop together, end together."""

from collections.abc import Callable
from pathlib import Path

import pytest
from netlab.lab import Lab
from netlab.launching import Nodes

pytestmark = pytest.mark.root
REACTION_S = 1.0

# Notes that it was told to stop. Goes on when all ranks of its attempt have started.
WAIT = """
names = ("RESILIENT_ATTEMPT", "TORCHELASTIC_RESTART_COUNT", "WORLD_SIZE", "GROUP_RANK")

def stop(number, frame):
    note("stop")
    sys.exit(1)

signal.signal(signal.SIGTERM, stop)
note("start", **{name: os.environ.get(name) for name in names})
wait_for("start", (ATTEMPT + 1) * int(os.environ["WORLD_SIZE"]))
"""
FAIL_ONCE = """
if ATTEMPT:
    sys.exit(0)
if HOST == "h1" and os.environ["LOCAL_RANK"] == "0":
    note("fails")
    THEN
time.sleep(60)
"""
KILLED = FAIL_ONCE.replace("THEN", "os.kill(os.getpid(), signal.SIGKILL)")
RAISES = FAIL_ONCE.replace("THEN", "raise ValueError('it was me')")


def reaction_s(job: Nodes, host: str) -> float:
    """From the failure until a worker of another node was told to stop."""
    failed = job.noted("fails")[0]["at"]
    return min(note["at"] for note in job.noted("stop", host=host)) - failed


@pytest.mark.parametrize("static", [False, True], ids=["c10d", "static"])
@pytest.mark.parametrize(
    ("text", "flags"), [(KILLED, ""), (RAISES, "--max-restarts=1")], ids=["killed", "raises"]
)
def test_all_restart(lab: Lab, tmp_path: Path, text: str, flags: str, static: bool) -> None:
    """T22: the same number of the attempt everywhere."""
    with Nodes(lab, tmp_path / "job", WAIT + text, flags, nproc=2, static=static) as job:
        job.start()
        job.noted("start", 8)
        ended = job.end()
        print(f"\nfailure on h1 -> h0 stops its workers: {reaction_s(job, 'h0'):.3f} s")
    assert [one.code for one in ended] == [0, 0], job.told()
    assert reaction_s(job, "h0") < REACTION_S
    starts = job.noted("start")
    for attempt in ("0", "1"):
        these = [note for note in starts if note["RESILIENT_ATTEMPT"] == attempt]
        assert sorted(note["rank"] for note in these) == [0, 1, 2, 3]
        assert {note["TORCHELASTIC_RESTART_COUNT"] for note in these} == {attempt}
        assert {note["WORLD_SIZE"] for note in these} == {"4"}
        assert len({(note["host"], note["GROUP_RANK"]) for note in these}) == 2
    assert len(starts) == 8


@pytest.mark.parametrize("static", [False, True], ids=["c10d", "static"])
def test_all_stop(new_lab: Callable[[int], Lab], tmp_path: Path, static: bool) -> None:
    """T24: without restarts left, all agents exit alike."""
    text = WAIT + "if HOST == 'h1':\n    note('fails')\n    sys.exit(1)\ntime.sleep(60)"
    with Nodes(new_lab(3), tmp_path / "job", text, "--max-restarts=0", static=static) as job:
        job.start()
        failed = job.noted("fails")[0]["at"]
        ended = job.end(seconds=15)
        after = [one.end["at"] - failed for one in job.launched.values() if one.end]
        print(f"\nfailure on h1 -> exits {', '.join(f'{s:.3f}' for s in after)} s")
    assert [one.code for one in ended] == [1, 1, 1], job.told()
    assert all(reaction_s(job, host) < REACTION_S for host in ("h0", "h2"))
    assert len(job.noted("start")) == 3


@pytest.mark.parametrize("first", ["h0", "h1"])
def test_staggered_ends(lab: Lab, tmp_path: Path, first: str) -> None:
    """T28: whichever node is done first, the store's host waits for the other."""
    text = f"""
    note("start")
    wait_for("start", 4)
    time.sleep(2.5 * (HOST != {first!r}) + 2.5 * int(os.environ["LOCAL_RANK"]))
    """
    with Nodes(lab, tmp_path / "job", text, nproc=2) as job:
        job.start()
        ended = job.end()
    assert [one.code for one in ended] == [0, 0], job.told()
    assert not any("Traceback" in one.err for one in ended)
    assert len(job.noted("start")) == 4
