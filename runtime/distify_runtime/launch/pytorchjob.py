"""A PyTorchJob for Kubeflow's training operator: `distify run` in each pod, told by the operator where it is.

Its numbers are given as options, and not left to what torchrun finds in the environment: where there is no operator to
set them, it fails, and does not train by itself in each pod. All ranks are on the screens of their pods: that is what
Kubernetes keeps.
"""

from __future__ import annotations

import math
import re
import unicodedata
from typing import Any

from distify_runtime.launch.config import LaunchConfig, variables
from distify_runtime.launch.jobs import WrongJob
from distify_runtime.launch.yaml_text import yaml_text

#: A pod's name has the job's and `-worker-123` in it, and has room for 63 characters.
_LONGEST = 50
#: May be written to in any image; what is there goes with the pod.
_LOGS = "/tmp/distify_logs"
#: Seconds that `distify run` has to end, once its ranks are gone.
_MORE_SECONDS = 5
#: RFC 1035, which is what the operator takes for a job's name; and RFC 1123, what Kubernetes takes for a namespace's.
_JOB_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def pytorch_job(config: LaunchConfig) -> str:
    """The manifest, as YAML. Raises WrongJob for what Kubernetes does not take."""
    job = config.job
    check_names(config)
    replicas = {"Master": _replica(config, 1)}
    if job.nodes > 1:
        replicas["Worker"] = _replica(config, job.nodes - 1)
    policy: dict[str, Any] = {"backoffLimit": 0, "cleanPodPolicy": "Running"}  # one pod fails: the others are ended
    if config.timeout:
        policy["activeDeadlineSeconds"] = math.ceil(config.timeout)
    return "# Written by distify run --launcher k8s.\n" + yaml_text(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": job_name(job.name), **({"namespace": job.namespace} if job.namespace else {})},
            "spec": {
                "nprocPerNode": str(config.nproc // job.nodes),
                "runPolicy": policy,
                "pytorchReplicaSpecs": replicas,
            },
        }
    )


def check_names(config: LaunchConfig) -> None:
    job = config.job
    if not job.image or re.search(r"\s", job.image):
        raise WrongJob(
            "--launcher k8s: which image do its pods run? --image NAME, of one with the script, torch and distify in it"
        )
    if job.namespace and (not _NAMESPACE.fullmatch(job.namespace) or len(job.namespace) > 63):
        raise WrongJob(f"--namespace {job.namespace}: small letters, digits and - are wanted, 63 at most")
    texts = [config.target, *config.args, job.image, *(value for _, value in config.env)]
    if wrong := next((text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text)), None):
        raise WrongJob(f"{wrong!r}: is not UTF-8, which is all that Kubernetes can be told")


def job_name(name: str) -> str:
    """A name that the operator takes, made of any."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    return (words if _JOB_NAME.fullmatch(words) else f"train-{words}")[:_LONGEST].strip("-")


def literal(text: str) -> str:
    """For where Kubernetes would expand `$(NAME)`."""
    return text.replace("$", "$$")


def _replica(config: LaunchConfig, count: int) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "pytorch",  # the operator looks for this one
        "image": config.job.image,
        "command": _command(config),
        "env": [{"name": name, "value": literal(value)} for name, value in variables(config, {}).items()],
        "volumeMounts": [{"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    if config.job.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(config.job.gpus)}}
    pod = {
        "terminationGracePeriodSeconds": math.ceil(config.grace) + _MORE_SECONDS,
        "containers": [container],
        # Workers of loaders, and NCCL, need more than the 64 MiB that a container has there.
        "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}],
    }
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": pod}}


def _command(config: LaunchConfig) -> list[str]:
    """What is asked before a start was asked where this was written: whether the script is converted, how many ranks a
    machine has cores for."""
    words = ["python", "-m", "distify", "run", "--nnodes", str(config.job.nodes)]
    # The operator's RANK is the pod's number.
    words += ["--node-rank", "$(RANK)", "--rdzv-endpoint", "$(MASTER_ADDR):$(MASTER_PORT)"]
    words += ["--nproc", str(config.nproc // config.job.nodes), "--as-is", "--oversubscribe"]
    words += ["--grace", f"{config.grace:g}", "--tee", "all", "--logs", _LOGS, *["-m"] * config.module, "--"]
    return [*words, *map(literal, [config.target, *config.args])]
