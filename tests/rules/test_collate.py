"""Sharded data where samples are seen to lie along the first dimension of a batch, whatever puts them together."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome, Strategy

from tests.rules.scripts import IMPORTS, LOADER, LOOP, MODEL, conversion_of, converted, line_of, script

TOOLS = (
    f"{IMPORTS}import functools\nimport random\nimport numpy as np\nimport transformers\nimport strange\n"
    "from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence\n"
    "from torch.utils.data import default_collate\n\n"
)
OWN = LOADER.replace("shuffle=True", "shuffle=True, collate_fn={given}")


def messages(setup: str, given: str = "collate", loop: str = LOOP, model: str = MODEL) -> list[str]:
    """What stands in the way of sharded data, at the loader."""
    before = script(imports=TOOLS, setup=f"{setup}\n\n", loader=OWN.format(given=given), model=model, loop=loop)
    conversion = conversion_of(before, options=Options())
    assert conversion.outcome is Outcome.CONVERTED
    found = [one for one in conversion.of(Level.ADVICE) if one.code == "SHARE01" and one.message.startswith("sharded")]
    assert (conversion.strategy is Strategy.SHARED) is bool(found)
    assert all(one.place and one.place.line == line_of(before, "loader = DataLoader") for one in found)
    return [one.message.removeprefix("sharded data would be faster, but ") for one in found]


def function(body: str, params: str = "batch") -> str:
    return f"def collate({params}):\n" + "".join(f"    {line}\n" for line in body.splitlines())


# ---- the samples lie elsewhere, or how they lie is not seen


@pytest.mark.parametrize(
    "body",
    [
        "xs, ys = zip(*batch)\nreturn pad_sequence(xs), pad_sequence(ys)",
        "xs, ys = zip(*batch)\nreturn torch.stack(xs, dim=1), torch.stack(ys, dim=1)",
        "xs, ys = zip(*batch)\nreturn torch.stack(xs, 1), torch.stack(ys)",
        "xs, ys = zip(*batch)\nreturn torch.stack(xs).transpose(0, 1), torch.stack(ys)",
        "xs, ys = zip(*batch)\nreturn torch.stack(xs).t(), torch.stack(ys)",
        "xs, ys = zip(*batch)\nreturn torch.cat(xs), torch.cat(ys)",
        "xs, ys = [], []\nfor x, y in batch:\n    xs.append(x)\n    ys.extend(y)\n"
        "return torch.stack(xs), torch.tensor(ys)",
        "xs, ys = [], []\nfor x, y in batch:\n    for t in x:\n        xs.append(t)\n    ys.append(y)\n"
        "return torch.stack(xs), torch.stack(ys)",
        "batch = [(x, y) for x, y in batch if len(x)]\nxs, ys = zip(*batch)\nreturn torch.stack(xs), torch.stack(ys)",
        "xs, ys = [], []\nfor x, y in batch:\n    if len(x):\n        xs.append(x)\n        ys.append(y)\n"
        "return torch.stack(xs), torch.stack(ys)",
        "batch = list(filter(None, batch))\nreturn default_collate(batch)",
        "random.shuffle(batch)\nreturn default_collate(batch)",
        "xs, ys = default_collate(batch)\norder = torch.randperm(len(batch))\nreturn xs + xs[order], ys",
        "xs = torch.stack([x for x, _ in batch])\nxs -= xs.mean(0)\nreturn xs, torch.stack([y for _, y in batch])",
        "xs = torch.stack([x for x, _ in batch])\nreturn xs / xs.max(), torch.stack([y for _, y in batch])",
        *(
            f"xs = [list(x) for x, _ in batch]\nlongest = max(len(x) for x in xs)\n{pads}\n"
            "return torch.tensor(xs), torch.stack([y for _, y in batch])"
            for pads in (
                "for x in xs:\n    x += [0] * (longest - len(x))",
                "for x in xs:\n    x.extend([0] * (longest - len(x)))",
                "[x.extend([0] * (longest - len(x))) for x in xs]",
                "def pad(x, size):\n    x += [0] * (size - len(x))\nfor x in xs:\n    pad(x, longest)",
            )
        ),
        "max(batch, key=lambda one: one[1].item())[0].mul_(2)\nxs, ys = zip(*batch)\n"
        "return torch.stack(xs), torch.stack(ys)",
        "return strange.collate(batch)",
        "return batch[0]",
        "while True:\n    return default_collate(batch)",
        "xs, ys = zip(*batch)\nif len(xs[0]) > 3:\n    return torch.stack(xs, 1), torch.stack(ys)\n"
        "return torch.stack(xs), torch.stack(ys)",
        "return torch.stack([x for x, _ in batch]), torch.tensor([place for place, _ in enumerate(batch)])",
    ],
)
def test_how_samples_lie_is_not_seen(body: str) -> None:
    [message] = messages(function(body))
    assert message.startswith("it is not seen that the samples of a batch lie along its first dimension")


@pytest.mark.parametrize(
    ("setup", "given"),
    [
        ("", "strange.collate"),
        ("", "strange.Collate(8)"),
        ("class Pad:\n    def __call__(self, batch):\n        return pad_sequence([x for x, _ in batch])\n", "Pad()"),
        ("class Of:\n    @staticmethod\n    def time(batch):\n        return torch.stack(batch, 1)\n", "Of.time"),
        (function("return torch.stack([x for x, _ in batch], dim), 0", "dim, batch"), "functools.partial(collate, 1)"),
        ("", "lambda batch: torch.cat([x for x, _ in batch])"),
        ("", "transformers.DataCollatorForLanguageModeling(8)"),
    ],
)
def test_nor_in_what_is_no_plain_function(setup: str, given: str) -> None:
    [message] = messages(setup, given)
    assert message.startswith("it is not seen that the samples of a batch lie along its first dimension")


# ---- they are seen to lie along the first


@pytest.mark.parametrize(
    "body",
    [
        "return torch.stack([x for x, _ in batch]), torch.stack([y for _, y in batch])",
        "xs, ys = zip(*batch)\nreturn torch.stack(xs, 0).float(), torch.tensor(ys, dtype=torch.float32)",
        "xs, ys = list(zip(*batch))\nreturn torch.as_tensor(np.stack(xs)), torch.FloatTensor(ys).unsqueeze(1)",
        "xs, ys = map(list, zip(*batch))\nreturn torch.stack(xs, dim=0), torch.stack(ys, dim=0)",
        "xs, ys = [], []\nfor x, y in batch:\n    x = x * 2\n    if len(x) > 4:\n        x = x[:4]\n    xs.append(x)\n"
        "    ys.append(y)\nreturn torch.stack(xs), torch.stack(ys)",
        "xs = [row[0] for row in batch]\nys = [row[1] for row in batch]\nreturn [torch.stack(xs), torch.stack(ys)]",
        "xs = [list(x) for x, _ in batch]\nfor x in xs:\n    x += [0] * (9 - len(x))\n    x.extend(x[:1])\n"
        "return torch.tensor(xs), torch.stack([y for _, y in batch])",
        "return [torch.stack(one) for one in zip(*batch)]",
        "return default_collate(batch)",
        "xs = torch.cat([x.unsqueeze(0) for x, _ in batch], dim=0)\nreturn xs, torch.stack([y for _, y in batch])",
        "xs = torch.zeros(len(batch), 4)\nfor place, (x, _) in enumerate(batch):\n    xs[place, :4] = x\n"
        "return xs, torch.stack([y for _, y in batch])",
        'print(len(batch))\nparts = {}\nparts["x"] = torch.stack([x for x, _ in batch])\n'
        'parts["y"] = torch.stack([y for _, y in batch])\nreturn parts["x"], parts["y"]',
    ],
)
def test_samples_along_the_first_dimension(body: str) -> None:
    assert not messages(function(body))


@pytest.mark.parametrize(
    ("setup", "given"),
    [
        ("", "None"),
        ("", "default_collate"),
        ("", "transformers.default_data_collator"),
        ("", "lambda batch: [torch.stack(one) for one in zip(*batch)]"),
        ("class Of:\n    size = 4\n\n    def cut(self, x):\n        return x[: self.size]\n"
         "\n    def __call__(self, batch):\n"
         "        return torch.stack([self.cut(x) for x, _ in batch]), torch.stack([y for _, y in batch])\n", "Of()"),
        ("class Of:\n    @staticmethod\n    def rows(batch):\n        return default_collate(batch)\n", "Of.rows"),
        (function("return [torch.stack(one, dim) for one in zip(*batch)]", "dim, batch"),
         "functools.partial(collate, 0)"),
    ],
)  # fmt: skip
def test_as_well_in_what_is_no_plain_function(setup: str, given: str) -> None:
    assert not messages(setup, given)


def test_names_and_numbers_that_no_loss_is_made_of() -> None:
    """A list of each sample's name is what it is, on a share as well."""
    body = "xs, ys, names = zip(*batch)\nreturn torch.stack(xs), torch.stack(ys), names"
    loop = LOOP.replace("for x, y in loader", "for x, y, names in loader")
    assert not messages(function(body), loop=loop)
    of_list = loop.replace("model(x), y)", "model(x), torch.cat(names))")
    [message] = messages(function(body), loop=of_list)
    assert message.startswith("the loss depends on a list")


