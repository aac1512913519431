"""sense.cgroup: the counter of a real kill for want of memory, and where it is looked for."""

import subprocess
from pathlib import Path

import pytest

from containment.surroundings import environment, needs_root, python
from resilient.sense import cgroup

V1 = "5:cpuset:/\n4:memory:/docker/abc\n0::/\n"
V2 = "0::/kubepods/pod1/box\n"
MOUNTS = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
34 31 0:31 {root} /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset
35 31 0:32 {root} /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
"""
MOUNT_V2 = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


@pytest.mark.parametrize(
    ("membership", "mounts", "expected"),
    [
        (V1, MOUNTS.format(root="/"), "/sys/fs/cgroup/memory/docker/abc/memory.oom_control"),
        (V1, MOUNTS.format(root="/docker/abc"), "/sys/fs/cgroup/memory/memory.oom_control"),
        (V2, MOUNT_V2.format(root="/"), "/sys/fs/cgroup/kubepods/pod1/box/memory.events"),
        (V2, MOUNT_V2.format(root="/kubepods/pod1/box"), "/sys/fs/cgroup/memory.events"),
        (V2, MOUNT_V2.format(root="/another"), "/sys/fs/cgroup/memory.events"),
        (V1, MOUNT_V2.format(root="/"), None),
        ("", MOUNTS.format(root="/"), None),
    ],
)
def test_where_the_counter_is(membership, mounts, expected):
    assert cgroup._counter_file(membership, mounts) == expected


def test_this_process_gets_a_number_or_none():
    count = cgroup.oom_kills()
    assert count is None or count >= 0


EATER = """
import os, sys
from resilient.sense.cgroup import oom_kills
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
before = oom_kills()
child = os.fork()
if child == 0:
    pieces = [bytearray(b"x") * (1 << 20) for _ in range(400)]
    os._exit(0)
died_of = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(before, died_of, oom_kills())
"""


@pytest.mark.root
@needs_root
def test_a_real_kill_is_counted():
    own = cgroup._counter_file(
        Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text()
    )
    if own is None:
        pytest.skip("no memory cgroup")
    group = Path(own).parent / "resilient-run-test"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error}")
    try:
        limit = group / ("memory.max" if own.endswith("events") else "memory.limit_in_bytes")
        if not limit.exists():
            pytest.skip("the memory controller is not delegated to here")
        limit.write_text(str(100 << 20))
        done = subprocess.run(
            python("-c", EATER, str(group)), env=environment(), stdout=subprocess.PIPE, check=True
        )
        assert done.stdout.split() == [b"0", b"-9", b"1"]
    finally:
        group.rmdir()
