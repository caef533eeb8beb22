"""`distify run --launcher slurm` and `--launcher k8s`: the files of jobs.

What a real Slurm, and Kubeflow's own models, make of them is in tests/launchers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from click.testing import CliRunner
from distify_runtime.launch.pytorchjob import job_name
from distify_runtime.launch.sbatch import quoted
from distify_runtime.trace.processes import free_port

from distify.cli import cli

#: What shells, sbatch's own lines and Kubernetes take for something else.
ODD_WORDS = [
    *(
        "a b",
        "c'd",
        'e"f',
        "$HOME",
        "g\nh",
        "i\r\nj",
        "--m",
        "-x",
        "--",
        "*",
        "#k",
        "\\l",
        "%m",
        "$(touch pwned)",
        "!n",
        "",
    ),
    *(
        "`touch pwned`",
        "ü",
        "$$",
        "~",
        "\x01\t",
        "#SBATCH --nodes=9",
        "\n#SBATCH --nodes=9",
        "\udcff",
        "{a,b}",
        "a;b&c",
    ),
]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Slurm."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    Path("train_dist.py").write_text("import distify_runtime\n")


def said(*words: str, script: str = "train_dist.py", args: tuple[str, ...] = ()) -> tuple[int, bytes, str]:
    ended = CliRunner().invoke(cli, ["run", *words, script, *args], prog_name="distify")
    if ended.exception and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return ended.exit_code, ended.stdout_bytes, ended.stderr


SLURM = ("--launcher", "slurm", "-np", "8", "--nodes", "2")
RUN = f"{sys.executable}{' -P' * (sys.version_info >= (3, 11))} -m distify run --launcher srun -np 8 --as-is --logs"


def test_a_batch_script() -> None:
    given = ("--timeout", "90061", "--env", "WHAT=it is", "--sbatch=--partition=gpu", "--sbatch", "--comment=a 'b' #c")
    code, out, err = said(*SLURM, *given, "--logs", "my logs", args=("--epochs", "10"))
    assert code == 0
    assert err == "distify: train_dist.sbatch is written; sbatch train_dist.sbatch hands it in\n"
    assert out == Path("train_dist.sbatch").read_bytes()
    assert Path("my logs").is_dir()
    here = os.getcwd()
    assert out.decode().splitlines() == [
        "#!/bin/bash",
        "# Written by distify run --launcher slurm.",
        "#SBATCH --job-name=train_dist",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks=8",
        "#SBATCH --ntasks-per-node=4",
        "#SBATCH --gpus-per-node=4",
        "#SBATCH --time=1-01:01:01",
        f'#SBATCH "--output={here}/my logs/%x-%j.log"',
        "#SBATCH --partition=gpu",
        "#SBATCH \"--comment=a 'b' #c\"",
        "set -euo pipefail",
        f"cd -- {here}",
        "export PYTHONHASHSEED=0",
        "export PYTHONUNBUFFERED=1",
        "export WHAT='it is'",
        "# 8 ranks, 4 on each node: rank 0's output is the job's, and each has a log of its own.",
        f"exec {RUN} '{here}/my logs/train_dist'-\"$SLURM_JOB_ID\" -- train_dist.py --epochs 10",
    ]


def test_what_is_not_asked_for_is_not_there() -> None:
    code, out, _ = said("--launcher", "slurm", "-np", "2", "--gpus", "0", "--dry-run")
    assert code == 0
    assert b"gpu" not in out
    assert b"--time" not in out
    assert sorted(os.listdir()) == ["nothing", "train_dist.py"]


#: Stands for Python in front of bash: it says what it is given.
PYTHON = """#!/bin/bash
printf '%s\\0' "$PWD" "$ODD" "$@"
"""


@pytest.mark.parametrize("script", ["train_dist.py", "-a 'b'\n$c\udcff.py", "#SBATCH ü.py"])
def test_bash_reads_back_what_was_given(tmp_path: Path, script: str) -> None:
    python = tmp_path / "nothing/python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    folder = tmp_path / "it's a $folder\nof 'mine'"
    folder.mkdir()
    os.chdir(folder)
    Path(script).write_text("import distify_runtime\n")
    words = (*SLURM, "--env", f"ODD={''.join(ODD_WORDS)}", "--logs", str(tmp_path / "logs"), "--job-file", "job")
    code, _, err = said(*words, script=f"./{script}", args=tuple(ODD_WORDS))
    assert code == 0, err
    assert b"\r" not in Path("job").read_bytes()  # sbatch takes no such line breaks
    Path("job").write_bytes(Path("job").read_bytes().replace(sys.executable.encode(), os.fsencode(python)))
    env = {"PATH": "/bin:/usr/bin", "SLURM_JOB_ID": "12003"}
    done = subprocess.run(["/bin/bash", folder / "job"], cwd=tmp_path / "nothing", env=env, capture_output=True)
    where, odd, *command = map(os.fsdecode, done.stdout.split(b"\0")[:-1])
    assert (done.returncode, done.stderr) == (0, b"")
    assert (where, odd) == (os.path.realpath(folder), "".join(ODD_WORDS))
    name = Path(script).stem.replace("\n", "_")
    assert command == [*RUN.split()[1:], f"{tmp_path}/logs/{name}-12003", "--", f"./{script}", *ODD_WORDS]
    options = [line for line in Path("job").read_bytes().splitlines() if line.startswith(b"#SBATCH")]
    assert len(options) == 6  # and none of those among the words
    assert not list(tmp_path.glob("**/pwned"))


def test_outside_of_a_job_the_script_does_nothing() -> None:
    assert said(*SLURM)[0] == 0
    env = {"PATH": os.environ["PATH"] + ":/bin:/usr/bin"}
    done = subprocess.run(["/bin/bash", "train_dist.sbatch"], env=env, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stdout == ""


@pytest.mark.parametrize("word", ["plain-word_1.py", "a b", "", "ü"])
def test_a_word_without_control_characters_is_quoted_as_shells_show_it(word: str) -> None:
    assert quoted(word) == (word if word == "plain-word_1.py" else f"'{word}'")


def test_a_file_that_differs_is_not_overwritten_unless_told() -> None:
    Path("train_dist.sbatch").write_text("mine\n")
    code, out, err = said(*SLURM)
    assert (code, out) == (2, b"")
    differs = "train_dist.sbatch is there and differs: --force overwrites it, --job-file names another"
    assert err == f"distify: {differs}; nothing was written\n"
    assert Path("train_dist.sbatch").read_text() == "mine\n"
    assert not Path("distify_logs").exists()
    assert said(*SLURM, "--force")[0] == 0
    code, out, err = said(*SLURM)
    assert (code, out) == (0, Path("train_dist.sbatch").read_bytes())
    assert err == "distify: train_dist.sbatch is there already; sbatch train_dist.sbatch hands it in\n"
    assert said(*SLURM, "--job-file", "other")[0] == 0
    assert Path("other").read_bytes() == out
    assert Path("distify_logs/.gitignore").read_text() == "*\n"


def test_nothing_is_written_that_cannot_be_handed_in() -> None:
    code, out, err = said(*SLURM, "--submit")
    assert (code, out) == (2, b"")
    assert err == "distify: --submit: sbatch is not on the PATH; without --submit the file is written\n"
    assert sorted(os.listdir()) == ["nothing", "train_dist.py"]


@pytest.mark.parametrize(
    ("answer", "gpus"), [("(null)", False), ("gpu:a100:4(S:0-1)", True), ("(null)\ngpu:8", True), ("", True)]
)
def test_gpus_are_asked_for_where_slurm_has_some(tmp_path: Path, answer: str, gpus: bool) -> None:
    (tmp_path / "nothing/sinfo").write_text(f"#!/bin/sh\necho '{answer}'\n" if answer else "#!/bin/sh\nexit 1\n")
    (tmp_path / "nothing/sinfo").chmod(0o755)
    code, out, _ = said(*SLURM, "--dry-run")
    assert (code, b"--gpus-per-node=4" in out) == (0, gpus)
    assert b"--gpus-per-node=8" in said(*SLURM, "--dry-run", "--gpus", "8")[1]


def test_a_module_is_started_by_its_name() -> None:
    Path("pkg").mkdir()
    Path("pkg/train.py").write_text("import distify_runtime\n")
    code, out, _ = said(*SLURM, "--dry-run", "-m", script="pkg.train", args=("-x",))
    assert code == 0
    assert out.endswith(b'/train-"$SLURM_JOB_ID" -m -- pkg.train -x\n')
    assert b"--job-name=train\n" in out


K8S = ("--launcher", "k8s", "-np", "8", "--nodes", "2", "--image", "registry/train:1")


def test_a_manifest() -> None:
    given = ("--namespace", "team-a", "--timeout", "90", "--env", "WHAT=$(it) is", "--grace", "20")
    code, out, err = said(*K8S, *given, args=("--epochs", "10"))
    assert (code, out) == (0, Path("train_dist.k8s.yaml").read_bytes())
    command = "kubectl create -f train_dist.k8s.yaml"
    assert err == f"distify: train_dist.k8s.yaml is written; {command} hands it in\n"
    assert not Path("distify_logs").exists()
    text = out.decode()
    head, rest = text.split("    Master:\n")
    master, worker = rest.split("    Worker:\n")
    assert master == worker
    assert head.splitlines() == [
        "# Written by distify run --launcher k8s.",
        'apiVersion: "kubeflow.org/v1"',
        'kind: "PyTorchJob"',
        "metadata:",
        '  name: "train-dist"',
        '  namespace: "team-a"',
        "spec:",
        '  nprocPerNode: "4"',
        "  runPolicy:",
        "    backoffLimit: 0",
        '    cleanPodPolicy: "Running"',
        "    activeDeadlineSeconds: 90",
        "  pytorchReplicaSpecs:",
    ]
    assert re.findall(r'^ {16}- "(.*)"$', master, re.MULTILINE) == [
        *("python", "-m", "distify", "run", "--nnodes", "2", "--node-rank", "$(RANK)"),
        *("--rdzv-endpoint", "$(MASTER_ADDR):$(MASTER_PORT)", "--nproc", "4", "--as-is", "--oversubscribe"),
        *("--grace", "20", "--tee", "all", "--logs", "/tmp/distify_logs", "--", "train_dist.py", "--epochs", "10"),
    ]
    assert '                - name: "WHAT"\n                  value: "$$(it) is"\n' in master
    assert '              resources:\n                limits:\n                  nvidia.com/gpu: "4"\n' in master
    assert "          terminationGracePeriodSeconds: 25\n" in master
    assert '          volumes:\n            - name: "shared-memory"\n              emptyDir:\n' in master


#: Begins at once, without torch's second.
IN_A_POD = """\
import os, sys, time
rank = os.environ["RANK"]
print("given", sys.argv[1:], os.environ["WORLD_SIZE"], flush=True)
open(f"{rank}.has_said_it", "w").close()
if rank == "2":
    while not all(os.path.exists(f"{one}.has_said_it") for one in range(4)):
        time.sleep(0.05)
    raise ValueError("boom")
