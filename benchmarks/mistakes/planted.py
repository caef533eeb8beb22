"""Mistakes that people make when they distribute a script, each a change of what distify writes for `train.py`."""

from __future__ import annotations

from dataclasses import dataclass

LOOP = "    for x, y in train_loader:\n"
STEP = "        optimizer.step()\n"
WRAP = "model = DistributedDataParallel(model, device_ids=rt.device_ids(model))\n"


@dataclass(frozen=True)
class Mistake:
    """`edits`: what stands in place of what. `cause`: a pattern of what names it; empty: a run cannot show it.
    `rows`: of docs/pitfalls.md, which it shows."""

    name: str
    edits: tuple[tuple[str, str], ...]
    cause: str
    rows: tuple[int, ...] = ()


def one(name: str, old: str, new: str, cause: str, *rows: int) -> Mistake:
    return Mistake(name, ((old, new),), cause, rows)


#: Rows that no mistake shows, by why.
LEFT_OUT = {
    "a conversion, or torch, refuses it before a run begins": (2, 36, 40),
    "it takes GPUs": (12, 13, 37, 39),
    "it hangs on who comes first, on time or on several machines": (15, 47, 48),
    "results are right, and come later": (30, 35),
    "torch itself ends the run": (27, 28),
    "no script is written for it yet": (11, 42, 43, 44, 45),
}


MISTAKES = (
    one("set_epoch forgotten", "    train_loader.sampler.set_epoch(epoch)\n", "", "set_epoch|order", 1),
    one("the batch of one process on each rank", "rt.per_rank_batch_size(24)", "24", "batch", 3),
    one("a rate for a larger batch", "lr=0.05", "lr=0.1", "rate|lr", 4),
    one("samples counted twice in the evaluation", "rt.UnpaddedSampler(test_set)",
         "torch.utils.data.DistributedSampler(test_set, shuffle=False)", "twice|pad|repeat|evaluat|figure|samples", 5),
    one("an evaluation that leaves samples out", "test_loader = DataLoader(test_set, batch_size=20,",
         "test_loader = DataLoader(test_set, batch_size=20, drop_last=True,", "drop|left out|evaluat|figure", 6),
    one("an accuracy of one shard", "    correct = rt.all_reduce_sum(correct)\n", "", "shard|reduce|figure|part", 7),
    one("a loss of one shard to the scheduler", "    total = rt.all_reduce_sum(total)\n", "",
         "sums over ranks|rate|schedul|apart", 19),
    one("the loss divided by the ranks once more", "        loss.backward()\n",
         "        (loss / rt.world_size()).backward()\n", "scale|divid|averag|times", 8),
    one("the gradients summed, not averaged", "        loss.backward()\n",
         "        (loss * rt.world_size()).backward()\n", "scale|sum|averag|times"),
    one("keys with module.", "model.module.state_dict()", "model.state_dict()", "module\\.", 10),
    one("everybody prints", "from distify_runtime import rank_zero_print as print\n", "", "print", 16),
    one("everybody saves", "        if rt.is_main_process():\n            torch.save",
         "        if True:\n            torch.save", "best.pt|write|rank", 16),
    one("everybody logs", "    if rt.is_main_process():\n        with open", "    if True:\n        with open",
         "log.txt|write|rank", 16),
    one("no SyncBatchNorm", "model = rt.convert_sync_batchnorm(model)\n", "", "[Bb]atch ?[Nn]orm|statistic", 21),
    one("the same dropout on all ranks", "rt.seed_ranks_apart()\n", "", "dropout|random|noise|draw", 22),
    one("a seed in the loop", LOOP, "    torch.manual_seed(epoch)\n" + LOOP, "seed|random|draw", 22),
    one("data drawn apart", "centres = ", "torch.manual_seed(rt.rank())\ncentres = ", "sample|data|seed", 23),
    one("data sets of different sizes", "train_loader = ",
         "train_set = torch.utils.data.Subset(train_set, range(rt.rank(), 192))\ntrain_loader = ",
         "sample|size|data", 34),
    one("ranks shuffle by seeds of their own", "rt.TrainingSampler(train_set)",
         "torch.utils.data.DistributedSampler(train_set, seed=rt.rank())", "sample|seed|order"),
    Mistake("nobody shards", (
        ("rt.per_rank_batch_size(24),\n                          sampler=rt.TrainingSampler(train_set)",
         "24, shuffle=True"),
        ("    train_loader.sampler.set_epoch(epoch)\n", ""),
    ), "dealt out|whole|work"),
    one("not wrapped", WRAP, "object.__setattr__(model, \"module\", model)\n", "averag|apart|wrap", 25),
    one("a layer made anew after the wrap", WRAP, WRAP + "model.module[4] = nn.Linear(32, 4)\n",
         "averag|wrap|anew|apart", 26),
    one("moved after the wrap", WRAP, WRAP + "model.bfloat16().to(torch.get_default_dtype())\n",
         "averag|wrap|cast|moved", 26),
    Mistake("frozen when it was wrapped", (
        (WRAP, "model[0].weight.requires_grad_(False)\n" + WRAP),
        (LOOP, "    model.module[0].weight.requires_grad_(epoch > 0)\n" + LOOP),
    ), "averag|froz|wrap|apart", (26,)),
    one("trained past the wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)",
         "averag|wrap|apart|module", 29),
    one("rank 0 alone starts from something else", "best = 0.0\n",
         "best = 0.0\nif rt.is_main_process():\n    nn.init.zeros_(model.module[4].weight)\n",
         "rank|apart|start|begin"),
    one("a rate of its own on each rank", "lr=0.05", "lr=0.05 / (1 + rt.rank())", "rate|rank|apart"),
    one("a gradient changed on one rank", "        nn.utils.clip",
         "        if rt.rank():\n            model.module[0].bias.grad.zero_()\n        nn.utils.clip", "apart|rank"),
    Mistake("an error that one rank catches", (
        ("        loss = F.cross_entropy(model(x), y)\n",
         "        if epoch == 1 and rt.rank() == 1 and not caught:\n            x = x[:, :3]\n"
         "        try:\n            loss = F.cross_entropy(model(x), y)\n"
         "        except RuntimeError:\n            caught = True\n            continue\n"),
        ("best = 0.0\n", "best, caught = 0.0, False\n"),
    ), "step|caught|error"),
    one("a rank that leaves out a step", STEP, "        if rt.rank() == 0 or epoch < 2:\n    " + STEP,
         "step|apart|rank"),
    one("an evaluation of rank 0 alone that meets the others", "            correct += (model.module(x)",
         "            if not rt.is_main_process():\n                continue\n            model.train()\n"
         "            correct += (model(x)", "wait|time|hang|step|collective|got on", 17),
    one("a rank that sleeps", STEP, STEP + "        if epoch == 1 and rt.rank() == 1:\n            import time\n"
         "            time.sleep(10_000)\n", "wait|time|hang|got on"),
)  # fmt: skip
