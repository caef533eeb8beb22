"""The same mistakes in a conversion that somebody has written by hand, `by_hand.py`."""

from __future__ import annotations

from planted import LOOP, STEP, Mistake, one

WRAP = "model = DistributedDataParallel(model)\n"
REDUCED = "    dist.all_reduce(figures)\n"


MISTAKES = (
    one("set_epoch forgotten", "    sampler.set_epoch(epoch)\n", "", "set_epoch|order"),
    one("the batch of one process on each rank", "24 // ranks", "24", "batch"),
    one("a rate for a larger batch", "lr=0.05", "lr=0.1", "rate|lr"),
    one("samples counted twice in the evaluation", "Subset(test_set, range(rank, 51, ranks)), batch_size=20",
         "test_set, batch_size=20, sampler=DistributedSampler(test_set, shuffle=False)",
         "twice|pad|repeat|evaluat|figure|samples"),
    one("figures of one shard", REDUCED, "", "sums over ranks|rate|schedul|apart"),
    one("the loss divided by the ranks once more", "        loss.backward()\n",
         "        (loss / ranks).backward()\n", "scale|divid|averag|times"),
    one("the gradients summed, not averaged", "        loss.backward()\n",
         "        (loss * ranks).backward()\n", "scale|sum|averag|times"),
    one("keys with module.", "model.module.state_dict()", "model.state_dict()", "module\\."),
    one("everybody prints", "    if rank == 0:\n        print", "    if True:\n        print", "print"),
    one("everybody saves", "        if rank == 0:\n            torch.save", "        if True:\n            torch.save",
         "best.pt|write|rank"),
    one("everybody logs", "    if rank == 0:\n        with open", "    if True:\n        with open",
         "log.txt|write|rank"),
    one("the same dropout on all ranks", "torch.manual_seed(rank)\n", "", "dropout|random|noise|draw"),
    one("data drawn apart", "torch.manual_seed(0)\n", "torch.manual_seed(rank)\n", "sample|data|seed"),
    one("ranks shuffle by seeds of their own", "DistributedSampler(train_set)",
         "DistributedSampler(train_set, seed=rank)", "sample|seed|order"),
    one("nobody shards", "batch_size=24 // ranks, sampler=sampler", "batch_size=24, shuffle=True",
         "whole|shared|shard|share|work"),
    one("not wrapped", WRAP, "object.__setattr__(model, \"module\", model)\n", "averag|apart|wrap"),
    one("a layer made anew after the wrap", WRAP, WRAP + "model.module[4] = nn.Linear(32, 4)\n",
         "averag|wrap|anew|apart"),
    one("moved after the wrap", WRAP, WRAP + "model.bfloat16().to(torch.get_default_dtype())\n",
         "averag|wrap|cast|moved"),
    Mistake("frozen when it was wrapped", (
        (WRAP, "model[0].weight.requires_grad_(False)\n" + WRAP),
        (LOOP, "    model.module[0].weight.requires_grad_(epoch > 0)\n" + LOOP),
    ), "averag|froz|wrap|apart"),
    one("trained past the wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)",
         "averag|wrap|apart|module"),
    one("rank 0 alone starts from something else", "best = 0.0\n",
         "best = 0.0\nif rank == 0:\n    nn.init.zeros_(model.module[4].weight)\n", "rank|apart|start|begin"),
    one("a rate of its own on each rank", "lr=0.05", "lr=0.05 / (1 + rank)", "rate|rank|apart"),
    one("a gradient changed on one rank", "        nn.utils.clip",
         "        if rank:\n            model.module[0].bias.grad.zero_()\n        nn.utils.clip", "apart|rank"),
    one("a rank that leaves out a step", STEP, "        if rank == 0 or epoch < 2:\n    " + STEP, "step|apart|rank"),
    one("no process group is left", "dist.destroy_process_group()\n", "", "process group", 46),
)  # fmt: skip