# ---- padded as far as the longest sample of a share

PADDED = function("xs, ys = zip(*batch)\nreturn pad_sequence(xs, batch_first=True), torch.stack(ys)")
READER = """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 4, batch_first=True)
        self.out = nn.Linear(4, 2)

    def forward(self, x, lengths):
        x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, last = self.rnn(x)
        {after}


model = Reader()
"""
PACKED = function(
    "xs, ys = zip(*batch)\nlengths = torch.tensor([len(x) for x in xs])\n"
    "return pad_sequence(xs, batch_first=True), lengths, torch.tensor(ys)"
)
BY_SAMPLE = LOOP.replace("for x, y in loader", "for x, lengths, y in loader").replace(
    "nn.functional.mse_loss(model(x), y)", "nn.functional.cross_entropy(model(x, lengths), y)"
)


def test_what_is_packed_does_not_depend_on_the_padding() -> None:
    assert not messages(PACKED, model=READER.format(after="return self.out(last[-1])"), loop=BY_SAMPLE)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("count += x.numel() - int(lengths.sum())", "`x.numel()`"),
        ("longest = max(longest, x.shape[1])", "`x.shape[1]`"),
        ("counts[x.size(1)] = loss.item()", "`x.size(1)`"),
        ("count += (x == 0).sum().item()", "`(x == 0).sum()`"),
        ("longest = max(longest, x.mean().item())", "`x.mean()`"),
        ("count += torch.count_nonzero(x)", "`torch.count_nonzero(x)`"),
        ("count += int(lengths.sum())", ""),
        ("count += (model(x, lengths).argmax(1) == y).sum().item()", ""),
        ("longest = max(longest, lengths.float().mean().item())", ""),
        ("count += x.size(0) + len(x) + x.shape[0]", ""),
    ],
)
def test_how_far_a_batch_is_padded_is_another_thing_for_a_share(line: str, said: str) -> None:
    model = READER.format(after="return self.out(last[-1])") + "count = longest = 0\ncounts = {}\n"
    loop = f"{BY_SAMPLE}        {line}\nprint(count, longest, counts)\n"
    before = script(imports=TOOLS, setup=f"{PACKED}\n\n", loader=OWN.format(given="collate"), model=model, loop=loop)
    found = [one.message for one in conversion_of(before, options=Options()).of(Level.ADVICE) if one.code == "SHARE01"]
    why = f"sharded data would be faster, but {said} "
    assert any(one.startswith(why) and "pad each rank's share to another length" in one for one in found) is bool(said)


