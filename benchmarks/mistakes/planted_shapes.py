"""Mistakes of shapes that conversions went wrong on: each an edit of what `--strategy sharded --partial` writes.

Each script of `shapes/` has one. What no run on CPUs shows has none: lines for several GPUs, what a switch in the text
turns off, other programs.
"""

from __future__ import annotations

from planted import Mistake, one

_CASTS = "        self.model.bfloat16()\n        self.model.to(torch.get_default_dtype())\n"
_WRAP = "        self.model = DistributedDataParallel(self.model, device_ids=rt.device_ids(self.model))\n"

#: By the name of the script.
MISTAKES = {
    "saved_by_all": one("every rank saves the same files", "    if rt.is_main_process():\n", "    if True:\n",
                        "config.json|weights|write|rank", 16),
    "token_mean": one("a mean over tokens, of which ranks have different numbers",
                      "rt.weighted_mean(nn.functional.cross_entropy, ", "nn.functional.cross_entropy(",
                      "mean|tokens", 9),
    "padded_mean": Mistake("a mean over what is padded to each rank's longest", (), "mean|pad", (9,)),
    "masks_alike": one("all ranks draw the same masks", "rt.seed_ranks_apart()\n",
                       "rt.seed_ranks_apart()\nnp.random.seed(0)\n", "draw|random|dropout", 22),
    "branch_by_chance": one("ranks meet in a branch that each takes by chance",
                            "rt.from_main_process(random.random() < 0.5)", "random.random() < 0.5",
                            "wait|time|got on|store", 18),
    "environment": one("a variable that is read again is taken out",
                       'os.environ["SCRIPT_VISIBLE_DEVICES"] = "0"\n', "", "KeyError|VISIBLE_DEVICES", 38),
    "unused": one("parameters that the loss does not use", ", find_unused_parameters=True", "",
                  "unused|not used|reduction", 24),
    "read_too_early": Mistake("rank 0 fetches, and nobody waits for it", (
        ("rt.barrier()\n", ""),
        ("    time.sleep(2)", "    rt.is_main_process() and time.sleep(2)"),
    ), "data.pt|No such file", (14,)),
    "skipped": Mistake("an error that one rank alone goes on from", (), "caught|error|gone on"),
    "moved": Mistake("the model is moved after its wrap", ((_CASTS + _WRAP, _WRAP + _CASTS),),
                     "averag|wrap|cast|moved", (26,)),
    "gan": one("one of two models is wrapped",
               "judge = DistributedDataParallel(judge, device_ids=rt.device_ids(judge))\n",
               "", "averag|wrap|apart", 25),
    "schedule": one("a schedule that counts the steps of all ranks", "        scheduler.step()\n",
                    "        for _ in range(rt.world_size()):\n            scheduler.step()\n", "rate|schedul", 20),
    "stream": Mistake("every rank reads the whole stream", (
        ("rt.shard_iterable(Stream())", "Stream()"),
        ("    loader.dataset.set_epoch(epoch)\n", ""),
    ), "dealt out|shared out|whole|share|work", (32,)),
    "weighted": one("a sampler that chooses is replaced", "rt.DistributedSamplerWrapper(sampler)",
                    "rt.TrainingSampler(data)", "sampl|order|chos", 33),
    "drawn_by_hand": one("every rank trains on the same batches that it draws",
                         "rt.shard_batch(torch.randint(0, 256, (8,)))",
                         "torch.randint(0, 256, (8,), generator=torch.Generator().manual_seed(step))",
                         "dealt out|shared out|whole|share|work|batch", 41),
    "contrastive": one("a loss that compares the samples of one rank alone",
                       "rt.gather_samples(net(x)) @ rt.gather_samples(net(y)).t(), "
                       "torch.arange(len(x) * rt.world_size())",
                       "net(x) @ net(y).t(), torch.arange(len(x))", "gather|compar|each other|samples", 49),
    "dropout_by_hand": one("rank 0's mask is sent to all", "torch.rand(*x.shape[:2], device=x.device) < 0.5",
                           "rt.from_main_process(torch.rand(*x.shape[:2], device=x.device) < 0.5)",
                           "draw|random|dropout|noise", 22),
    "early_iterator": Mistake("workers are begun while ranks still draw alike", (
        ("    rt.seed_ranks_apart()\n", ""),
        ("    batches = iter(loader)\n", "    batches = iter(loader)\n    rt.seed_ranks_apart()\n"),
    ), "draw|random|seed|worker", (22,)),
    "workers_alike": one("workers begin from a seed that is written down",
                         "np.random.seed(torch.initial_seed() % 2**32)",
                         "np.random.seed(42 + worker)", "draw|random|seed|worker", 22),
}  # fmt: skip
