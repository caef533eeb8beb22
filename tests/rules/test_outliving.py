"""What a rank draws in a turn is its own: where a later turn's loss depends on it, sharded data would go wrong."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, line_of, script

MORE = f"import random\nimport numpy as np\n{IMPORTS}"
LOSS = "nn.functional.mse_loss(model(x), y)"
STATE = """
class State:
    def __init__(self):
        self.weight = 1.0

    def turn(self):
        self.weight = self.weight + torch.randn_like(fixed).mean().item()


fixed = torch.ones(4)
state = State()
"""
CLOSURE = """
def holding():
    held = [1.0]

    def get():
        return held[0]

    def put(number):
        held[0] = number

    return get, put


get, put = holding()
"""
HELPER = "def noise():\n    return torch.randn(4)\n\n\nfixed, last = noise(), torch.zeros(4)\n"


def written(setup: str, loss: str, turn: str, after: str = "") -> str:
    """A script that has a loss of its own, and does something after each step and after each pass."""
    loop = LOOP.replace(LOSS, loss) + "".join(f"        {line}\n" for line in turn.split("\n"))
    loop = loop.replace("    for x", "    total = 0.0\n    for x") + (f"    {after}\n" if after else "")
    return script(imports=MORE, setup=setup, loop=loop)


def links(before: str) -> list[int]:
    conversion = conversion_of(before, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "keeps random numbers" in one.message]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    return [one.place.line for one in found if one.place]


@pytest.mark.parametrize(
    ("setup", "loss", "turn", "after"),
    [
        (
            "scale = 1.0\n",
            f"scale * {LOSS}",
            "total += torch.rand_like(model.weight).mean().item()",
            "scale = total / len(loader)",
        ),
        ("drawn = []\n", f"sum(drawn) * {LOSS}", "drawn.append(sum(random.random() for _ in range(3)))", ""),
        (
            "kept = {'s': 1.0}\n",
            f"kept['s'] * {LOSS}",
            "kept['s'] = kept['s'] * torch.randn_like(model.weight).mean()",
            "",
        ),
        (STATE, f"state.weight * {LOSS}", "state.turn()", ""),
        (CLOSURE, f"get() * {LOSS}", "put(torch.randn_like(model.weight).mean().item())", ""),
        ("w = torch.ones(4)\n", f"{LOSS} * w.mean()", "w.uniform_(0.5, 1.5)", ""),
        ("w = torch.ones(4)\n", f"{LOSS} * w.mean()", "w[1:3] = torch.rand_like(w[1:3])", ""),
        (
            "shift = torch.zeros(4)\n",
            "nn.functional.mse_loss(model(x + shift), y)",
            "shift += torch.randn_like(shift)",
            "",
        ),
    ],
)
def test_draws_that_outlive_their_turn(setup: str, loss: str, turn: str, after: str) -> None:
    before = written(setup, loss, turn, after)
    place = line_of(before, {STATE: "self.weight + ", CLOSURE: "held[0] = number"}.get(setup, f"        {turn}"))
    assert links(before) == [place]


def test_draws_that_a_module_of_another_file_keeps() -> None:
    net = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.hyper = nn.Linear(4, 4)\n        self.w = None\n\n"
        "    def forward(self, x):\n        if self.training:\n            self.w = self.hyper(torch.randn(1, 4))\n"
        "        return x @ self.w.T\n"
    )
    before = script(imports=f"{IMPORTS}from net import Net\n", model="model = Net()\n")
    conversion = conversion_of(before, files={"net.py": net}, options=Options())
    [place] = [one.place for one in conversion.of(Level.ADVICE) if "keeps random numbers" in one.message]
    assert str(place) == "net.py:13"


GAN = """\
generator = nn.Linear(4, 4)
{setup}
more = torch.optim.SGD(generator.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        {turn}
        loss = nn.functional.mse_loss(model(generator(noise)), y)
        more.zero_grad()
        optimizer.zero_grad()
        loss.backward()
        more.step()
        optimizer.step()
"""


def with_noise(setup: str, turn: str) -> str:
    turn = turn.replace("\n", "\n        ")
    return script(imports=MORE, loop=GAN.format(setup=setup, turn=turn))


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        ("noise = torch.FloatTensor(8, 4)", "noise.resize_(len(x), 4).normal_(0, 1)"),
        ("noise = torch.FloatTensor(8, 4)", "noise.resize_(len(x), 4)\nnoise.normal_(0, 1)"),
        ("noise = torch.FloatTensor(8, 4)", "noise.data.resize_as_(x)\nnoise.data.uniform_(-1, 1)"),
        ("noise = torch.FloatTensor(8, 4)", "noise.resize_as_(x).copy_(torch.randn(len(x), 4))"),
        ("noise = torch.zeros(1, 4)", "noise.normal_()\nnoise = noise.expand(len(x), 4)"),
    ],
)
def test_what_is_overwritten_whole_keeps_nothing(setup: str, turn: str) -> None:
    assert links(with_noise(setup, turn)) == []


@pytest.mark.parametrize(
    ("setup", "turn"),
    [
        ("noise = torch.zeros(1, 4)", "if epoch > 0: noise.normal_()"),
        ("noise = torch.zeros(1, 4)", "noise[:, :2].normal_()"),
        ("noise = torch.zeros(1, 4)", "noise.narrow(1, 0, 2).normal_()"),
        ("noise = torch.zeros(1, 4)", "noise.add_(torch.randn_like(noise))"),
        ("noise = torch.zeros(1, 4)", "noise[:, :2].normal_()\nnoise[0].zero_()"),
    ],
)
def test_what_is_overwritten_in_part_or_at_times_keeps_the_rest(setup: str, turn: str) -> None:
    assert links(with_noise(setup, turn)) != []


def test_a_buffer_has_a_row_for_each_sample_that_it_is_given_the_size_of() -> None:
    before = with_noise("noise = torch.FloatTensor(8, 4)", "noise.resize_(len(x), 4).normal_(0, 1)")
    before = before.replace(
        "nn.functional.mse_loss(model(generator(noise)), y)", "model(generator(noise)).pow(2).sum()"
    )
    assert "(loss * rt.world_size()).backward()\n" in converted(before, Options())


def test_a_buffer_of_the_batch_size_is_one_of_a_ranks_share() -> None:
    before = with_noise("noise = torch.FloatTensor(batch_size, 4)", "noise.normal_(0, 1)")
    before = before.replace("batch_size=8", "batch_size=batch_size").replace("\ndata", "\nbatch_size = 8\ndata", 1)
    assert "batch_size = rt.per_rank_batch_size(8)\n" in converted(before, Options())


def test_a_loop_behind_the_one_that_draws() -> None:
    other = LOOP.replace("for epoch in range(3):\n", "").replace(LOSS, f"{LOSS} * w.mean()")
    before = script(imports=MORE, loop=f"{LOOP}        w = torch.rand_like(model.weight)\n{other}")
    assert links(before) == [line_of(before, "w = torch.rand_like")]


@pytest.mark.parametrize(
    ("setup", "loss", "turn"),
    [
        ("", "nn.functional.mse_loss(model(x + torch.randn_like(x)), y)", "pass"),
        (HELPER, "nn.functional.mse_loss(model(x + fixed + noise()), y)", "pass"),
        ("", LOSS, "total += torch.rand(9).mean().item()\nprint(total)"),
        ("own = np.random.RandomState(0)\nw = 1.0\n", f"w * {LOSS}", "w = 1 + own.randn()"),
        ("own = torch.Generator().manual_seed(1)\nw = 1.0\n", f"w * {LOSS}", "w = torch.rand(4, generator=own).mean()"),
        ("fixed = torch.randn(4)\n", "nn.functional.mse_loss(model(x + fixed), y)", "pass"),
        ("fixed = torch.randn(4)\nw = 0.0\n", f"w * {LOSS}", "w = w + fixed.mean()"),
    ],
)
def test_what_is_of_one_batch_or_the_same_on_all_ranks(setup: str, loss: str, turn: str) -> None:
    assert links(written(setup, loss, turn)) == []


@pytest.mark.parametrize(
    "draw",
    ["random.random()", "random.triangular(0, 1, 1)", "np.random.rand()", "np.random.randn()", "np.random.poisson(3)",
     "np.random.uniform(0, 1, size=1)", "torch.rand(1)", "torch.randn(())", "torch.randint(9, (1,))",
     "torch.randint(0, 9, size=(1,))", "torch.rand(1, device=x.device)"],
)  # fmt: skip
def test_one_number_for_a_batch_is_rank_0s(draw: str) -> None:
    before = written("w = 1.0\n", f"w * {LOSS}", f"w = {draw}")
    assert links(before) == []
    assert f"w = rt.from_main_process({draw})\n" in converted(before, Options())


@pytest.mark.parametrize(
    "draw",
    ["torch.rand(2)", "np.random.rand(3)", "torch.randint(9, (2,))", "np.random.poisson(3, size=4)",
     "torch.normal(0.0, 1.0, (width, 3))", "torch.randn(size=(width,))"],
)  # fmt: skip
def test_as_many_numbers_as_no_batch_says_are_rank_0s(draw: str) -> None:
    before = written("width = 5\n", f"{LOSS} * w.mean()", "pass").replace(
        "        loss", f"        w = {draw}\n        loss"
    )
    assert links(before) == []
    assert f"w = rt.from_main_process({draw})\n" in converted(before, Options())


@pytest.mark.parametrize("draw", ["torch.rand(len(x))", "torch.randn_like(x)", "np.random.rand(x.shape[0], 3)"])
def test_what_is_drawn_for_samples_is_a_ranks_own(draw: str) -> None:
    before = written("", f"{LOSS} * w.mean()", "pass").replace("        loss", f"        w = {draw}\n        loss")
    assert links(before) == []
    assert f"w = {draw}\n" in converted(before, Options())


@pytest.mark.parametrize(
    "draw",
    ["torch.randn_like(fixed)", "torch.empty(5, 3).normal_()", "nn.functional.dropout(fixed, 0.5)", "gone(fixed)",
     "torch.bernoulli(torch.full((5, 3), 0.5))", "torch.distributions.Normal(0.0, 1.0).sample((5, 3))",
     "torch.tensor([random.gauss(0, 1) for _ in range(5)])", "torch.randn_like(model.weight)",
     "nn.functional.gumbel_softmax(fixed)", "torch.multinomial(fixed, 2).float()"],
)  # fmt: skip
def test_what_is_drawn_once_for_a_whole_batch_is_not_drawn_by_each_rank(draw: str) -> None:
    setup = "fixed = torch.ones(4)\ngone = nn.Dropout(0.5)\n"
    before = written(setup, f"{LOSS} * w.mean()", "pass").replace("        loss", f"        w = {draw}\n        loss")
    conversion = conversion_of(before, options=Options())
    assert conversion.strategy is Strategy.SHARED
    told = [one.message for one in conversion.of(Level.ADVICE) if one.code == "SHARE01"]
    assert any("is not seen to draw for the samples of a batch: what is drawn once" in one for one in told)


NOISY = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        {line}
        return nn.functional.linear(x * keep, self.out.weight + shift, self.out.bias)


model = Net()
"""


@pytest.mark.parametrize(
    ("line", "strategy"),
    [
        ("keep, shift = 1, torch.randn_like(self.out.weight)", Strategy.SHARED),
        ("keep, shift = 1, torch.randn(1, 4)", Strategy.SHARED),
        ("keep, shift = torch.rand(x.shape[1]) < 0.5, 0", Strategy.SHARED),
        ("keep, shift = 1, nn.functional.dropout(self.out.weight, 0.5, self.training)", Strategy.SHARED),
        ("keep, shift = 1, nn.Dropout(0.5)(self.out.weight)", Strategy.SHARED),
        ("keep, shift = torch.rand(x.shape[0], 1) < 0.5, 0", Strategy.SHARDED),
        ("keep, shift = x.new_empty((len(x),) + (1,) * (x.dim() - 1)).bernoulli_(0.5), 0", Strategy.SHARDED),
        ("keep, shift = nn.functional.dropout(torch.ones_like(x), 0.5, self.training), 0", Strategy.SHARDED),
    ],
)
def test_noise_of_weights_is_one_draw_for_a_batch_and_that_of_samples_is_not(line: str, strategy: Strategy) -> None:
    before = script(model=NOISY.format(line=line))
    assert conversion_of(before, options=Options()).strategy is strategy


PARAMETRIZED = """\
class Shape(nn.Module):
    def forward(self, w):
        return {given}


model = nn.Linear(4, 1)
nn.utils.parametrize.register_parametrization(model, "weight", Shape())
"""


@pytest.mark.parametrize(
    ("given", "strategy"), [("w + torch.randn_like(w)", Strategy.SHARED), ("w * 2", Strategy.SHARDED)]
)
def test_noise_that_a_parametrization_draws(given: str, strategy: Strategy) -> None:
    imports = f"{MORE}from torch.nn.utils import parametrize\n"
    before = script(imports=imports, model=PARAMETRIZED.format(given=given))
    assert conversion_of(before, options=Options()).strategy is strategy


def test_what_a_helper_draws_for_a_whole_batch_is_rank_zeros() -> None:
    """It is the same on all ranks, however long it is kept."""
    before = written(HELPER, "nn.functional.mse_loss(model(x + fixed + last), y)", "last = noise()")
    assert links(before) == []
    assert "    return rt.from_main_process(torch.randn(4))\n" in converted(before, Options())
