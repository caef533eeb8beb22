"""MODEL02: BatchNorm sees the global batch."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import (
    IMPORTS,
    LOOP,
    OPTIMIZER,
    SHUFFLED,
    WRAP,
    blocked,
    changes,
    converted,
    distributed,
    line_of,
    script,
)

SYNC = "model = rt.convert_sync_batchnorm(model)\n"


@pytest.mark.parametrize(
    "model",
    [
        "model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))\n",
        "model = nn.Sequential(\n    nn.Linear(4, 8),\n    nn.BatchNorm1d(8),  # here\n    nn.Linear(8, 1),\n)\n",
        "norm = nn.BatchNorm1d\nmodel = nn.Sequential(nn.Linear(4, 8), norm(8), nn.Linear(8, 1))\n",
        "def block(norm=nn.BatchNorm1d):\n    return [nn.Linear(4, 8), norm(8), nn.Linear(8, 1)]\n\n\n"
        "model = nn.Sequential(*block())\n",
        "model = nn.Sequential(nn.Linear(4, 8), nn.LazyBatchNorm1d(), nn.Linear(8, 1))\n",
        "class Own(nn.BatchNorm1d):\n    pass\n\n\nmodel = nn.Sequential(nn.Linear(4, 8), Own(8), nn.Linear(8, 1))\n",
    ],
)
def test_right_before_the_wrap(model: str) -> None:
    assert converted(script(model=model)) == distributed(model=model, wrap=SYNC + WRAP)


def test_inside_a_module() -> None:
    model = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.norm(x))


model = Net().to("cpu")
"""
    assert converted(script(model=model)) == distributed(model=model, wrap=SYNC + WRAP)


def test_library_that_may_have_some() -> None:
    imports = f"{IMPORTS}import torchvision\n"
    model = "model = torchvision.models.resnet18()\n"
    before = script(imports=imports, model=model)
    assert converted(before) == distributed(imports=imports, model=model, wrap=SYNC + WRAP)


TRUNK = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = {trunk}
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        return self.out({call})


model = Net()
"""


@pytest.mark.parametrize(
    "trunk",
    [
        "torchvision.models.resnet18().layer1",
        "torchvision.models.resnet18().layer1.conv2",
        "torchvision.models.vgg16_bn().features[:7]",
        "torchvision.models.resnet18().layer1[0].bn1",
        "built[0].block",
    ],
)
def test_part_of_a_librarys_model(trunk: str) -> None:
    imports = f"{IMPORTS}import torchvision\n\nbuilt = torchvision.models.resnet18().layer1\n"
    model = TRUNK.format(trunk=trunk, call="self.trunk(x)")
    assert SYNC in converted(script(imports=imports, model=model))


@pytest.mark.parametrize("trunk", ["nn.Sequential(nn.Linear(4, 4), nn.ReLU())[0]", "nn.functional.relu", '" ".join'])
def test_part_of_what_is_known_has_none(trunk: str) -> None:
    model = TRUNK.format(trunk=trunk, call="x" if "join" in trunk else "self.trunk(x)")
    assert changes("MODEL02", script(model=model)) == []


def test_only_the_model_that_has_it() -> None:
    model = """\
first = nn.Linear(4, 8)
second = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 1))
"""
    optimizer = "optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)\n"
    loop = LOOP.replace("model(x)", "second(first(x))")
    after = converted(script(model=model, optimizer=optimizer, loop=loop))
    assert "second = rt.convert_sync_batchnorm(second)\n" in after
    assert after.count("convert_sync_batchnorm") == 1


def test_one_statement_before_a_wrap_inside_a_function() -> None:
    model = """\
def build():
    return nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))


def main():
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(model, optimizer)


def fit(model, optimizer):
"""
    body = "".join(f"    {line}" for line in LOOP.splitlines(keepends=True))
    after = converted(script(model=model + body, optimizer="\n\n", loop="main()\n"))
    assert f"    model = build()\n    {SYNC}    {WRAP}" in after


@pytest.mark.parametrize(
    "model",
    [
        pytest.param("model = nn.Linear(4, 1)\n", id="none"),
        pytest.param("model = nn.Sequential(nn.Linear(4, 8), nn.GroupNorm(2, 8), nn.Linear(8, 1))\n", id="GroupNorm"),
        pytest.param("model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 1))\n", id="LayerNorm"),
        pytest.param(
            "class BatchNorm1d(nn.Module):\n    def forward(self, x):\n        return x\n\n\n"
            "model = nn.Sequential(BatchNorm1d(), nn.Linear(4, 1))\n",
            id="own class of that name",
        ),
        pytest.param(
            "class Spare(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.norm = nn.BatchNorm1d(3)\n\n\nmodel = nn.Linear(4, 1)\n",
            id="class that is never used",
        ),
        pytest.param("names = {'BatchNorm1d': 1}\nmodel = nn.Linear(4, 1)\n", id="text"),
    ],
)
def test_left_alone(model: str) -> None:
    assert changes("MODEL02", script(model=model)) == []
    assert converted(script(model=model)) == distributed(model=model)


def test_forward_of_its_own() -> None:
    model = """\
