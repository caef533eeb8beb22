"""Things of libraries under any of their names: what is known of them holds for each."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from types import ModuleType

import pytest
from distify_codemods.libraries import spelling, torch_nn
from torch import nn

from tests.rules.scripts import IMPORTS, WRAP, converted, distributed, script

SYNC = "model = rt.convert_sync_batchnorm(model)\n"
EPOCH = "    for x, y in loader"


def _thing(name: str) -> object:
    """What Python finds under a full name."""
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:size]))
            for part in parts[size:]:
                found = getattr(found, part)
        except (ImportError, AttributeError):
            continue
        return found
    return None


def _files(package: ModuleType) -> list[ModuleType]:
    found = [package]
    for one in pkgutil.iter_modules(package.__path__):
        if not one.name.startswith("_"):
            found.append(importlib.import_module(f"{package.__name__}.{one.name}"))
    return found


@pytest.mark.parametrize(
    "package",
    ["torch.nn", "torch.nn.modules", "torch.nn.parallel", "torch.optim", "torch.utils.data", "torch.autograd"],
)
def test_the_usual_name_is_one_of_the_same_thing(package: str) -> None:
    renamed = 0
    for file in _files(importlib.import_module(package)):
        for own, thing in vars(file).items():
            name = f"{file.__name__}.{own}"
            usual = spelling.usual(name)
            if usual != name and not inspect.ismodule(thing) and getattr(thing, "__module__", "").startswith("torch"):
                assert _thing(usual) in (thing, None), name
                renamed += _thing(usual) is thing
    assert renamed


@pytest.mark.parametrize("name", ["_pickle.load", "cPickle.load"])
def test_pickle_by_its_other_names(name: str) -> None:
    assert spelling.usual(name) == "pickle.load"


@pytest.mark.parametrize(
    "name", ["torch.optim.lr_scheduler.StepLR", "torch.optim.swa_utils.SWALR", "tqdm.contrib.tzip"]
)
def test_what_has_no_other_name(name: str) -> None:
    assert spelling.usual(name) == name


#: Containers have what they hold, and the lazy ones lose what they have, unless they are told to keep it.
_LEFT_OUT = {*vars(nn.modules.container), *(f"LazyInstanceNorm{size}d" for size in (1, 2, 3))}


def test_layers_with_parameters_are_those_of_torch() -> None:
    """Each that can be made of a few numbers, and has them before it is called."""
    made = 0
    for name, cls in vars(nn).items():
        if not inspect.isclass(cls) or not issubclass(cls, nn.Module) or name in _LEFT_OUT:
            continue
        for arguments in ((), (4,), (4, 4), (4, 4, 4), (4, 4, 4, 4), (4, 4, [2])):
            try:
                layer = cls(*arguments)
            except (TypeError, ValueError, AssertionError, RuntimeError, FutureWarning, UserWarning):
                continue
            has = any(True for _ in layer.parameters())
            assert torch_nn.has_parameters(f"torch.nn.{name}") or not has, name
            assert not torch_nn.has_none(f"torch.nn.{name}") or not has, name
            assert not torch_nn.draws_weights(f"torch.nn.{name}") or has, name
            made += 1
            break
    assert made > 100


def test_all_of_torchs_batchnorms_are_known() -> None:
    own = {f"torch.nn.{name}" for name, one in vars(nn).items() if inspect.isclass(one) and _is_batchnorm(one)}
    assert own - {"torch.nn.SyncBatchNorm"} == set(torch_nn.BATCHNORMS) - {"torch.nn._BatchNorm"}


def _is_batchnorm(cls: type) -> bool:
    return issubclass(cls, nn.modules.batchnorm._BatchNorm) and not issubclass(
        cls, nn.modules.instancenorm._InstanceNorm
    )


@pytest.mark.parametrize(
    ("imports", "layer"),
    [
        ("from torch.nn.modules.batchnorm import BatchNorm1d\n", "BatchNorm1d(8)"),
        ("from torch.nn.modules import BatchNorm1d\n", "BatchNorm1d(8)"),
        ("", "nn.modules.batchnorm.BatchNorm1d(8)"),
        ("", "nn.LazyBatchNorm3d()"),
    ],
)
def test_batchnorm_by_any_name_sees_the_global_batch(imports: str, layer: str) -> None:
    imports, model = IMPORTS + imports, f"model = nn.Sequential(nn.Linear(4, 8), {layer}, nn.Linear(8, 1))\n"
    before = script(imports=imports, model=model)
    assert converted(before) == distributed(imports=imports, model=model, wrap=SYNC + WRAP)


@pytest.mark.parametrize("model", ['torch.hub.load("pytorch/vision", "resnet18")', 'torch.load("model.pt")'])
def test_a_model_that_was_read_may_have_batchnorm(model: str) -> None:
    assert SYNC in converted(script(model=f"model = {model}\n"))


@pytest.mark.parametrize(
    "layer", ["nn.modules.normalization.LayerNorm(8)", "nn.InstanceNorm1d(8)", "nn.SyncBatchNorm(8)"]
)
def test_other_norms_stay_as_they_are(layer: str) -> None:
    model = f"model = nn.Sequential(nn.Linear(4, 8), {layer}, nn.Linear(8, 1))\n"
    assert converted(script(model=model)) == distributed(model=model)


@pytest.mark.parametrize(
    ("imports", "seed"),
    [
        ("", "torch.cuda.manual_seed(epoch)"),
        ("", "torch.cuda.manual_seed_all(epoch)"),
        ("", "torch.random.manual_seed(epoch)"),
        ("from transformers.trainer_utils import set_seed\n", "set_seed(epoch)"),
        ("from transformers import enable_full_determinism\n", "enable_full_determinism(epoch)"),
        ("from lightning.fabric import seed_everything\n", "seed_everything(epoch)"),
        ("from accelerate.utils.random import set_seed\n", "set_seed(epoch)"),
    ],
)
def test_ranks_draw_apart_after_a_seed_by_any_name(imports: str, seed: str) -> None:
    after = converted(script(imports=IMPORTS + imports).replace(EPOCH, f"    {seed}\n{EPOCH}"))
    assert f"    {seed}\n    rt.seed_ranks_apart()\n" in after


@pytest.mark.parametrize("call", ["torch.cuda.synchronize()", "torch.cuda.initial_seed()", "torch.get_rng_state()"])
def test_what_sets_no_seed(call: str) -> None:
    after = converted(script().replace(EPOCH, f"    {call}\n{EPOCH}"))
    assert f"    {call}\n    loader.sampler.set_epoch(epoch)\n" in after


@pytest.mark.parametrize(
    ("source", "name"),
    [("tqdm.std", "tqdm"), ("tqdm.autonotebook", "tqdm"), ("tqdm.rich", "tqdm"), ("tqdm", "tqdm_notebook")],
)
def test_a_bar_by_any_name_hands_on_batches(source: str, name: str) -> None:
    before = script(imports=f"{IMPORTS}from {source} import {name}\n").replace("in loader:", f"in {name}(loader):")
    assert f"in {name}(loader, disable=not rt.is_main_process()):" in converted(before)
