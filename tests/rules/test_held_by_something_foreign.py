"""A module that something of an unknown library holds: `wrapper.model`, which the script trains and calls itself."""

from __future__ import annotations

import pytest
from distify_codemods import Options, Outcome, Said

from tests.rules.scripts import DATA, IMPORTS, LOADER, LOOP, conversion_of, converted

AUTO = Options()
MADE = "from somewhere import Classifier\n"
WRAPPER = "wrapper = Classifier()\n"
OPTIMIZER = "optimizer = torch.optim.SGD(wrapper.model.parameters(), lr=0.1)\n"


def training(held: str = "", call: str = "wrapper.model(x)", optimizer: str = OPTIMIZER, wrapper: str = WRAPPER) -> str:
    loop = LOOP.replace("model(x)", call)
    return f"{IMPORTS}{MADE}\n{DATA}{LOADER}{wrapper}{held}{optimizer}{loop}"


@pytest.mark.parametrize(
    "held",
    [
        "",
        "wrapper.model.to('cuda')\n",
        "wrapper.model = wrapper.model.to('cuda')\n",
        "wrapper.model = wrapper.model.to('cuda').train()\n",
        "wrapper.model.train()\n",
    ],
)
def test_the_module_is_shared_and_not_what_holds_it(held: str) -> None:
    after = converted(training(held), AUTO)
    assert "rt.data_parallel(wrapper.model)\n" in after


def test_where_it_comes_from_a_function() -> None:
    build = "def build():\n    made = Classifier()\n    made.model = made.model.to('cuda')\n    return made\n\n\n"
    after = converted(training(wrapper=f"{build}wrapper = build()\n"), AUTO)
    assert "rt.data_parallel(wrapper.model)\n" in after


def test_a_method_is_one_of_what_has_it() -> None:
    after = converted(training(call="wrapper.classify(x)"), AUTO)
    assert 'rt.data_parallel(wrapper, methods=("classify",))' in after


@pytest.mark.parametrize("call", ["wrapper(x)", "wrapper.model(x) + wrapper(x)"])
def test_what_is_called_itself_is_the_model(call: str) -> None:
    """Parts of it are trained, or called as well."""
    after = converted(training(call=call), AUTO)
    assert "rt.data_parallel(wrapper)\n" in after or "rt.data_parallel(wrapper, " in after


def test_parts_of_what_is_known_stay_parts() -> None:
    imports = f"{IMPORTS}import torchvision\n"
    optimizer = "optimizer = torch.optim.SGD(model.fc.parameters(), lr=0.1)\n"
    before = f"{imports}\n{DATA}{LOADER}model = torchvision.models.resnet18()\n{optimizer}{LOOP}"
    assert "model = DistributedDataParallel(model, " in converted(before)


def test_the_user_is_believed() -> None:
    before = training("wrapper.model = wrapper.model.to('cuda')\n")
    options = Options(models=(Said("wrapper.model", "--model"),))
    assert conversion_of(before, options=options).outcome is Outcome.CONVERTED


def test_by_shares_of_the_samples() -> None:
    """Its weights are sent to all ranks, and nobody else's."""
    after = converted(training())
    assert "rt.broadcast_parameters(wrapper.model)\n" in after
    assert "rt.all_reduce_gradients(optimizer)\n" in after


@pytest.mark.parametrize(
    "read",
    [
        "torch.randint_like(y, wrapper.model.config.high)",
        "torch.full_like(y, wrapper.model.config['scale'])",
        "nn.functional.relu(wrapper.model.head.bias).sum()",
        "int(wrapper.model.config.size)",
    ],
)
def test_what_is_only_read_of_it_in_training_changes_nothing(read: str) -> None:
    before = training().replace("        loss = ", f"        y = y + {read}\n        loss = ")
    assert "rt.data_parallel(wrapper.model)\n" in converted(before, AUTO)


@pytest.mark.parametrize(
    "changes",
    [
        "nn.init.zeros_(wrapper.model.head.bias)\n",
        "torch.relu_(wrapper.model.head.bias)\n",
        "torch.add(wrapper.model.head.bias, 1, out=wrapper.model.head.bias)\n",
        "torch.compile(wrapper.model.head)\n",
    ],
)
def test_it_is_shared_behind_what_changes_it(changes: str) -> None:
    after = converted(training(held=changes), AUTO)
    assert after.index(changes) < after.index("rt.data_parallel(wrapper.model)\n")
