"""Mistakes that people make with Lightning Fabric, each a change of `by_fabric.py`."""

from __future__ import annotations

from planted import Mistake, one

LOADER = "train_loader = fabric.setup_dataloaders(train_loader)\n"

MISTAKES = (
    one("the batch of one process on each rank", "24 // ranks", "24", "batch"),
    one("the loader not set up", LOADER, "", "dealt|whole|share|loader|order|sample"),
    one("the model not set up", "model, optimizer = fabric.setup(model, optimizer)\n",
        "object.__setattr__(model, 'module', model)\noptimizer = fabric.setup_optimizers(optimizer)\n",
        "averag|wrap|apart"),
    one("a rate times the ranks, for the same batch", "lr=0.05", "lr=0.05 * ranks", "rate"),
    one("the loss divided by the ranks once more", "fabric.backward(loss)", "fabric.backward(loss / ranks)",
        "scale|divid|averag|times"),
    one("figures averaged where they are sums", ', reduce_op="sum"', "", "figure|shard|sum|averag|schedul"),
    one("figures of one shard", 'fabric.all_reduce(figures, reduce_op="sum").tolist()', "figures.tolist()",
        "sums over ranks|rate|schedul|apart"),
    Mistake("samples counted twice in the evaluation", (
        ("DataLoader(Subset(test_set, range(rank, 51, ranks)), batch_size=20)",
         "fabric.setup_dataloaders(DataLoader(test_set, batch_size=20))"),
    ), "twice|pad|repeat|fill"),
    one("everybody saves", "        if rank == 0:\n            torch.save", "        if True:\n            torch.save",
        "best.pt|write|rank"),
    one("everybody prints", "fabric.print", "print", "print"),
    one("the same dropout on all ranks", "torch.manual_seed(rank)\n", "", "dropout|random|noise|draw"),
    one("moved after the wrap", "torch.manual_seed(rank)\n",
        "torch.manual_seed(rank)\nmodel.bfloat16().to(torch.get_default_dtype())\n", "averag|wrap|cast|moved"),
    one("trained past the wrapper", "F.cross_entropy(model(x), y)", "F.cross_entropy(model.module(x), y)",
        "averag|wrap|apart|module"),
)  # fmt: skip
