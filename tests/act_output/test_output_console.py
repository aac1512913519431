"""What reaches the console: everything, in order, at once, and never at a worker's cost."""

import os
import subprocess
import time
from pathlib import Path

from output_kit import agent, alive, eventually, run_agent

BOTH = """
import os
for n in range(300):
    os.write(1, b"out %d\\n" % n)
    os.write(2, b"err %d\\n" % n)
"""


def test_one_pipe_for_both_streams_keeps_their_order(tmp_path: Path) -> None:
    code = f"job = Job(sys.argv[1]); job.start({BOTH!r}); sys.exit(job.finish()[0])"
    with agent(code, tmp_path / "run", stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    expected = b"".join(b"out %d\nerr %d\n" % (n, n) for n in range(300))
    assert out == expected
    place = tmp_path / "run/nodes/node/attempt-0/0"
    assert {p.name: p.read_bytes() for p in place.iterdir()} == {"output.log": expected}


def test_one_file_for_both_streams(tmp_path: Path) -> None:
    code = f"job = Job(); job.start({BOTH!r}); sys.exit(job.finish()[0])"
    with (tmp_path / "out").open("wb") as file:
        file.write(b"before\n")
        file.flush()
        with agent(code, stdout=file, stderr=subprocess.STDOUT) as process:
            assert process.wait(60) == 0
    expected = b"".join(b"out %d\nerr %d\n" % (n, n) for n in range(300))
    assert (tmp_path / "out").read_bytes() == b"before\n" + expected


def test_two_pipes_stay_two(tmp_path: Path) -> None:
    code = f"job = Job(sys.argv[1]); job.start({BOTH!r}); sys.exit(job.finish()[0])"
    status, out, err = run_agent(code, tmp_path / "run")
    assert status == 0
    assert out == b"".join(b"out %d\n" % n for n in range(300))
    assert err == b"".join(b"err %d\n" % n for n in range(300))
    place = tmp_path / "run/nodes/node/attempt-0/0"
    assert (place / "stdout.log").read_bytes() == out
    assert (place / "stderr.log").read_bytes() == err


def test_binary_and_large_output_is_unchanged(tmp_path: Path) -> None:
    source = tmp_path / "bytes"
    source.write_bytes(os.urandom(20 << 20))
    worker = "import sys; sys.stdout.buffer.write(open(sys.argv[1], 'rb').read())"
    code = f"job = Job(sys.argv[1]); job.start({worker!r}, sys.argv[2]); job.finish()"
    status, out, err = run_agent(code, tmp_path / "run", source)
    assert (status, err) == (0, b"")
    assert out == source.read_bytes()


def test_partial_lines_are_shown_at_once() -> None:
    worker = "import os, sys; os.write(1, b'name? '); sys.stdin.buffer.read(); os.write(1, b'bye')"
    code = f"job = Job(); job.start({worker!r}); job.finish()"
    with agent(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        assert process.stdout.read(6) == b"name? "
        process.stdin.close()
        assert process.stdout.read() == b"bye"


def test_order_between_ranks_that_wait_for_each_other(tmp_path: Path) -> None:
    """As after a barrier; the pauses are long for the sake of a loaded machine."""
    worker = """
import os, sys, time
path, me = sys.argv[1], int(sys.argv[2])
for n in range(me, 30, 2):
    while os.path.getsize(path) < n:
        time.sleep(0.001)
    os.write(1, b"%d\\n" % n)
    time.sleep(0.03)
    with open(path, "ab") as file:
        file.write(b"x")
"""
    code = f"""
import tempfile
with tempfile.NamedTemporaryFile() as turn:
    job = Job(sys.argv[1])
    job.folder()
    for rank in (0, 1):
        job.start({worker!r}, turn.name, rank, rank=rank)
    job.finish()
"""
    status, out, _ = run_agent(code, tmp_path / "run")
    assert status == 0
    assert out.split() == [b"%d" % n for n in range(30)]


def test_no_line_is_cut_by_another_rank() -> None:
    worker = """
import os, sys
line = sys.argv[1].encode() * 997 + b"\\n"
for _ in range(2000):
    os.write(1, line)
"""
    code = f"""
job = Job()
for rank in range(4):
    job.start({worker!r}, "abcd"[rank], rank=rank)
job.finish()
"""
    status, out, _ = run_agent(code)
    assert status == 0
    lines = out.split(b"\n")
    assert lines.pop() == b""
    assert len(lines) == 8000
    assert {bytes(set(line)) for line in lines} == {b"a", b"b", b"c", b"d"}
    assert {len(line) for line in lines} == {997}


def test_sixty_four_ranks_at_once(tmp_path: Path) -> None:
    worker = """
import os, sys
for n in range(50):
    os.write(1, b"%d %d\\n" % (int(sys.argv[1]), n))
"""
    code = f"""
job = Job(sys.argv[1])
for rank in range(64):
    job.start({worker!r}, rank, rank=rank)
assert job.finish() == [0] * 64
"""
    status, out, err = run_agent(code, tmp_path / "run")
    assert (status, err) == (0, b"")
    lines = [tuple(map(int, line.split())) for line in out.splitlines()]
    for rank in range(64):
        assert [n for r, n in lines if r == rank] == list(range(50))
        log = tmp_path / f"run/nodes/node/attempt-0/{rank}/stdout.log"
        assert log.read_text() == "".join(f"{rank} {n}\n" for n in range(50))


FLOOD = """
import os, sys
block = (b"x" * 99 + b"\\n") * 600
for _ in range(int(sys.argv[1])):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""


def test_console_that_nobody_reads_blocks_no_worker(tmp_path: Path) -> None:
    code = f"""
job = Job(sys.argv[1])
job.start({FLOOD!r}, 600, stderr=False)
assert job.wait() == [0]
print("workers done", file=sys.stderr)
assert not job.scribe.drain(0, timeout_s=0.5)
job.scribe.close(0.5)
print("closed", file=sys.stderr)
"""
    read_fd, write_fd = os.pipe()
    with agent(code, tmp_path / "run", stdout=write_fd, stderr=subprocess.PIPE) as process:
        os.close(write_fd)
        _, err = process.communicate(timeout=60)
        os.close(read_fd)
    assert err == b"workers done\nclosed\n" and process.returncode == 0
    place = tmp_path / "run/nodes/node/attempt-0/0"
    assert sum(path.stat().st_size for path in place.iterdir()) == 600 * 60_000


def test_dropped_output_is_announced_once_the_console_moves_again(tmp_path: Path) -> None:
    code = f"""
job = Job(sys.argv[1])
job.folder()
job.start({FLOOD!r}, 600, rank=3, stderr=False)
assert job.wait() == [0]
print("go", file=sys.stderr)
job.finish()
"""
    with agent(
        code, tmp_path / "run", stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdout and process.stderr
        assert process.stderr.readline() == b"go\n"
        out = process.stdout.read()
        while chunk := process.stdout.read():
            out += chunk
    notices = [line for line in out.splitlines() if line.startswith(b"[resilient-run: ")]
    lost = sum(int(notice.split()[1]) for notice in notices)
    assert lost > 1_000_000
    log = f"{tmp_path}/run/nodes/node/attempt-0/3/stdout.log"
    assert notices[-1] == b"[resilient-run: %d bytes of rank 3 not shown here; see %s]" % (
        int(notices[-1].split()[1]),
        log.encode(),
    )
    shown = len(out) - sum(len(notice) + 1 for notice in notices)
    assert 0 <= shown - (600 * 60_000 - lost) <= len(notices)  # a newline before a notice


def test_slow_console_loses_nothing() -> None:
    code = f"job = Job(); job.start({FLOOD!r}, 400, stderr=False); job.finish()"
    with agent(code, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        total = 0
        while chunk := process.stdout.read(1 << 19):
            total += len(chunk)
            time.sleep(0.002)
    assert total == 400 * 60_000 and process.returncode == 0


def test_closed_console_is_a_broken_pipe_for_the_worker(tmp_path: Path) -> None:
    worker = """
import os, sys, time
def count():
    n = 0
    try:
        while n < 500:
            os.write(1, b"%d\\n" % n)
            n += 1
            time.sleep(0.02)
    except BrokenPipeError:
        return 32
    return 0
code = count()
os.write(2, b"code %d\\n" % code)
sys.exit(code)
"""
    code = f"job = Job(sys.argv[1]); job.start({worker!r}); sys.exit(job.finish()[0])"
    with agent(code, tmp_path / "run", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == b"0\n"
        process.stdout.close()
        assert process.stderr.read() == b"code 32\n"  # the other stream still works
        assert process.wait(60) == 32


def test_closed_console_kills_by_sigpipe_what_does_not_handle_it() -> None:
    worker = """
import os, signal, time
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
for n in range(500):
    os.write(1, b"y\\n")
    time.sleep(0.02)
"""
    code = f"job = Job(); job.start({worker!r}); sys.exit(0 if job.finish() == [-13] else 1)"
    with agent(code, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 0


def test_redirected_streams_do_not_reach_the_console(tmp_path: Path) -> None:
    code = f"job = Job(sys.argv[1]); job.start({BOTH!r}, console=False); job.finish()"
    assert run_agent(code, tmp_path / "run") == (0, b"", b"")
    names = {path.name for path in (tmp_path / "run/nodes/node/attempt-0/0").iterdir()}
    assert names == {"stdout.log", "stderr.log"}


def test_console_of_a_full_disk_or_null_device() -> None:
    code = """
job = Job()
job.start("print('x')", stderr=False)
assert job.finish() == [0]
print(*job.notes, file=sys.stderr, end="")
"""
    said = {"/dev/full": b"output is missing on the console: No space left on device"}
    for device in ("/dev/full", "/dev/null"):
        with (
            open(device, "wb") as file,
            agent(code, stdout=file, stderr=subprocess.PIPE) as process,
        ):
            _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, said.get(device, b""))


def test_nonblocking_console() -> None:
    """Somebody else may have set O_NONBLOCK on the description that we share."""
    code = f"""
os.set_blocking(1, False)
job = Job()
job.start({FLOOD!r}, 40, stderr=False)
job.finish()
"""
    with agent(code, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout
        total = 0
        while chunk := process.stdout.read(1 << 16):
            total += len(chunk)
            time.sleep(0.001)
    assert total == 40 * 60_000


def test_closed_standard_streams(tmp_path: Path) -> None:
    """As a daemon or a library: nothing of ours may be taken for stdin, stdout or stderr."""
    worker = "import os, sys; os.write(2, b'err\\n'); sys.exit(sys.stdout is not None)"
    code = f"""
for fd in (0, 1):
    os.close(fd)
job = Job(sys.argv[1])
outputs = job.scribe.outputs(attempt=1, rank=0, stdout=True, stderr=False, console=True)
assert outputs.stdout_fd is None and outputs.stderr_fd is None
outputs.close()
job.start({worker!r}, console=False, rank=1)
job.start({worker!r})
for fd in os.listdir("/proc/self/fd"):
    assert int(fd) > 1 or not os.path.exists(f"/proc/self/fd/{{fd}}"), fd
assert job.finish() == [1, 0], job.workers
job.scribe.close()
"""
    status, out, err = run_agent(code, tmp_path / "run")
    assert (status, out, err) == (0, b"", b"err\n")


def test_all_standard_streams_closed(tmp_path: Path) -> None:
    worker = "import os; os.write(1, b'x')"
    code = f"""
for fd in (0, 1, 2):
    os.close(fd)
job = Job(sys.argv[1])
job.start({worker!r}, console=False)
job.finish()
os._exit(0 if open(sys.argv[1] + "/nodes/node/attempt-0/0/stdout.log").read() == "x" else 9)
"""
    status, out, err = run_agent(code, tmp_path / "run")
    assert (status, out, err) == (0, b"", b"")


def test_scribe_ends_after_goodbye() -> None:
    code = "job = Job(); print(job.scribe.pid); job.scribe.close()"
    status, out, _ = run_agent(code)
    assert status == 0
    assert eventually(lambda: not alive(int(out)))
