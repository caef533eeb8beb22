"""`squeeze()` of what a rank has a share of: one sample keeps its dimension."""

from __future__ import annotations

import pytest
from distify_codemods import Options

from tests.rules.scripts import IMPORTS, changes, converted, script

MODEL = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.memory = nn.GRU(4, 4, batch_first=True)

    def forward(self, x):
        {forward}


model = Net()
"""
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss({loss}, y.squeeze(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("loss", "after"),
    [
        ("model(x).squeeze()", "rt.squeeze(model(x))"),
        ("torch.squeeze(model(x))", "rt.squeeze(model(x))"),
        ("torch.squeeze(input=model(x))", "rt.squeeze(model(x))"),
        ("torch.sigmoid(model(x).squeeze()) * 2", "torch.sigmoid(rt.squeeze(model(x))) * 2"),
        ("model(x)[:, 0:1].squeeze()", "rt.squeeze(model(x)[:, 0:1])"),
    ],
)
def test_of_outputs(loss: str, after: str) -> None:
    assert LOOP.format(loss=after).splitlines()[2] in converted(script(loop=LOOP.format(loss=loss))).splitlines()


@pytest.mark.parametrize(
    ("forward", "after"),
    [
        ("return self.layer(x).squeeze()", "return rt.squeeze(self.layer(x))"),
        ("return self.layer(self.memory(x.unsqueeze(1))[1].squeeze()).squeeze(1)",
         "return self.layer(rt.squeeze(self.memory(x.unsqueeze(1))[1], dim=1)).squeeze(1)"),
    ],
)  # fmt: skip
def test_inside_the_model(forward: str, after: str) -> None:
    before = script(imports=IMPORTS, model=MODEL.format(forward=forward), loop=LOOP.format(loss="model(x)"))
    assert after in converted(before)


@pytest.mark.parametrize(
    "loss",
    [
        "model(x).squeeze(1)",
        "model(x).squeeze(dim=-1)",
        "torch.squeeze(model(x), 1)",
        "model(x).flatten()",
        "model(x).squeeze(1).mean().squeeze() * 1 + 0 * model(x).squeeze(1)",
    ],
)
def test_what_names_the_dimension_and_what_is_no_batch_is_left_alone(loss: str) -> None:
    assert changes("BATCH01", script(loop=LOOP.format(loss=loss))) == []


@pytest.mark.parametrize(("size", "keeps"), [("8", True), ("1", False), ("int(input())", False)])
def test_in_evaluation(size: str, keeps: bool) -> None:
    """Batches of one sample have had no dimension there in the original, either: nor where that may be so."""
    after = """\
model.eval()
right = 0
with torch.no_grad():
    for x, y in tested:
        right += (model(x).squeeze() > 0).sum().item()
print(right / len(tested.dataset))
"""
    loader = f"tested = DataLoader(TensorDataset(torch.randn(17, 4), torch.randn(17, 1)), batch_size={size})\n"
    new = converted(script(setup=loader, loop=LOOP.format(loss="model(x).squeeze(1)"), after=after))
    assert ("rt.squeeze(model.module(x))" in new) is keeps


def test_where_forward_passes_are_shared_it_stays() -> None:
    """All see whole batches."""
    before = script(loop=LOOP.format(loss="model(x).squeeze()"))
    assert "rt.squeeze" not in converted(before, Options(strategy="shared"))


SAMPLES = """\
for epoch in range(3):
    for x, y in loader:
        out = model(x)
        loss = nn.functional.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
"""
SHOWN = """\
def shown(picture):
    return picture.squeeze()


"""


@pytest.mark.parametrize(
    "line",
    [
        "print(x[0].squeeze())",
        "print(torch.squeeze(x[0]))",
        "print(out[0].detach().cpu().squeeze())",
        "print((x[0] - y[0]).squeeze())",
        "print(out[0][None].squeeze())",
        "picture = x[0]; print(picture.squeeze())",
        "for row, label in zip(x, y): print(row.squeeze(), label.squeeze())",
        "for i in range(len(x)): print(x[i].squeeze())",
        "print(shown(x[0]), shown(out[1].detach()))",
    ],
)
def test_of_one_sample_of_a_batch(line: str) -> None:
    """Its first dimension is none of samples: `x[0]` has the same form in a share as in the batch."""
    before = script(imports=IMPORTS + SHOWN, loop=SAMPLES.format(line=line))
    assert "rt.squeeze" not in converted(before)


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("print((x - x[0]).squeeze())", "rt.squeeze((x - x[0]))"),
        ("picture = x[0] if epoch else x; print(picture.squeeze())", "rt.squeeze(picture)"),
        ("picture, label = x, y[0]; print(picture.squeeze())", "rt.squeeze(picture)"),
        ("print(shown(x[0]), shown(x))", "rt.squeeze(picture)"),
    ],
)
def test_of_more_than_one_sample(line: str, after: str) -> None:
    assert after in converted(script(imports=IMPORTS + SHOWN, loop=SAMPLES.format(line=line)))
