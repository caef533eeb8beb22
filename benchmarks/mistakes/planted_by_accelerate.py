"""Mistakes that people make with Accelerate, each a change of `by_accelerate.py`."""

from __future__ import annotations

from planted import Mistake, one

PREPARE = "model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)\n"

MISTAKES = (
    one("the batch of one process on each rank", "24 // accelerator.num_processes", "24", "batch"),
    one("the loader not prepared", PREPARE, "model, optimizer = accelerator.prepare(model, optimizer)\n",
        "dealt|whole|share|loader"),
    Mistake("the model not prepared", (
        (PREPARE, "optimizer, train_loader = accelerator.prepare(optimizer, train_loader)\n"),
    ), "averag|wrap|apart"),
    one("the schedule prepared: a step for each rank", PREPARE,
        "model, optimizer, train_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, scheduler)\n",
        "schedul|rate"),
    one("a rate times the ranks, for the same batch", "lr=0.05", "lr=0.05 * accelerator.num_processes", "rate"),
    one("figures of one shard", '    total, correct = accelerator.reduce(figures, "sum").tolist()\n', "",
        "sums over ranks|rate|schedul|apart"),
    one("figures averaged where they are sums", 'reduce(figures, "sum")', 'reduce(figures, "mean")',
        "figure|shard|sum|averag|schedul"),
    Mistake("samples counted twice in the evaluation", (
        ("DataLoader(test_share, batch_size=20)", "accelerator.prepare(DataLoader(test_set, batch_size=20))"),
    ), "twice|pad|repeat|fill"),
    one("keys with module.", "accelerator.unwrap_model(model).state_dict()", "model.state_dict()", "module\\."),
    one("everybody saves", "accelerator.save(accelerator", "torch.save(accelerator", "best.pt|write|rank"),
    one("everybody prints", "accelerator.print", "print", "print"),
    one("the same dropout on all ranks", "set_seed(0, device_specific=True)", "set_seed(0)",
        "dropout|random|noise|draw"),
    one("a layer made anew after the wrap", "\nbest = 0.0\n", "model.module[4] = nn.Linear(32, 4)\nbest = 0.0\n",
        "averag|wrap|anew|apart"),
    one("trained past the wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)",
        "averag|wrap|apart|module"),
)  # fmt: skip
