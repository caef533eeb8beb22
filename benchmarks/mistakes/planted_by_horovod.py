"""Mistakes that people make with Horovod, each a change of `by_horovod.py`."""

from __future__ import annotations

from planted import Mistake, one

MISTAKES = (
    one("set_epoch forgotten", "    sampler.set_epoch(epoch)\n", "", "set_epoch|order"),
    one("the batch of one process on each rank", "24 // ranks", "24", "batch"),
    one("a rate times the ranks, for the same batch", "lr=0.05", "lr=0.05 * ranks", "rate"),
    one("the optimizer not wrapped", "optimizer = hvd.DistributedOptimizer(optimizer, "
        "named_parameters=model.named_parameters())\n",
        "optimizer.synchronize, optimizer.skip_synchronize = (lambda: None), __import__('contextlib').nullcontext\n",
        "averag|apart|wrap"),
    one("gradients summed", "named_parameters=model.named_parameters())",
        "named_parameters=model.named_parameters(), op=hvd.Sum)", "are summed|times too"),
    Mistake("clipped before they are averaged", (
        ("        optimizer.synchronize()\n", ""),
        ("        with optimizer.skip_synchronize():\n            optimizer.step()\n", "        optimizer.step()\n"),
    ), "clip", (31,)),
    Mistake("rank 0's weights not sent", (
        ("model = nn", "torch.manual_seed(rank)\nmodel = nn"),
        ("hvd.broadcast_parameters(model.state_dict(), root_rank=0)\n", ""),
    ), "begin|start|weights"),
    one("no share of the data", "DistributedSampler(train_set, num_replicas=ranks, rank=rank)",
        "DistributedSampler(train_set, num_replicas=ranks, rank=0)", "sample|dealt|share"),
    one("ranks shuffle by seeds of their own", "rank=rank)", "rank=rank, seed=rank)", "sample|seed|order"),
    one("figures of one shard", "    figures = hvd.allreduce(figures, op=hvd.Sum)\n", "",
        "sums over ranks|rate|schedul|apart"),
    one("figures averaged where they are sums", "op=hvd.Sum)\n    total", "op=hvd.Average)\n    total",
        "figure|shard|sum|averag"),
    one("everybody saves", "        if rank == 0:\n            torch.save", "        if True:\n            torch.save",
        "best.pt|write|rank"),
    one("everybody prints", "    if rank == 0:\n        print", "    if True:\n        print", "print"),
    one("the same dropout on all ranks", "torch.manual_seed(rank)\n\nbest", "\nbest", "dropout|random|noise|draw"),
    one("a rank that leaves out a step", "            optimizer.step()\n",
        "            if rank == 0 or epoch < 2:\n                optimizer.step()\n", "step|apart|rank"),
)  # fmt: skip
