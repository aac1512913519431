"""On a terminal a worker sees a terminal, and the person sees what the worker wrote."""

import fcntl
import os
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

from output_kit import agent

PROBE = """
import os, sys, termios
size = os.get_terminal_size(1)
print(f"{os.isatty(1)} {os.isatty(2)} {os.ttyname(1) == os.ttyname(2)} {size.columns}x{size.lines}")
os.write(1, b"\\x1b[31mred\\x1b[0m\\n")
os.write(1, b" 50%\\r100%\\n")
"""


def terminal(columns: int = 91, lines: int = 17) -> tuple[int, int]:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    return master, slave


def read_all(master: int, process: "subprocess.Popen[bytes]", timeout_s: float = 60) -> bytes:
    """All that a person saw until the process ended."""
    seen = b""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        ended = process.poll() is not None
        if select.select([master], [], [], 0.05)[0]:
            try:
                seen += os.read(master, 65536)
            except OSError:
                break
        elif ended:
            break
    return seen


def run_on_terminal(code: str, *args: object) -> bytes:
    master, slave = terminal()
    try:
        with agent(code, *args, stdin=slave, stdout=slave, stderr=slave) as process:
            seen = read_all(master, process)
            assert process.wait(10) == 0, seen
    finally:
        os.close(slave)
        os.close(master)
    return seen


def test_worker_sees_a_terminal_of_the_right_size(tmp_path: Path) -> None:
    code = f"job = Job(sys.argv[1]); job.start({PROBE!r}); sys.exit(job.finish()[0])"
    seen = run_on_terminal(code, tmp_path / "run")
    # Newlines are turned into CR LF by the real terminal, once.
    expected = b"True True True 91x17\n\x1b[31mred\x1b[0m\n 50%\r100%\n"
    assert seen == expected.replace(b"\n", b"\r\n")
    log = tmp_path / "run/nodes/node/attempt-0/0/output.log"
    assert log.read_bytes() == expected


def test_order_and_completeness_on_a_terminal() -> None:
    worker = """
import os
for n in range(2000):
    os.write(1, b"out %d\\n" % n)
    os.write(2, b"err %d\\n" % n)
"""
    code = f"job = Job(); job.start({worker!r}); sys.exit(job.finish()[0])"
    expected = b"".join(b"out %d\r\nerr %d\r\n" % (n, n) for n in range(2000))
    assert run_on_terminal(code) == expected


def test_lines_of_ranks_stay_whole_on_a_terminal() -> None:
    worker = """
import os, sys
line = sys.argv[1].encode() * 300 + b"\\n"
for _ in range(300):
    os.write(1, line)
"""
    code = f"""
job = Job()
for rank in range(3):
    job.start({worker!r}, "abc"[rank], rank=rank)
job.finish()
"""
    lines = run_on_terminal(code).split(b"\r\n")
    assert lines.pop() == b""
    assert sorted(lines) == [c * 300 for c in (b"a", b"b", b"c") for _ in range(300)]


def test_prompt_is_shown_at_once() -> None:
    worker = "import os, time; os.write(1, b'? '); time.sleep(600)"
    code = f"""
job = Job()
job.start({worker!r})
job.wait()
"""
    master, slave = terminal()
    with agent(code, stdin=slave, stdout=slave, stderr=slave) as process:
        try:
            assert select.select([master], [], [], 30)[0]
            assert os.read(master, 99) == b"? "
        finally:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            for pid in map(int, children.split()):
                os.kill(pid, 9)
            process.kill()
    os.close(slave)
    os.close(master)


def test_progress_without_newlines_is_shown_while_it_runs() -> None:
    worker = """
import os, time
for n in range(2000):
    os.write(1, b"\\r%04d" % n)
    time.sleep(0.005)
"""
    code = f"""
job = Job()
worker = job.start({worker!r})
job.pump(lambda: worker.poll() is not None or sys.stdin in select.select([sys.stdin], [], [], 0)[0])
print(worker.poll())
worker.kill()
worker.wait()
job.scribe.close()
"""
    master, slave = terminal()
    with agent(code, stdin=subprocess.PIPE, stdout=slave, stderr=slave) as process:
        assert process.stdin
        assert os.read(master, 5) == b"\r0000"
        process.stdin.close()
        assert b"None" in read_all(master, process)  # it was still running
    os.close(slave)
    os.close(master)


def test_new_window_size_is_passed_on() -> None:
    worker = """
import os, time
for _ in range(3000):
    if os.get_terminal_size(1).columns == 55:
        os.write(1, b"55!")
        break
    time.sleep(0.01)
"""
    code = f"""
job = Job()
signal.signal(signal.SIGWINCH, lambda *_: job.scribe.window_size())
job.start({worker!r})
print("go")
job.finish()
"""
    master, slave = terminal()
    with agent(code, stdin=slave, stdout=slave, stderr=slave) as process:
        assert os.read(master, 99) == b"go\r\n"
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 9, 55, 0, 0))
        process.send_signal(28)  # the kernel's, had the terminal been its controlling one
        assert read_all(master, process) == b"55!"
    os.close(slave)
    os.close(master)


def test_only_stdout_is_a_terminal(tmp_path: Path) -> None:
    worker = "import os; os.write(1, b'%d %d' % (os.isatty(1), os.isatty(2))); os.write(2, b'e')"
    code = f"job = Job(); job.start({worker!r}); sys.exit(job.finish()[0])"
    master, slave = terminal()
    with agent(code, stdin=slave, stdout=slave, stderr=subprocess.PIPE) as process:
        assert process.stderr
        assert read_all(master, process) == b"1 0"
        assert process.stderr.read() == b"e"
    os.close(slave)
    os.close(master)


def test_terminal_that_hangs_up_does_not_stop_the_job(tmp_path: Path) -> None:
    worker = """
import os, sys, time
for n in range(100):
    os.write(1, b"%d\\n" % n)
    time.sleep(0.01)
"""
    code = f"""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
job = Job(sys.argv[1])
job.start({worker!r})
codes = job.wait()
job.scribe.close()
os._exit(codes[0])
"""
    master, slave = terminal()
    with agent(code, tmp_path / "run", stdin=slave, stdout=slave, stderr=slave) as process:
        os.close(slave)
        os.read(master, 1)
        os.close(master)
        assert process.wait(60) == 0
    log = tmp_path / "run/nodes/node/attempt-0/0/output.log"
    assert log.read_bytes() == b"".join(b"%d\n" % n for n in range(100))
