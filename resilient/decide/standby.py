"""May a standby be started for a rank, when, and how does it preload?

Only where equivalence with a cold start is shown: by what the rank's cold life reported of
itself before it imported torch. Any "no" leaves the next start cold, with the reason.
"""

from collections.abc import Iterable
from itertools import pairwise

import msgspec

from resilient.model.protocol import Late, Observed, Plan

STANDBY_MIB = 350  # what a waiting process takes, with the late group (CPU build of torch)
LATEST_S = 30.0  # after its start, an attempt that never falls silent gets its standbys
# Imported before torch where the rank did so: no state of theirs depends on what follows.
PRELOADED = frozenset({"numpy"})
# Loaded by torch or by what is preloaded, so in any order they end up the same.
_BROUGHT = ("libstdc++.so", "libgcc_s.so", "libgomp.so", "libm.so", "libz.so", "libgfortran.so")
_SITES = frozenset({"site-packages", "dist-packages"})


class Standby(msgspec.Struct, frozen=True):
    """Whether a standby may be started, and why (not)."""

    ok: bool
    why: str


def may_start(
    *,
    python: bool,
    switched_on: bool,
    observed: Observed | None,
    free_mib: float,
    margin_mib: float,
    disabled: str = "",
) -> Standby:
    """`python`: a script or -m, run by an interpreter that takes our hook. `disabled`: why no
    standby is made any more in this job. Memory in MiB; `margin_mib` stays free after it."""
    objections = (
        "" if switched_on else "RESILIENT_WARM_START is off",
        "" if python else "the worker is not a Python script or module",
        disabled,
        _seen(observed),
        _room(free_mib, margin_mib),
    )
    why = next((objection for objection in objections if objection), "")
    return Standby(not why, why or "nothing that it did before it imported torch is against it")


def _seen(observed: Observed | None) -> str:
    if observed is None:
        return "its first life did not report an import of torch"
    if observed.affinity_changed:
        return "the script changes the CPU affinity before it imports torch"
    if observed.dlopen_flags_changed:
        return "the script changes the dlopen flags before it imports torch"
    if observed.forked:
        return "the script forks before it imports torch"
    names = [path.rpartition("/")[2] for path in foreign_libraries(observed)]
    if not names:
        return ""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"the script loads native libraries before torch: {', '.join(names[:3])}{more}"


def _room(free_mib: float, margin_mib: float) -> str:
    if free_mib - STANDBY_MIB >= margin_mib:
        return ""
    return (
        f"{free_mib:.0f} MiB are free; a standby takes {STANDBY_MIB} and {margin_mib:.0f} have to "
        "stay (RESILIENT_STANDBY_MEMORY_MIB)"
    )


def foreign_libraries(observed: Observed) -> list[str]:
    """Native libraries loaded before torch that neither torch nor the preload set brings."""
    trees = {"torch", *_preloaded(observed.roots)}
    return [path for path in observed.native if not _brought(path, trees, observed.torch_path)]


def _preloaded(roots: Iterable[str]) -> tuple[str, ...]:
    return tuple(root for root in roots if root in PRELOADED)


def _brought(path: str, trees: set[str], torch_path: str) -> bool:
    if path.startswith(f"{torch_path.rstrip('/').removesuffix('/torch')}/torch/"):
        return True
    if path.rpartition("/")[2].startswith(_BROUGHT):
        return True
    parts = path.split("/")
    folder = next((b for a, b in pairwise(parts) if a in _SITES), "")
    return folder.removesuffix(".libs") in trees  # numpy/…, and numpy.libs/ of its wheel


def plan_for(observed: Observed, late: Late | None) -> Plan:
    """What the standby does before it waits: what the rank had done before it imported torch."""
    return Plan(
        roots=_preloaded(observed.roots),
        env=observed.env,
        gone=observed.gone,
        torch_path=observed.torch_path,
        late=late,
    )


def quiet(*, now: float, started: float, last_report: float, delay_s: float) -> bool:
    """Whether an attempt is quiet enough to start standbys, one at a time: `delay_s` after the
    last report of any rank, and in any case LATEST_S after the start. Monotonic seconds."""
    return now >= due(started=started, last_report=last_report, delay_s=delay_s)


def due(*, started: float, last_report: float, delay_s: float) -> float:
    """When that is."""
    latest = started + max(LATEST_S, delay_s)
    return min(max(started, last_report) + delay_s, latest)
