"""GRAD01, OTHER01: tensors of no module are trained where it is seen what they are."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Outcome, Strategy

from tests.rules.scripts import conversion_of, converted, script

TENSORS = "w = torch.zeros(4, 1, requires_grad=True)\nb = torch.randn(1, requires_grad=True)\n"
LOOP = """\
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(x @ w + b, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    "given",
    [
        "[w, b]",
        "(w, b)",
        "params=[w, b]",
        "[nn.Parameter(w), nn.Parameter(b)]",
        "tuple([w, b])",
        "[{'params': [w]}, {'params': b, 'lr': 0.2}]",
    ],
)
def test_what_an_optimizer_is_given_as_tensors(given: str) -> None:
    text = converted(script(model=TENSORS, optimizer=f"optimizer = torch.optim.SGD({given}, lr=0.1)\n", loop=LOOP))
    assert "optimizer = torch.optim.SGD(" in text
    assert text.index("rt.broadcast_parameters(optimizer)\n") < text.index("for epoch")
    assert "        rt.all_reduce_gradients(optimizer)\n        optimizer.step()\n" in text
    assert "DistributedDataParallel" not in text


@pytest.mark.parametrize(
    ("model", "given"),
    [
        ("import strange\nw, b = strange.made()\n", "[w, b]"),
        (TENSORS + "import strange\n", "strange.of(w, b)"),
        (TENSORS + "import strange\nnet = strange.Net()\n", "[w, *net.weights]"),
        (TENSORS + "import strange\n", "[{'params': strange.of(w)}, {'params': [b]}]"),
    ],
)
def test_what_may_be_something_else_is_left_to_a_person(model: str, given: str) -> None:
    conversion = conversion_of(
        script(model=model, optimizer=f"optimizer = torch.optim.SGD({given}, lr=0.1)\n", loop=LOOP)
    )
    assert conversion.outcome is Outcome.REFUSED
    assert any(one.code == "OTHER01" for one in conversion.of(Level.BLOCKING))


def test_what_is_made_of_a_batch_is_a_ranks_own() -> None:
    """A gradient by samples, of which each rank has others, must not be averaged."""
    attack = """\
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        moved = x.clone().requires_grad_()
        attacker = torch.optim.SGD([moved], lr=0.1)
        nn.functional.mse_loss(model(moved), y).backward()
        attacker.step()
        loss = nn.functional.mse_loss(model(moved.detach()), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    conversion = conversion_of(script(model="", optimizer="", loop=attack), strategy="auto")
    assert conversion.strategy is Strategy.SHARED
    assert b"all_reduce_gradients" not in conversion.files[0].after
