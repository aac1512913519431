"""When a standby may be started: any doubt leaves the next start cold, with the reason."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resilient.decide.standby import due, foreign_libraries, may_start, plan_for, quiet
from resilient.model.protocol import Late, Observed

SITE = "/opt/venv/lib/python3.11/site-packages"
SEEN = Observed(
    env={"OMP_NUM_THREADS": "4"},
    gone=("LANG",),
    affinity_changed=False,
    dlopen_flags_changed=False,
    roots=("yaml", "numpy", "tqdm"),
    native=(
        f"{SITE}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
        f"{SITE}/numpy.libs/libopenblas64_p-r0-0cf96a72.so",
        f"{SITE}/torch/lib/libgomp-a34b3233.so.1",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
    ),
    torch_path=f"{SITE}/torch",
)
FINE: dict[str, Any] = {
    "python": True,
    "switched_on": True,
    "observed": SEEN,
    "free_mib": 8000,
    "margin_mib": 350,
}
NO = [
    ({"switched_on": False}, "RESILIENT_WARM_START is off"),
    ({"python": False}, "not a Python script"),
    ({"disabled": "rank 1 started over cold"}, "rank 1 started over cold"),
    ({"observed": None}, "did not report"),
    ({"free_mib": 699.9}, "RESILIENT_STANDBY_MEMORY_MIB"),
]
SEEN_NO = [
    ({"affinity_changed": True}, "CPU affinity"),
    ({"dlopen_flags_changed": True}, "dlopen flags"),
    ({"forked": True}, "forks before"),
    ({"native": (f"{SITE}/mpi4py/MPI.cpython-311.so",)}, "MPI.cpython-311.so"),
    ({"native": ("/home/someone/libfast.so",)}, "libfast.so"),
    ({"native": (f"{SITE}/torchvision/_C.so",)}, "_C.so"),
    ({"native": tuple(f"/x/lib{n}.so" for n in range(5))}, "and 2 more"),
    ({"roots": ("yaml",)}, "_multiarray_umath"),  # numpy mapped but not to be preloaded
]


def test_yes() -> None:
    found = may_start(**FINE)
    assert found.ok
    assert found.why
    assert may_start(**{**FINE, "free_mib": 700}).ok


@pytest.mark.parametrize(("change", "why"), NO)
def test_no(change: dict[str, Any], why: str) -> None:
    found = may_start(**{**FINE, **change})
    assert not found.ok
    assert why in found.why


@pytest.mark.parametrize(("change", "why"), SEEN_NO)
def test_no_for_what_was_observed(change: dict[str, Any], why: str) -> None:
    found = may_start(**{**FINE, "observed": msgspec.structs.replace(SEEN, **change)})
    assert not found.ok
    assert why in found.why


def test_another_torch_by_path() -> None:
    own = msgspec.structs.replace(
        SEEN, torch_path="/src/pytorch/torch", native=("/src/pytorch/torch/lib/libx.so",)
    )
    assert foreign_libraries(own) == []
    beside = msgspec.structs.replace(own, native=("/src/pytorch/torchx/libx.so",))
    assert foreign_libraries(beside) == ["/src/pytorch/torchx/libx.so"]


@given(st.lists(st.text("/.abnumpytorchsite-packages", max_size=40), max_size=4))
def test_any_path_is_borne(paths: list[str]) -> None:
    foreign_libraries(msgspec.structs.replace(SEEN, native=tuple(paths)))


def test_plan() -> None:
    late = Late(env={"A": "1"}, gone=())
    plan = plan_for(SEEN, late)
    assert plan.roots == ("numpy",)
    assert (plan.env, plan.gone, plan.torch_path) == (SEEN.env, SEEN.gone, SEEN.torch_path)
    assert (plan.late, plan_for(SEEN, None).late) == (late, None)


@pytest.mark.parametrize(
    ("last_report", "delay_s", "at"),
    [(100, 5, 105), (110, 5, 115), (127, 5, 130), (500, 5, 130), (100, 0, 100), (100, 60, 160)],
)
def test_when(last_report: float, delay_s: float, at: float) -> None:
    when = {"started": 100.0, "last_report": last_report, "delay_s": delay_s}
    assert due(**when) == at
    assert not quiet(now=at - 0.1, **when)
    assert quiet(now=at, **when)
