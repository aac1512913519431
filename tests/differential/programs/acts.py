"""What the probe does besides looking: it talks, waits, fails and leaves in various ways."""

import os
import signal
import sys
import time


def talk(rank: str, count: int, *, alone: bool) -> None:
    """Lines on both streams, in a known order, each in one write where ranks share a console."""
    tag = f"<{rank}:{count}>"
    sys.stdout.write(f"{tag}out one\n")
    sys.stderr.write(f"{tag}err one\n")
    os.write(1, f"{tag}out raw\n".encode())
    os.write(2, f"{tag}err raw apple\n".encode())
    sys.stdout.write(f"{tag}out ünïcödé 漢 apple\n")
    sys.stdout.write(f"{tag}out blue\tred\n")
    if alone:
        for i in range(40):
            print(f"{tag}out {i}")
            print(f"{tag}err {i}", file=sys.stderr)
        print(f"{tag}out progress\rprogress again\r", end="")
        print(f"\n{tag}out long " + "x" * 200_000)
        os.system(f"echo '{tag}out from a child'; echo '{tag}err from a child' >&2")
        os.write(1, tag.encode() + b"out \xff\xfe bytes \x1b[31mred\x1b[0m\n")
        sys.stderr.write(f"{tag}err no end of line")
        sys.stdout.write(f"\n{tag}out no end of line")


def wait_for(name: str) -> None:
    """Until the comparison has made that file; a minute at most."""
    path = f"{os.environ['DIFF_OUT']}/{name}"
    for _ in range(3000):
        if os.path.exists(path):
            return
        time.sleep(0.02)
    sys.exit(99)


def fail_first(rank: str) -> None:
    """Rank 0 fails; the others wait for the launcher to end them."""
    if rank == "0":
        sys.exit(7)
    time.sleep(60)


def end(words: list[str], rank: str) -> None:
    """Leave in the way that one of the words names; rank 0 only."""
    if rank != "0" or not (way := [w for w in words if w.startswith("end=")]):
        return
    leave(way[0].removeprefix("end="))


def leave(way: str) -> None:
    match way.split(":"):
        case ["exit", code]:
            sys.exit(int(code))
        case ["text"]:
            sys.exit("this is why I leave")
        case ["raise"]:
            raise RuntimeError("what went wrong")
        case ["record"]:
            from torch.distributed.elastic.multiprocessing.errors import record

            @record
            def wrapped() -> None:
                raise ValueError("recorded")

            wrapped()
        case ["signal", name]:
            os.kill(os.getpid(), signal.Signals[name])
            time.sleep(10)
        case ["_exit", code]:
            os._exit(int(code))
        case ["interrupt"]:
            raise KeyboardInterrupt
        case ["segfault"]:
            import ctypes

            ctypes.string_at(0)
        case ["wait"]:
            wait_with_handlers()


def wait_with_handlers() -> None:
    """Say which signal arrives, and leave."""

    def said(number: int, _frame: object) -> None:
        sys.stdout.write(
            f"<0:{os.environ['TORCHELASTIC_RESTART_COUNT']}>out got {signal.Signals(number).name}\n"
        )
        sys.exit(5)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, said)
    with open(f"{os.environ['DIFF_OUT']}/waiting.json", "w", encoding="utf-8"):
        pass
    for _ in range(600):
        time.sleep(0.1)
