"""Any evidence that can be recorded, within sizes that keep the tests quick."""

from hypothesis import strategies as st

from diagnose.samples import OUTPUTS, lines
from resilient.diagnose.traceback_text import from_output
from resilient.model.evidence import AttemptEvidence, ErrorText, Phase, StoppedWorker, WorkerEnd
from resilient.model.protocol import LATE_MISMATCH_EXIT

REAL = [
    found
    for path in sorted(OUTPUTS.glob("*.txt"))
    if (found := from_output(lines(path.stem))) is not None
]
TAILS = [tuple(lines(path.stem)[-20:]) for path in sorted(OUTPUTS.glob("*.txt"))]
words = st.text(max_size=30)
times = st.floats(0, 2e9) | st.sampled_from([100.0, 100.5, 101.0, 103.0])
errors = st.sampled_from(REAL) | st.builds(
    ErrorText,
    type=words,
    message=words,
    source=st.sampled_from(["error_file", "output"]),
    fingerprint=words,
    location=words,
    related=st.lists(words, max_size=2).map(tuple),
)
exit_codes = st.sampled_from(
    [0, 1, 2, 3, LATE_MISMATCH_EXIT, 120, 127, 134, 137, 255, -1, -2, -6, -9, -11, -15, -34, -99]
) | st.integers(-300, 300)
ranks = st.integers(0, 3)
phases = st.sampled_from(Phase)
steps = st.none() | st.integers(-1, 200)
worker_ends = st.builds(
    WorkerEnd,
    rank=ranks,
    local_rank=ranks,
    pid=st.integers(1, 1 << 22),
    host=st.sampled_from(["host-a", "host-b"]),
    exit_code=exit_codes,
    mono=times,
    at=times,
    sent=st.sampled_from(["", "", "SIGTERM", "SIGKILL"]),
    released=st.booleans(),
    main_ended=st.booleans(),
    phase=phases,
    step=steps,
    error=st.none() | errors,
    tail=st.sampled_from(TAILS) | st.lists(words, max_size=3).map(tuple),
)
stopped_workers = st.builds(
    StoppedWorker,
    rank=ranks,
    local_rank=ranks,
    pid=st.integers(1, 1 << 22),
    host=st.just("host-a"),
    seconds=times,
    phase=phases,
    step=steps,
)
evidences = st.builds(
    AttemptEvidence,
    attempt=st.integers(0, 5),
    host=st.just("host-a"),
    started_at=times,
    noticed_at=times,
    ends=st.lists(worker_ends, max_size=4).map(tuple),
    stopped=st.lists(stopped_workers, max_size=2).map(tuple),
    still_running=st.lists(ranks, max_size=2).map(tuple),
    oom_kills=st.integers(0, 3),
    furthest_step=steps,
    first_step=steps,
    late_mismatch=st.booleans(),
    warm=st.lists(ranks, max_size=2).map(tuple),
    unkillable=st.just(()) | st.lists(st.integers(1, 999), max_size=2).map(tuple),
)
