"""What forward passes, losses and hooks keep of each batch is that of whole batches: such passes are shared."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Strategy

from tests.rules.scripts import conversion_of

SCRIPT = """\
import collections
import heapq
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

history, by_name, votes = [], collections.defaultdict(list), np.zeros(2)
top = 0.0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
        self.seen, self.calls, self.mean, self.norms, self.last = 0, 0, 0.0, [], None
        self.counts, self.running, self.outs, self.found = {{"total": 0.0}}, torch.zeros(()), [], set()
        self.register_buffer("table", torch.zeros(2)){registered}

    def forward(self, x):
        out = self.body(x)
        {forward}
        return out


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log = {{"loss": [], "steps": 0}}

    def forward(self, out, y):
        found = nn.functional.cross_entropy(out, y)
        {loss}
        return found


loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=8)
model, criterion = Net(), Loss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{before}
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch)
"""


FILES = "import logging\nlogging.basicConfig(filename='run.log')\nlog = open('log.txt', 'w')\n"


def told(
    forward: str = "pass", loss: str = "pass", before: str = "", text: str = SCRIPT, registered: str = ""
) -> tuple[Strategy | None, list[str]]:
    """The rung, and the lines that are given as reasons."""
    text = text.format(forward=forward, loss=loss, before=before, registered=registered)
    conversion = conversion_of(text, options=Options())
    found = [one for one in conversion.of(Level.ADVICE) if "sharded data would be faster" in one.message]
    return conversion.strategy, [text.splitlines()[one.place.line - 1].strip() for one in found if one.place]


@pytest.mark.parametrize(
    "line",
    [
        "self.seen += x.size(0)",
        "self.norms.append(out.detach().norm().item())",
        "self.norms += [out.mean().item()]",
        "self.mean = 0.9 * self.mean + 0.1 * out.mean().item()",
        "history.append(len(x))",
        "self.counts[out.argmax().item()] = self.counts.get(0, 0) + out.sum().item()",
        "self.counts.update(total=self.counts['total'] + out.sum().item())",
        "self.running.mul_(0.9).add_(out.detach().mean())",
        "self.running.data = 0.9 * self.running.data + 0.1 * out.detach().mean()",
        "self.running[...] = 0.9 * self.running + 0.1 * out.detach().mean()",
        "torch.add(self.running, out.detach().mean(), out=self.running)",
        "self.body.bias.data = -out.mean(0).detach()",
        "self.mean = max(self.mean, out.max().item())",
        "self.last, before = out.detach().mean(), self.last",
        "self.found.update(out.argmax(1).tolist())",
        "self.outs[len(self.outs):] = [out.mean().item()]",
        "global top; top = max(top, out.max().item())",
        "self.mean = max(getattr(self, 'mean', 0.0), out.max().item())",
        "self.counts.setdefault('all', []).append(out.mean().item())",
        "self.running[out.argmax(1)] = 1",
        "votes[out.argmax(1).numpy()] += 1",
        "by_name['mean'].append(out.mean().item())",
        "self.running = torch.cat([self.running.view(-1, 1), out.detach()[:, :1]])",
        "setattr(self, 'mean', max(self.mean, out.max().item()))",
        "self.register_buffer('running', 0.9 * self.running + 0.1 * out.detach().mean())",
        "heapq.heappush(self.norms, out.norm().item())",
    ],
)
def test_what_a_model_adds_up(line: str) -> None:
    assert told(forward=line) == (Strategy.SHARED, [line])


@pytest.mark.parametrize(
    ("before", "line"),
    [
        ("old = self.mean", "self.mean = 0.9 * old + 0.1 * out.mean().item()"),
        ("if out.max().item() > self.mean:", "    self.mean = out.max().item()"),
        ("if self.last is None:", "    self.last = out.detach().mean(0)"),
        ("if out.sum() > 0:", "    self.calls += 1"),
    ],
)
def test_what_is_read_before_it_is_set(before: str, line: str) -> None:
    assert told(forward=f"{before}\n        {line}\n        out = out + 1") == (Strategy.SHARED, [line.strip()])


def test_what_is_counted_once_for_each_sample() -> None:
    assert told(forward="for row in out:\n            self.calls += 1") == (Strategy.SHARED, ["self.calls += 1"])
    assert told(forward="for column in range(out.size(1)):\n            self.calls += 1") == (Strategy.SHARDED, [])


METHODS = """\
    def keep(self, out):
        self.last = out.detach().mean(0)

    def centred(self, out):
        return out if self.last is None else out - self.last

    def forward"""


@pytest.mark.parametrize(
    ("forward", "kept"),
    [
        ("out = self.centred(out); self.keep(out)", True),
        ("self.keep(out); out = self.centred(out)", False),
        ("if self.training: self.keep(out)\n        out = self.centred(out)", True),
    ],
)
def test_a_method_that_reads_what_another_one_sets(forward: str, kept: bool) -> None:
    text = SCRIPT.replace("    def forward", METHODS, 1)
    line = "self.last = out.detach().mean(0)"
    strategy, lines = told(forward=forward, text=text)
    assert (strategy, set(lines)) == ((Strategy.SHARED, {line}) if kept else (Strategy.SHARDED, set()))


def test_another_name_of_a_dictionary() -> None:
    line = "found['n'] = found.get('n', 0) + len(x)"
    assert told(forward=f"found = self.counts\n        {line}") == (Strategy.SHARED, [line])


@pytest.mark.parametrize(
    "line",
    [
        "print(out.mean().item(), file=log)",
        "log.write(f'{out.mean().item()}')",
        "logging.info('mean %s', out.mean().item())",
        "torch.save(out, 'out.pt')",
    ],
)
def test_what_is_written_in_a_forward_pass(line: str) -> None:
    assert told(forward=line, before=FILES) == (Strategy.SHARED, [line])


def test_shapes_that_are_written() -> None:
    assert told(forward="logging.info('%s %d', out.shape, len(x))", before=FILES) == (Strategy.SHARDED, [])


def test_what_a_loss_adds_up() -> None:
    line = 'self.log["loss"].append(found.item())'
    assert told(loss=line) == (Strategy.SHARED, [line])


@pytest.mark.parametrize(
    "line",
    [
        "model.body.register_forward_hook(lambda module, given, out: history.append(out.mean().item()))",
        "model.body.weight.register_hook(lambda gradient: gradient.clamp(-1, 1))",
        "model.register_full_backward_hook(lambda module, given, out: history.append(out[0].norm().item()))",
    ],
)
def test_what_torch_calls_in_each_pass(line: str) -> None:
    assert told(before=line) == (Strategy.SHARED, [line])


@pytest.mark.parametrize(
    "line",
    [
        "self.calls += 1",
        "self.last = out.detach()",
        "out = out.clone(); out[out > 0] = 0",
        "rows = []; rows.append(out); out = rows[0]",
        "widths = 0; widths += out.size(1)",
        "self.counts['last'] = out.mean().item()",
        "self.outs = []; self.outs.append(out)",
        "self.outs.clear()",
        "self.last = out; out = self.last * 2",
        "self.counts['out'] = out; out = self.counts['out'] + 1",
        "self.mean = 0.0; self.mean += out.mean(); self.mean = self.mean + out.sum()",
    ],
)
def test_what_is_alike_on_all_ranks_or_gone_with_the_batch(line: str) -> None:
    assert told(forward=line) == (Strategy.SHARDED, [])


BETWEEN = "for once in range(1):\n    shown = model(torch.zeros(4, 4))"


@pytest.mark.parametrize(
    "line",
    [
        "rows = []; rows.append(out); out = rows.pop()",
        "rows = [x]; rows += [out]; out = rows[1]",
        "rows = dict(); rows['out'] = out; rows[len(rows)] = out.mean(); out = rows['out']",
        "rows = collections.deque(); rows.appendleft(out); out = rows[0]",
        "rows = torch.zeros(len(x), 2).float().to(x.device); rows[:, 0::2] = out[:, 1:]; out = out + rows",
        "rows = torch.zeros_like(out); rows[:, 0] = out[:, 1]; out = out + rows",
        "out = out + torch.zeros(out.size()).scatter_(1, x[:, :1].long().clamp(0, 1), 1.0)",
        "out = out + torch.zeros_like(out).add_(out.detach())",
        "size = torch.zeros(2).to(x.device); size += out.size(1); out = out + size",
        "shown = self.table.clone(); shown += out.size(1); out = out + shown",
        "out = out.relu(); out += self.table; torch.relu_(out); out.mul_(2)",
        "out = nn.functional.leaky_relu_(self.body(x), 0.1)",
        "steps = self.calls; steps += out.dim(); out = out + steps",
        "rate = self.mean; rate *= out.size(1); out = out + rate",
    ],
)
def test_what_a_call_makes_is_gone_with_it_wherever_the_model_is_called(line: str) -> None:
    assert told(forward=line, before=BETWEEN) == (Strategy.SHARDED, [])


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("rows = self.norms", "rows.append(out.norm().item())"),
        ("rows = self.norms or []", "rows.append(out.norm().item())"),
        ("rows = self.norms if self.training else []", "rows.append(out.norm().item())"),
        ("rows = history", "rows += [out.norm().item()]"),
        ("rows = self.running.to(x.device)", "rows += out.detach().mean()"),
        ("rows = self.running.to(x.device)", "rows.mul_(0.9).add_(out.detach().mean())"),
        ("rows = self.table.to(x.device)", "rows[:] = out.detach().mean(0)"),
        ("rows = self.table.float() if self.training else self.table", "rows[:] = out.detach().mean(0)"),
        ("rows = getattr(self, 'table')", "rows.view(-1).lerp_(out.detach().mean(0), 0.1)"),
        ("rows = self.running", "torch.Tensor.add_(rows, out.detach().mean())"),
        ("rows = self.table", "rows.chunk(2)[0].lerp_(out.detach().mean(), 0.1)"),
        ("rows = self.table", "torch.narrow(rows, 0, 0, 1).add_(out.detach().mean())"),
        ("rows = self.running.detach(); rows *= 0.9", "rows += out.detach().mean()"),
    ],
)
def test_another_name_of_what_lasts(name: str, line: str) -> None:
    assert told(forward=f"{name}\n        {line}", before=BETWEEN) == (Strategy.SHARED, [line])


def test_what_is_registered_under_a_name_that_a_loop_makes() -> None:
    line = "self.register_buffer('kept' + str(i), tensor=torch.zeros(2))"
    registered = "\n        for i in range(2):\n            " + line
    line = "rows[:] = out.detach().mean(0)"
    forward = "rows = getattr(self, 'kept' + str(self.calls % 2))\n        " + line
    _, found = told(forward=forward, registered=registered, before=BETWEEN)
    assert line in found


@pytest.mark.parametrize(
    "kept",
    ["self.last = rows", "before, self.last = self.last, rows", "self.parts.append(rows)", "x.kept = self.last = rows"],
)
def test_what_a_call_has_made_and_something_else_holds(kept: str) -> None:
    """By another name it is there in the next batch."""
    lines = ["rows = torch.zeros(2)", kept, "rows[:] = out.mean(0).detach()"]
    strategy, _ = told(forward="\n        ".join(lines), before=BETWEEN)
    assert strategy is Strategy.SHARED


@pytest.mark.parametrize(
    "lines",
    [
        ["if self.training:", "    self.last = out", "else:", "    self.last = None", "out = self.last"],
        ["if self.training:", "    self.last = out.detach()"],
        ["if self.last is None or len(self.last) < x.size(1):", "    self.last = torch.zeros(x.size(1))"],
        ["if x is not None:", "    self.calls += 1"],
    ],
)
def test_what_is_set_on_all_ways_to_where_it_is_read_or_made_of_sizes(lines: list[str]) -> None:
    assert told(forward="\n        ".join(lines)) == (Strategy.SHARDED, [])


def test_steps_that_a_loss_counts() -> None:
    assert told(loss='self.log["steps"] += 1') == (Strategy.SHARDED, [])


@pytest.mark.parametrize("where", ["before", "after"])
def test_hooks_of_what_is_not_trained_and_hooks_that_come_later(where: str) -> None:
    """A frozen teacher's; one that is put on the model once it is trained."""
    hook = "register_forward_hook(lambda module, given, out: history.append(out))\n"
    before = f"teacher = nn.Linear(4, 2)\nteacher.{hook}" if where == "before" else ""
    text = SCRIPT.format(forward="pass", loss="pass", before=before, registered="")
    text += "" if before else f"model.body.{hook}"
    assert conversion_of(text, options=Options()).strategy is Strategy.SHARDED