@pytest.mark.parametrize(
    "after", ["return self.out(pad_packed_sequence(out, batch_first=True)[0].mean(1))", "return self.out(last[-1]) + x"]
)
def test_unpacked_it_does(after: str) -> None:
    model = READER.format(after=after).replace("x = pack", "packed = pack").replace("rnn(x)", "rnn(packed)")
    [message] = messages(PACKED, model=model, loop=BY_SAMPLE)
    assert message.startswith("its `collate_fn` may pad each rank's share to another length, and the loss may depend")


def test_what_is_not_packed_may_depend_on_the_padding() -> None:
    loop = LOOP.replace("mse_loss", "cross_entropy")
    [message] = messages(PADDED, loop=loop)
    assert message.startswith("its `collate_fn` may pad each rank's share to another length, and the loss may depend")


@pytest.mark.parametrize(
    ("loss", "labels"),
    [
        ("nn.functional.binary_cross_entropy_with_logits(model(x, lengths).squeeze(1), y)", ""),
        ("nn.functional.mse_loss(model(x, lengths).view(-1), y.view(-1))", ""),
        ("nn.BCEWithLogitsLoss()(model(x, lengths), target=y.unsqueeze(1))", ""),
        ("nn.functional.mse_loss(model(x, lengths), y.unsqueeze(1).expand(-1, x.size(1)))", "a mean over all entries"),
        ("nn.functional.mse_loss(model(x, lengths), x[:, :, 0])", "a mean over all entries"),
        ("(model(x, lengths) - y).pow(2).mean()", "a mean over all entries"),
    ],
)
def test_a_value_for_each_sample_is_no_padded_entry(loss: str, labels: str) -> None:
    loop = BY_SAMPLE.replace("nn.functional.cross_entropy(model(x, lengths), y)", loss)
    told = messages(PACKED, model=READER.format(after="return self.out(last[-1])[:, :1]"), loop=loop)
    assert [labels in one for one in told] == [True] * bool(labels)