class Norm(nn.BatchNorm1d):
    def forward(self, x):
        return x - x.mean(0)


model = nn.Sequential(Norm(4), nn.Linear(4, 1))
"""
    before = script(model=model)
    assert ("MODEL02", line_of(before, "Norm(4)")) in blocked(before)


TEACHER = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), teacher(x).detach())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
NORMED = "model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))\n"


@pytest.mark.parametrize("copied", ["copy.deepcopy(model)", "nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))"])
def test_models_that_training_only_calls(copied: str) -> None:
    """In training mode their statistics are a part of the loss; nothing else is done to them."""
    before = script(imports="import copy\n" + IMPORTS, model=f"{NORMED}teacher = {copied}\n", loop=TEACHER)
    after = converted(before)
    assert after.count("rt.convert_sync_batchnorm(teacher)\n") == 1
    assert "teacher = DistributedDataParallel" not in after


def test_parts_of_a_copy_that_training_only_calls() -> None:
    model = "net = zoo.build()\nmodel = nn.Linear(4, 1)\nparts = [one for one in copy.deepcopy(net).children()]\n"
    loop = TEACHER.replace("teacher(x)", "parts[0](x)")
    after = converted(script(imports="import copy\nimport zoo\n" + IMPORTS, model=model, loop=loop))
    assert after.count("rt.convert_sync_batchnorm(parts)\n") == 1


def test_models_that_training_calls_in_evaluation_mode() -> None:
    model = f"{NORMED}teacher = copy.deepcopy(model)\nteacher.eval()\n"
    after = converted(script(imports="import copy\n" + IMPORTS, model=model, loop=TEACHER))
    assert "convert_sync_batchnorm(teacher" not in after


def test_models_that_training_may_call_in_evaluation_mode() -> None:
    model = f"{NORMED}teacher = copy.deepcopy(model)\nif len(sys.argv) > 1:\n    teacher.eval()\n"
    after = converted(script(imports="import copy\nimport sys\n" + IMPORTS, model=model, loop=TEACHER))
    assert after.count("rt.convert_sync_batchnorm(teacher)\n") == 1


def test_order() -> None:
    """Converted before it is wrapped, both before the optimizer's first step."""
    model = "model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))\n"
    after = converted(script(model=model, optimizer=OPTIMIZER, loop=LOOP))
    assert after.index("model = nn.Seq") < after.index(SYNC) < after.index(WRAP) < after.index(SHUFFLED)


SIZED = """\
class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.body, self.out = nn.Linear(4, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x))


settings = {read}
"""


@pytest.mark.parametrize("read", ['json.load(open("a.json"))', 'yaml.safe_load(open("a.yaml"))'])
@pytest.mark.parametrize("given", ['settings["width"]', "**settings"])
def test_a_number_out_of_a_file_is_no_layer(read: str, given: str) -> None:
    imports = f"import json\nimport yaml\n{IMPORTS}"
    model = SIZED.replace("{read}", read) + f"model = Net({given})\n"
    assert "sync_batchnorm" not in converted(script(imports=imports, model=model))


def test_what_a_setting_names_may_be_one() -> None:
    imports = f"import hydra\nimport json\n{IMPORTS}"
    model = 'model = hydra.utils.instantiate(json.load(open("a.json")))\n'
    assert SYNC in converted(script(imports=imports, model=model))


def test_what_a_base_that_is_not_known_has_is_not_seen() -> None:
    model = "class Net(Base):\n    def forward(self, x):\n        return self.body(x)\n\n\nmodel = Net(4, 1)\n"
    before = script(imports=f"{IMPORTS}from elsewhere import Base\n", model=model)
    assert f"{SYNC}{WRAP}" in converted(before, Options(strategy="sharded"))


def test_parts_of_a_model_that_a_hub_loads_may_have_it() -> None:
    made = "nn.Sequential(trunk.conv1, trunk.bn1, nn.Flatten(), nn.Linear(4, 1))"
    model = f'trunk = torch.hub.load("repository", "resnet18")\nmodel = {made}\n'
    assert "model = rt.convert_sync_batchnorm(model)" in converted(script(model=model))