@pytest.mark.parametrize(
    ("removed", "strategy"),
    [
        ("    handle.remove()\n", Strategy.SHARDED),
        ("handle.remove()\n", Strategy.SHARED),
        ("", Strategy.SHARED),
    ],
    ids=["in the same turn", "behind all", "never"],
)
def test_a_hook_that_is_put_there_behind_the_steps_of_an_epoch(removed: str, strategy: Strategy) -> None:
    """The next epoch's passes have it."""
    line = "handle = model.body.register_forward_hook(lambda module, given, out: history.append(out.mean().item()))"
    told_of = [] if strategy is Strategy.SHARDED else [line]
    assert told(text=f"{SCRIPT}    {line}\n{removed}") == (strategy, told_of)


@pytest.mark.parametrize("given", ["model.named_modules()", "list(model.body.named_modules())"])
def test_hooks_on_the_parts_of_a_model(given: str) -> None:
    line = "part.register_full_backward_hook(lambda module, given, out: history.append(out[0].norm().item()))"
    before = f"model.body = nn.Sequential(model.body, nn.ReLU())\nfor name, part in {given}:\n    {line}\n"
    assert told(before=before) == (Strategy.SHARED, [line])


def test_a_hook_on_all_modules() -> None:
    line = "nn.modules.module.register_module_forward_hook(lambda module, given, out: history.append(out.mean()))"
    assert told(before=line) == (Strategy.SHARED, [line])


def test_a_hook_that_is_removed_before_training() -> None:
    before = """\
handles = [model.body.register_forward_hook(lambda module, given, out: history.append(out.shape))]
model(torch.zeros(1, 4))
for handle in handles:
    handle.remove()
"""
    assert told(before=before) == (Strategy.SHARDED, [])


HELPED = SCRIPT.replace(
    "    def forward(self, x):\n        out = self.body(x)\n        {forward}\n",
    "    def parts(self, x):\n        parts = []\n        parts.append(self.body(x))\n        return parts\n\n"
    "    def forward(self, x):\n        parts = self.parts(x)\n        {forward}\n        out = parts[0]\n",
)
TESTED = (
    HELPED + "    with torch.no_grad():\n        print(sum(model(torch.ones(1, 4)).sum().item() for _ in range(2)))\n"
)


def test_a_list_that_is_made_anew_and_handed_back_is_gone_with_the_pass() -> None:
    assert told(text=TESTED) == (Strategy.SHARDED, [])


@pytest.mark.parametrize("line", ["self.outs += parts", "self.outs.extend(parts)", "history.append(parts)"])
def test_such_a_list_that_is_kept(line: str) -> None:
    assert told(forward=line, text=TESTED) == (Strategy.SHARED, [line])
