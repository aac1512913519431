"""The Kubernetes files: against Kubernetes' schema where that is installed, against what we expect
of the fields that matter, and the pods' command really run. No cluster was here to apply them to,
and no schema of JobSet: of that only the Job inside is checked by one."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from launch import pods
from resilient.model.policy import knobs

VERSION = "1.33"  # the oldest with all fields; said in the file
TRAIN = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
print(f"rank {dist.get_rank()} parent {os.getppid()} sum {total.item()}")
dist.destroy_process_group()
"""


def job() -> dict[str, Any]:
    service, found = pods.load("kubernetes-job.yaml")
    assert (service["kind"], found["kind"]) == ("Service", "Job")
    return found


def jobset() -> dict[str, Any]:
    (found,) = pods.load("kubernetes-jobset.yaml")
    assert (found["apiVersion"], found["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    return found


def job_of_the_set() -> dict[str, Any]:
    (only,) = jobset()["spec"]["replicatedJobs"]
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **only["template"]}


def actions(spec: dict[str, Any]) -> dict[int | str, str]:
    """What the first rule that fits does, by exit code or condition."""
    found: dict[int | str, str] = {}
    for rule in spec["podFailurePolicy"]["rules"]:
        codes = rule.get("onExitCodes", {}).get("values", [])
        for what in [*codes, *(one["type"] for one in rule.get("onPodConditions", []))]:
            found.setdefault(what, rule["action"])
    return found


@pytest.fixture(params=["job", "jobset"])
def spec(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A Job's specification."""
    found: dict[str, Any] = {"job": job, "jobset": job_of_the_set}[request.param]()["spec"]
    return found


def test_the_schema_accepts_the_job() -> None:
    documents = pods.load("kubernetes-job.yaml")
    assert pods.check_schema(documents, VERSION) == ""
    documents[1]["spec"]["podFailurePolicy"]["rule"] = []
    assert "rule" in pods.check_schema(documents, VERSION), "it accepts anything"


def test_the_schema_accepts_the_job_of_the_set() -> None:
    assert pods.check_schema([job_of_the_set()], VERSION) == ""


def test_exit_codes_of_the_job() -> None:
    rules = actions(job()["spec"])
    assert rules == {
        2: "FailJob",
        78: "FailJob",
        "DisruptionTarget": "Ignore",
        75: "Ignore",
        69: "Count",
        70: "Count",
    }


def test_exit_codes_of_the_set() -> None:
    """All but those that would come again restart the whole."""
    inner = job_of_the_set()["spec"]
    assert actions(inner) == {2: "FailJob", 78: "FailJob", "DisruptionTarget": "Ignore"}
    assert inner["backoffLimit"] == 0
    policy = jobset()["spec"]["failurePolicy"]
    assert policy["maxRestarts"] > 0
    (rule,) = policy["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])


def test_what_the_api_server_wants(spec: dict[str, Any]) -> None:
    """Rules that no schema has: with podFailurePolicy or successPolicy, and of subdomains."""
    assert spec["completionMode"] == "Indexed"
    assert spec["podReplacementPolicy"] == "Failed"
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] == "Never"
    for rule in spec["podFailurePolicy"]["rules"]:
        if codes := rule.get("onExitCodes"):
            assert codes["containerName"] == pods.container(spec["template"])["name"]
            assert codes["values"] == sorted(set(codes["values"]))
            assert 0 not in codes["values"]


def test_sizes_agree(spec: dict[str, Any]) -> None:
    given = pods.variables(spec["template"])
    assert spec["parallelism"] == spec["completions"] == int(given["NNODES"])
    limits = pods.container(spec["template"])["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == given["PROCS_PER_NODE"]
    grace = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > float(given["RESILIENT_STOP_GRACE_S"])


def test_surroundings_of_a_pod(spec: dict[str, Any]) -> None:
    pod = spec["template"]["spec"]
    one = pods.container(spec["template"])
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in one["volumeMounts"]}
    shared = mounts["/dev/shm"]["emptyDir"]
    assert shared["medium"] == "Memory"
    assert re.fullmatch(r"\d+Gi", shared["sizeLimit"])
    assert "persistentVolumeClaim" in mounts["/runs"]
    assert one["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]
    env = {entry["name"]: entry for entry in one["env"]}
    assert "secretKeyRef" in env["RESILIENT_RUN_KEY"]["valueFrom"]
    # $(RUN_ID) is filled in only by what comes from the pod, wherever it stands in the list.
    assert env["RESILIENT_RUN_DIR"]["value"] == "/runs/$(RUN_ID)"
    settings = {name for name in env if name.startswith("RESILIENT_")}
    assert settings <= {knob.variable for knob in knobs()}


def test_the_name_of_the_first_pod() -> None:
    service, first = pods.load("kubernetes-job.yaml")
    name, subdomain = pods.variables(first["spec"]["template"])["RDZV_HOST"].split(".")
    assert name == first["metadata"]["name"] + "-0"
    assert subdomain == first["spec"]["template"]["spec"]["subdomain"]
    assert subdomain == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == {
        "batch.kubernetes.io/job-name": first["metadata"]["name"]
    }


def test_the_pods_of_both_are_the_same() -> None:
    """But for the name of the first one, and the subdomain, which a JobSet fills in."""
    one, other = job()["spec"]["template"], job_of_the_set()["spec"]["template"]
    del one["spec"]["subdomain"]
    for pod, name in ((one, "train-0.train"), (other, "train-node-0-0.train")):
        entry = next(e for e in pods.container(pod)["env"] if e["name"] == "RDZV_HOST")
        assert entry.pop("value") == name
    assert one == other


def test_the_command_trains_on_two_nodes(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAIN)
    filled_in = {
        "RDZV_HOST": "127.0.0.1",
        "RDZV_PORT": str(20000 + os.getpid() % 10000),
        "POD_IP": "127.0.0.1",
        "PROCS_PER_NODE": "1",
        "RUN_ID": "8f14e45f-ceea",
        "RESILIENT_RUN_DIR": str(tmp_path / "run"),
        "RESILIENT_RUN_KEY": "a key",
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
    }
    outputs = pods.run(job()["spec"]["template"], tmp_path, script, filled_in)
    assert sorted(re.findall(r"rank (\d)", " ".join(outputs))) == ["0", "1"]
    assert all("sum 3.0" in out for out in outputs)
