"""`distify run --launcher spark` and `--launcher ray`, as far as that goes without them: what they would be told."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner
from distify_runtime.launch import LaunchError, Spark, ray_of, spark_of

from distify.cli import cli


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    Path("train_dist.py").write_text("import distify_runtime\n")


def said(*words: str) -> tuple[int, str, str]:
    ended = CliRunner().invoke(cli, ["run", *words, "train_dist.py", "a 'b' $c", "--m", "1"], prog_name="distify")
    return ended.exit_code, ended.stdout, ended.stderr


def program(*words: str) -> tuple[list[str], str]:
    """What `--dry-run` says: the words in front of the program, and the program."""
    code, out, err = said("--dry-run", *words)
    assert (code, err) == (0, "")
    *before, text = shlex.split(out)
    ast.parse(text)
    return before, text


def test_spark_on_this_machine() -> None:
    before, text = program("--launcher", "spark", "-np", "2")
    assert before[-1] == "-c"
    assert "GLOO_SOCKET_IFNAME=lo" in " ".join(before)
    assert '.config("spark.master", "local[1]")' in text
    assert "TorchDistributor(num_processes=2, local_mode=True, use_gpu=False)" in text
    assert '.run("--", "train_dist.py", "a \'b\' $c", "--m", "1")' in text


def test_a_cluster_of_sparks() -> None:
    given = ("--master", "spark://one:7077", "--conf", "spark.executor.memory=2g", "--env", "WHAT=it is")
    before, text = program("--launcher", "spark", "-np", "64", *given)
    assert "GLOO_SOCKET_IFNAME" not in " ".join(before)  # the driver's network is not theirs
    assert "num_processes=64, local_mode=False, use_gpu=False" in text
    assert '.config("spark.master", "spark://one:7077")' in text
    assert '.config("spark.executor.memory", "2g")' in text
    assert '.config("spark.executorEnv.WHAT", "it is")' in text
    assert str(Path("train_dist.py").resolve()) in text


def test_sparks_own_configuration_names_its_cluster() -> None:
    Path("spark-defaults.conf").write_text("# ours\nspark.master  spark://two:7077\nspark.task.resource.gpu.amount=1\n")
    assert spark_of(None, (), 2, {"SPARK_CONF_DIR": "."}).master == "spark://two:7077"
    assert spark_of(None, (), 2, {"SPARK_CONF_DIR": "."}).uses_gpus
    assert spark_of("spark://one:7077", (), 2, {"SPARK_CONF_DIR": "."}).master == "spark://one:7077"


@pytest.mark.parametrize("master", [None, "local", "local[4]", "local[*,3]"])
def test_fewer_than_no_ranks_are_on_this_machine(master: str | None) -> None:
    Path("spark-defaults.conf").write_text("spark.master  spark://two:7077\n")
    assert not spark_of(master, (), -2, {"SPARK_CONF_DIR": "."}).master
    if master is None:
        assert "num_processes=2, local_mode=True" in program("--launcher", "spark", "-np", "-2")[1]


def test_what_runs_on_this_machine_and_is_a_cluster() -> None:
    assert spark_of("local-cluster[2,1,1024]", (), 2, {}) == Spark("local-cluster[2,1,1024]")


def test_ray() -> None:
    before, text = program("--launcher", "ray", "-np", "2", "--env", "WHAT=it is")
    assert "GLOO_SOCKET_IFNAME" not in " ".join(before)
    assert "ray.init(num_cpus=3)" in text
    assert '"train_dist.py", "a \'b\' $c", "--m", "1"]' in text
    assert '"WHAT": "it is"' in text
    assert 'ray.init("one:6379")' in program("--launcher", "ray", "-np", "2", "--address", "one:6379")[1]


def test_rays_own_variable_names_its_cluster() -> None:
    assert ray_of(None, {"RAY_ADDRESS": "one:6379"}, lambda _: 0).address == "one:6379"
    assert not ray_of("local", {"RAY_ADDRESS": "one:6379"}, lambda _: 0).address
    assert ray_of(None, {}, lambda _: 2).gpus
    with pytest.raises(LaunchError, match="HOST:PORT"):
        ray_of("ray://one:10001", {}, lambda _: 0)


SPARK = ("--launcher", "spark")
FAR = ("--master", "spark://one:7077")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*SPARK, "-np", "2", "--conf", "memory=2g"), "--conf memory: spark.NAME=VALUE is wanted"),
        ((*SPARK, "-np", "-2", *FAR), "-np -2 starts ranks on this machine, without a cluster: leave out --master"),
        ((*SPARK, "-np", "0"), "-np 0: at least one rank is needed"),
        ((*SPARK, "-np", "2", "--master", "sc://one"), "--master sc://one: Spark Connect"),
        ((*SPARK, *FAR), "how many ranks are to be started on the cluster of spark's? -np N"),
        ((*SPARK, "-np", "2", "--address", "auto"), "--address: spark cannot follow it; it is for --launcher ray"),
        ((*SPARK, "-np", "2", "--max-restarts", "1"), "--max-restarts: spark cannot follow it"),
        (("-np", "-2"), "-np -2: at least one rank is needed"),
        (
            ("--launcher", "ray", "-np", "2", "--address", "here"),
            "--address here: HOST:PORT of a Ray cluster is wanted",
        ),
    ],
)
def test_what_cannot_be_followed_is_one_line(words: tuple[str, ...], message: str) -> None:
    code, out, err = said("--dry-run", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
