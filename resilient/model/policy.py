"""Every knob of resilient-run: one record, filled from RESILIENT_* environment variables only.

Each field describes itself once (type, bounds, default, unit, what it does). The variable's
name is RESILIENT_ followed by the field's name; an empty variable counts as not set.
"""

import difflib
from collections.abc import Mapping
from functools import cache
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from resilient.model.errors import Misuse
from resilient.model.knob import Knob, count, mebibytes, plain, seconds, secret, show

PREFIX = "RESILIENT_"
RESERVED = frozenset({"RESILIENT_ATTEMPT", "RESILIENT_RUN_ID", "RESILIENT_HOOK"})  # set by us
DEFAULT, ENVIRONMENT = "default", "environment"  # origins of a value


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """What may differ between two runs of resilient-run with the same command line."""

    passthrough: Annotated[bool, plain("Run plain torchrun and do nothing else.")] = False
    run_dir: Annotated[
        str,
        plain(
            "Directory of this run's records, logs and reports. Not set: "
            "./resilient-runs/(run id), or the temporary directory where that is not writable."
        ),
    ] = ""
    warm_start: Annotated[
        Literal["auto", "off"],
        plain(
            "Restart from processes that wait with torch imported (auto: only where that is "
            "shown to make no difference), or always from cold (off)."
        ),
    ] = "auto"
    stop_grace_s: Annotated[
        float | None,
        seconds(
            "Time that workers get to end after a stop from outside, or inside a save. "
            "Not set: torchrun's --shutdown-timeout (30)."
        ),
    ] = None
    fault_grace_s: Annotated[
        float, seconds("Time that the surviving workers get to end after another one failed.")
    ] = 1.0
    strict_exit: Annotated[
        bool,
        plain(
            "Exit as torchrun does when a worker's script had ended well and its interpreter "
            "then died of a signal; otherwise that is a warning and exit code 0."
        ),
    ] = False
    capture: Annotated[
        Literal["auto", "off"],
        plain("Keep a copy of the workers' output in the run directory, or not."),
    ] = "auto"
    stopped_s: Annotated[
        float,
        seconds(
            "A rank stopped (SIGSTOP) for this long while others run counts as lost. 0: never."
        ),
    ] = 2.0
    unkillable_s: Annotated[
        float,
        seconds(
            "A process that lives this long after SIGKILL is given up, and the node reported "
            "as in need of recycling (exit code 70)."
        ),
    ] = 10.0
    infra_restarts_per_hour: Annotated[
        int,
        count(
            "Restarts an hour and node for failures that the program did not cause; they are "
            "not charged to --max-restarts."
        ),
    ] = 20
    rendezvous_retries: Annotated[
        int,
        count(
            "Restarts in a row for an initialisation that failed because of the network or of "
            "us; they are not charged to --max-restarts."
        ),
    ] = 3
    stalled_attempts: Annotated[
        int,
        count(
            "Attempts in a row without progress after which a run is stopped, for failures that "
            "the program did not cause. 0: never."
        ),
    ] = 2
    node_timeout_s: Annotated[
        float,
        seconds(
            "A node whose heartbeat does not change for this long is lost. A node that cannot "
            "reach the others stops its own workers before that.",
            low=1.5,
        ),
    ] = 2.5
    on_node_loss: Annotated[
        Literal["shrink", "wait", "stop"],
        plain(
            "After the loss of a node: go on with the rest where --nnodes allows it and wait for "
            "another node where not (shrink), wait for another node first (wait), or stop (stop)."
        ),
    ] = "shrink"
    node_wait_s: Annotated[
        float | None,
        seconds(
            "Time that too few nodes wait for another one. Not set: the join_timeout of "
            "--rdzv-conf (600)."
        ),
    ] = None
    join_delay_s: Annotated[
        float,
        seconds(
            "Time that a node which wants to join waits for a restart that happens anyway; then "
            "the others restart for it. Where no optimizer step would be lost it is at once."
        ),
    ] = 30.0
    run_key: Annotated[
        str,
        secret(
            "Secret by which the nodes of a run know each other's messages; the same on all "
            "nodes. Not set: made from the rendezvous id, which keeps accidents out, not people."
        ),
    ] = ""
    preemption_signal: Annotated[
        Literal["off", "SIGUSR1", "SIGUSR2"],
        plain(
            "Signal by which the platform announces that it takes a node back: all nodes stop, "
            "and exit with 75 (requeue). Workers that catch it get it, and the stop grace to save."
        ),
    ] = "off"
    log_head_mib: Annotated[int, mebibytes("Start of each rank's output that is kept.", low=1)] = 4
    log_tail_mib: Annotated[int, mebibytes("End of each rank's output that is kept.", low=4)] = 60
    standby_memory_mib: Annotated[
        int,
        mebibytes(
            "Free memory that has to be left for each waiting process; with less, restarts "
            "are cold.",
            low=0,
        ),
    ] = 350
    standby_delay_s: Annotated[
        float,
        seconds("Quiet time of an attempt before processes for a warm restart are started."),
    ] = 5.0


@cache
def knobs() -> tuple[Knob, ...]:
    """All fields of Policy, in order."""
    hints = get_type_hints(Policy, include_extras=True)
    made = []
    for info in msgspec.structs.fields(Policy):
        hint, meta = get_args(hints[info.name])
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        kinds = [kind for kind in get_args(hint) or (hint,) if kind is not NoneType]
        made.append(
            Knob(
                field=info.name,
                variable=PREFIX + info.name.upper(),
                type=str if choices else kinds[0],
                choices=choices,
                default=info.default,
                unit=(meta.extra or {}).get("unit", ""),
                description=meta.description,
                low=meta.ge,
                high=meta.le,
                secret=bool((meta.extra or {}).get("secret")),
            )
        )
    return tuple(made)


def parse(env: Mapping[str, str]) -> tuple[Policy, dict[str, str]]:
    """Policy from the environment, and each variable's origin ("default" or "environment").

    Raises Misuse that lists every mistake at once. Variables without our prefix are ignored.
    """
    values: dict[str, Any] = {}
    mistakes = []
    by_variable = {knob.variable: knob for knob in knobs()}
    for variable in sorted(name for name in env if name.startswith(PREFIX)):
        text = env[variable].strip()
        if variable in RESERVED or (variable in by_variable and not text):
            continue
        knob = by_variable.get(variable)
        if knob is None:  # its value is not repeated: it may be anything, a secret too
            fields = [knob.field for knob in knobs()]  # the common prefix would make all alike
            near = difflib.get_close_matches(variable.removeprefix(PREFIX).lower(), fields, 1)
            hint = f"Did you mean {PREFIX}{near[0].upper()}?" if near else "Unset it."
            mistakes.append(f"{variable}: there is no such variable. {hint}")
            continue
        try:
            values[knob.field] = knob.read(text)
        except ValueError as error:
            mistakes.append(f"{variable}={text!r}: {error}")
    if mistakes:
        noun = "a mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        listed = "\n  ".join([f"{noun} in the environment:", *mistakes])
        raise Misuse(f"{listed}\n`resilient policy --markdown` describes all variables.")
    origins = {knob.variable: ENVIRONMENT if knob.field in values else DEFAULT for knob in knobs()}
    return Policy(**values), origins


def table() -> tuple[tuple[str, str, str, str, str], ...]:
    """Rows of the README's table: variable, allowed values, default, unit, description."""
    return tuple(
        (knob.variable, knob.allowed, show(knob.default), knob.unit, knob.description)
        for knob in knobs()
    )