@pytest.mark.parametrize(
    ("layer", "passes", "is_mixed"),
    [
        ("nn.BatchNorm1d(4)", "x = self.layer(x.transpose(1, 2)).transpose(1, 2)", True),
        ("nn.Sequential(nn.Linear(4, 4), nn.Conv1d(4, 4, 3, padding=1))", "x = self.layer(x)", True),
        ("nn.GRU(4, 2, batch_first=True, bidirectional=True)", "x, _ = self.layer(x)", True),
        ("nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Dropout(0.1))", "x = self.layer(x)", False),
        ("nn.LayerNorm(4)", "x = self.layer(x)", False),
    ],
)
def test_what_a_layer_mixes_before_it_is_packed(layer: str, passes: str, is_mixed: bool) -> None:
    model = READER.format(after="return self.out(last[-1])")
    model = model.replace("x = pack", f"{passes}\n        x = pack", 1)
    model = model.replace("self.out =", f"self.layer = {layer}\n        self.out =")
    told = messages(PACKED, model=model, loop=BY_SAMPLE)
    assert ["how far a sample is padded" in one for one in told] == [True] * is_mixed


# ---- what is drawn at each step of time

WALK = """
class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        for step in range(1, x.shape[0]):
            if random.random() < 0.5:
                x = x * 2
        return self.out(x)


model = Walk()
"""


@pytest.mark.parametrize(
    ("stacked", "for_all"), [("torch.stack(one, 1)", True), ("strange.stack(one)", True), ("torch.stack(one)", False)]
)
def test_a_draw_at_each_step_of_time_is_for_all_samples(stacked: str, for_all: bool) -> None:
    setup = function(f"return [{stacked} for one in zip(*batch)]")
    before = script(imports=TOOLS, setup=setup, loader=OWN.format(given="collate"), model=WALK)
    assert ("with rt.draw_alike():" in converted(before, options=Options(strategy="shared"))) is for_all


@pytest.mark.parametrize("options", ["", "key=len", "key=lambda one: len(one[0]), reverse=True"])
def test_samples_that_are_put_in_an_order_are_said_to_be(options: str) -> None:
    body = f"batch.sort({options})\nxs, ys = zip(*batch)\nreturn pad_sequence(xs, batch_first=True), torch.stack(ys)"
    [message] = messages(function(body))
    assert "of its `collate_fn` puts the samples in an order by all of the batch" in message
    assert message.startswith("`batch.sort(")


def test_what_is_sorted_beside_the_samples() -> None:
    body = "xs, ys = zip(*batch)\nnames = ['b', 'a']\nnames.sort()\nreturn torch.stack(xs), torch.stack(ys)"
    assert not any("in an order" in one for one in messages(function(body)))
