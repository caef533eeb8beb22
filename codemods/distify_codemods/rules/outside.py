"""NET01: rank 0 alone asks the world outside, and all ranks hear the answer."""

from __future__ import annotations

import libcst as cst

from distify_codemods.decisions.outside import Asking, Doing, askings
from distify_codemods.file_events import code_of
from distify_codemods.rules.base import Context, Example, Rule, call_of, given_to
from distify_codemods.rules.once import once

CODE = "NET01"
_ONCE = "one process speaks to the world outside"
_FIX = (
    "let rank 0 ask where every rank comes by, with a function that returns plain data: "
    "`answer = rt.call_on_main_process(function, ...)`"
)


def run(context: Context) -> None:
    found = False
    for one in askings(context.facts):
        if _is_under_a_guard(context, one):
            continue
        found = True
        if one.doing is Doing.BLOCKED:
            context.needs_you(one.why, one.module, one.node, _FIX)
        elif one.doing is Doing.LEFT:
            context.advice("each rank asks here for the samples that it loads", one.module, one.node)
        elif context.editable(one.module, one.node, "the world outside is asked"):
            _write(context, one)
    if not found:
        context.not_needed("nobody outside of the process is asked, and nothing is sent")


def _is_under_a_guard(context: Context, one: Asking) -> bool:
    """Whether rank 0 comes here alone, or before the others, who may then not come at all."""
    if one.event is None:
        return False
    around = [(here.frame.module, here.node) for here in one.event.here.up() if not here.arm]
    around += [(one.module, node) for node in (one.node, *one.module.enclosing(one.node))]
    return any(node in context.plan(module).guards for module, node in around)


def _write(context: Context, one: Asking) -> None:
    assert isinstance(one.node, cst.Call)
    module, plan = one.module, context.plan(one.module)
    if one.doing is Doing.HEARD:
        plan.replace(one.node, given_to(f"{context.rt(module)}.call_on_main_process"), CODE, one.why)
        context.applied("rank 0 asks, all ranks hear the answer", module, one.node)
    elif one.doing is Doing.MADE:
        plan.replace(one.node.func, call_of(f"{context.rt(module)}.main_process_only({{}})"), CODE, _ONCE)
        context.applied(f"rank 0 alone has what `{code_of_call(one)}` makes", module, one.node)
    elif one.event is not None:  # of a connection that rank 0 alone has, nothing is to be written
        once(context, one.event, CODE, _ONCE)
        context.applied("rank 0 alone sends", module, one.node)


def code_of_call(one: Asking) -> str:
    return code_of(one.event) if one.event is not None else ""


_BEFORE = """\
import requests
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rate = requests.get("http://settings/rate").json()["rate"]
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
requests.post("http://chat/hook", json={"text": "done"})
"""
_AFTER = """\
import requests
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import distify_runtime as rt
from torch.nn.parallel import DistributedDataParallel

rt.init_process_group()
rate = rt.call_on_main_process(requests.get, "http://settings/rate").json()["rate"]
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=rt.per_rank_batch_size(8),
                    sampler=rt.TrainingSampler(data))
model = nn.Linear(4, 1)
model = DistributedDataParallel(model, device_ids=rt.device_ids(model))
optimizer = torch.optim.SGD(model.parameters(), lr=rate)
rt.seed_ranks_apart()
for epoch in range(3):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
if rt.is_main_process():
    requests.post("http://chat/hook", json={"text": "done"})
"""
_QUIET = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
loader = DataLoader(data, batch_size=8, shuffle=True)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
RULE = Rule(
    code=CODE,
    name="the world outside",
    why="A server that N ranks ask counts N questions, and may answer each otherwise; N messages say what one would.",
    safety="Rank 0 asks, and what comes back, or the error, goes to all ranks. Connections, clients and devices exist "
    "on rank 0; the others have something that takes every call. What is asked while samples are loaded is each "
    "rank's own; what not all ranks come to, what is awaited, and what is used otherwise, is left to a person.",
    run=run,
    pitfalls=(16,),
    examples=(Example(_BEFORE, _AFTER), Example(_QUIET)),
)
