"""`distify run --launcher k8s`: what it writes is what Kubeflow's own models, PyYAML and kubectl read."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.launchers.starting import ODD_WORDS, State, distify_run, environment, needs, same

pytestmark = pytest.mark.launchers
training = pytest.importorskip("kubeflow.training", reason="not installed: `make test-launchers` installs it")
yaml = pytest.importorskip("yaml")

#: Besides: what YAML does not take as it is, or takes for something else.
WORDS = [
    *ODD_WORDS,
    "$(RANK)",
    "$$(RANK)",
    "$",
    "\x7f\x85\u2028\ufeff",
    "a: b",
    "- c",
    "no",
    "1e3",
    "",
    "😀",
    "\r\n\t\x01",
]


def manifest(folder: Path, *words: str) -> tuple[dict[str, Any], Path]:
    script = "it's a\n$(train) ü.py"
    (folder / script).write_text("import distify_runtime\n")
    given = ("-np", "8", "--image", "registry/it:1", "--env", "WHAT=$(it) is", "--job-file", "job.yaml")
    done = distify_run(folder, "--launcher", "k8s", *given, *words, script, *WORDS)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load((folder / "job.yaml").read_text()), folder / "job.yaml"


@pytest.mark.parametrize("nodes", ["1", "2", "4"])
def test_kubeflows_models_lose_nothing_of_it(tmp_path: Path, nodes: str) -> None:
    from kubeflow.training.api_client import ApiClient
    from kubeflow.training.utils.utils import FakeResponse

    found, _ = manifest(tmp_path, "--nodes", nodes, "--namespace", "team", "--timeout", "90")
    client = ApiClient()
    job = client.deserialize(FakeResponse(found), "KubeflowOrgV1PyTorchJob")
    assert isinstance(job, training.KubeflowOrgV1PyTorchJob)
    assert client.sanitize_for_serialization(job) == found
    replicas = job.spec.pytorch_replica_specs
    assert sum(replica.replicas for replica in replicas.values()) == int(nodes)
    for replica in replicas.values():
        (container,) = replica.template.spec.containers
        assert container.resources.limits == {"nvidia.com/gpu": str(8 // int(nodes))}
        (mount,), (volume,) = container.volume_mounts, replica.template.spec.volumes
        assert (mount.name, mount.mount_path, volume.empty_dir.medium) == (volume.name, "/dev/shm", "Memory")


def expanded(text: str, variables: dict[str, str]) -> str:
    """As the kubelet does it: `$$` is a dollar, `$(NAME)` what NAME is, or itself."""
    found, place = "", 0
    while place < len(text):
        rest = text[place:]
        end = rest.find(")")
        if rest.startswith("$$"):
            found, place = found + "$", place + 2
        elif rest.startswith("$(") and end > 0:
            found, place = found + variables.get(rest[2:end], rest[: end + 1]), place + end + 1
        else:
            found, place = found + rest[0], place + 1
    return found


def test_a_pod_is_told_what_was_given(tmp_path: Path) -> None:
    found, _ = manifest(tmp_path, "--nodes", "2")
    told = {"RANK": "1", "MASTER_ADDR": "it-master-0", "MASTER_PORT": "23456", "train": "wrong", "it": "wrong"}
    for replica in found["spec"]["pytorchReplicaSpecs"].values():
        (container,) = replica["template"]["spec"]["containers"]
        words = [expanded(word, told) for word in container["command"]]
        assert words[-len(WORDS) - 2 :] == ["--", "it's a\n$(train) ü.py", *WORDS]
        assert words[words.index("--node-rank") + 1] == "1"
        assert words[words.index("--rdzv-endpoint") + 1] == "it-master-0:23456"
        env = {one["name"]: expanded(one["value"], told) for one in container["env"]}
        assert env["WHAT"] == "$(it) is"


def test_two_pods_train_what_torchrun_trains(
    machines: list[list[str]], converted: Path, tmp_path: Path, by_torchrun: State
) -> None:
    """What their containers are given, on two machines whose name is that of their address, as a pod's is."""
    out = tmp_path / "a $(RANK) model.pt"
    given = ("-np", "2", "--nodes", "2", "--image", "it", "--dry-run", "train_dist.py", str(out))
    replicas = yaml.safe_load(distify_run(converted, "--launcher", "k8s", *given).stdout)["spec"]["pytorchReplicaSpecs"]
    pods = []
    for rank, (machine, replica) in enumerate(zip(machines, replicas.values(), strict=True)):
        (container,) = replica["template"]["spec"]["containers"]
        told = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "10.77.0.1", "MASTER_PORT": "23456"}
        env = {one["name"]: expanded(one["value"], told) for one in container["env"]} | told
        words = [expanded(word, told) for word in container["command"]]
        words[words.index("/tmp/distify_logs")] = str(tmp_path / f"logs{rank}")  # of its own, in a pod
        hosts = tmp_path / f"hosts{rank}"
        hosts.write_text(f"127.0.0.1 localhost\n10.77.0.{rank + 1} {socket.gethostname()}\n")
        known = ["sh", "-c", f'mount --bind {hosts} /etc/hosts && exec "$@"', "sh"]
        command = [*machine, *known, sys.executable, *words[1:]]
        pods.append(subprocess.Popen(command, cwd=converted, env=environment(**env)))
    assert [pod.wait(240) for pod in pods] == [0, 0]
    assert same(torch.load(out), by_torchrun)


def test_kubectl_reads_the_same(tmp_path: Path) -> None:
    found, path = manifest(tmp_path, "--nodes", "2")
    words = [needs("kubectl"), "label", "--local", "-f", str(path), "a=b", "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert read["metadata"].pop("labels") == {"a": "b"}
    assert read == found