time.sleep(300)
"""


def as_a_pod_has_it(word: str, told: dict[str, str]) -> str:
    return re.sub(r"\$\$|\$\((\w+)\)", lambda found: told[found[1]] if found[1] else "$", word)


def test_each_pod_says_why_another_has_failed(tmp_path: Path) -> None:
    """What their containers are given, here as two processes that the operator's variables are put into."""
    script = "./-it's $(train) ü.py"
    Path(script).write_text(IN_A_POD)
    words = [word for word in ODD_WORDS if "\udcff" not in word]
    given = ("-np", "4", "--nodes", "2", "--gpus", "0", "--image", "i", "--dry-run", "--as-is")
    code, out, err = said("--launcher", "k8s", *given, "--", script=script, args=tuple(words))
    assert code == 0, err
    command = [json.loads(word) for word in re.findall(r"^ {16}- (\".*\")$", out.decode(), re.MULTILINE)]
    command = command[: len(command) // 2]  # the other half is the same, of the other pod
    port, pods = str(free_port()), []
    for rank in "01":
        told = {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        filled = [as_a_pod_has_it(word, told) for word in command]
        filled[filled.index("/tmp/distify_logs")] = str(tmp_path / f"logs{rank}")
        env = {**os.environ, "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": "", **told}
        pods.append(subprocess.Popen([sys.executable, *filled[1:]], env=env, stdout=PIPE, stderr=PIPE, text=True))
    ended = [pod.communicate(timeout=200) for pod in pods]
    assert [pod.returncode for pod in pods] == [1, 1], ended
    for number, (printed, told_last) in enumerate(ended):
        assert {line for line in printed.splitlines() if "given" in line} == {
            f"[rank{rank}] given {words!r} 4" for rank in (2 * number, 2 * number + 1)
        }
        lines = told_last.splitlines()
        assert any(line.startswith("distify: rank 2 of 4 on ") for line in lines)
        assert lines[-1] == "ValueError: boom"


def test_a_pod_alone_and_without_gpus() -> None:
    code, out, _ = said("--launcher", "k8s", "-np", "2", "--gpus", "0", "--image", "i", "--dry-run")
    assert (code, b"Worker" in out, b"gpu" in out) == (0, False, False)
    assert sorted(os.listdir()) == ["nothing", "train_dist.py"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("train_dist", "train-dist"),
        ("My Train.ü", "my-train-u"),
        ("3d", "train-3d"),
        ("обучение", "train"),
        ("-_-", "train"),
        ("x" * 80, "x" * 50),
        ("x" * 49 + "_y", "x" * 49),
        ("pkg.train", "pkg-train"),
    ],
)
def test_any_name_becomes_one_that_kubernetes_takes(name: str, expected: str) -> None:
    assert job_name(name) == expected
    assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--launcher", "slurm"), "how many ranks is the job to have, on all its nodes together? -np N"),
        (("--launcher", "slurm", "-np", "7", "--nodes", "2"), "as many ranks on each node are wanted, as with -np 6"),
        (("--launcher", "slurm", "-np", "0"), "-np 0 --nodes 1: as many ranks on each node are wanted, as with -np 1"),
        ((*SLURM, "--gpus", "2"), "--gpus 2: each node has 4 ranks, and each of them needs one; or --gpus 0: none"),
        ((*SLURM, "--env", "1A=2"), "--env 1A: a variable's name has letters, digits and _, and no digit first"),
        ((*SLURM, "--sbatch", "gpu"), "'gpu': is no option of sbatch's; as in --sbatch=--partition=gpu"),
        ((*SLURM, "--sbatch=--comment=a\nb"), "is no option of sbatch's"),
        ((*SLURM, "--job-name", "a/b"), "--job-name 'a/b': is no name of a job"),
        ((*SLURM, "--logs", "a\nb"), "Slurm writes into no folder with a backslash or a line break in its name"),
        ((*SLURM, "--job-file", "no/where"), "no/where: cannot be written: there is no folder no"),
        ((*SLURM, "--image", "i"), "--image: slurm cannot follow it; it is for --launcher k8s"),
        ((*SLURM, "--max-restarts", "1"), "--max-restarts: slurm cannot follow it; it is for --launcher torchrun"),
        ((*SLURM, "--grace", "3"), "--grace: slurm cannot follow it"),
        ((*SLURM, "--tee", "all"), "--tee: slurm cannot follow it"),
        (("--launcher", "k8s", "-np", "2"), "--launcher k8s: which image do its pods run? --image NAME"),
        ((*K8S, "--image", "a b"), "--launcher k8s: which image do its pods run? --image NAME"),
        ((*K8S, "--namespace", "Team_A"), "--namespace Team_A: small letters, digits and - are wanted, 63 at most"),
        ((*K8S, "--env", "A=\udcff"), "'\\udcff': is not UTF-8, which is all that Kubernetes can be told"),
        ((*K8S, "--submit"), "--submit: k8s cannot follow it; it is for --launcher slurm"),
        ((*K8S, "--logs", "x"), "--logs: k8s cannot follow it"),
        (("-np", "2", "--nodes", "2"), "--nodes: it is for --launcher slurm or k8s"),
        (("--launcher", "slurms", "-np", "2"), "--launcher slurms: one of auto, processes, torchrun,"),
    ],
)
def test_what_cannot_be_followed_is_one_line(words: tuple[str, ...], message: str) -> None:
    code, out, err = said(*words)
    assert (code, out, err.count("\n")) == (2, b"", 1), err
    assert message in err
    assert sorted(os.listdir()) == ["nothing", "train_dist.py"]


def test_a_script_of_horovods_is_refused() -> None:
    Path("hvd.py").write_text("import horovod.torch as hvd\n")
    code, out, err = said(*SLURM, script="hvd.py")
    assert (code, out) == (2, b"")
    assert err == "distify: hvd.py uses Horovod, whose ranks cannot find each other under slurm\n"
