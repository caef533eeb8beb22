"""Mistakes of shapes that conversions went wrong on: each an edit of what `--strategy sharded --partial` writes.

Each script of `shapes/` has one. What no run on CPUs shows has none: who draws which noise in workers, or sends its own
to all (`verify` takes chance out), lines for several GPUs, what a switch in the text turns off, other programs.
"""

from __future__ import annotations

from planted import Mistake, one

_CASTS = "        self.model.bfloat16()\n        self.model.to(torch.get_default_dtype())\n"
_WRAP = "        self.model = DistributedDataParallel(self.model, device_ids=rt.device_ids(self.model))\n"

#: By the name of the script.
MISTAKES = {
    "saved_by_all": one("every rank saves the same files", "    if rt.is_main_process():\n", "    if True:\n",
                        "config.json|weights|write|rank"),
    "token_mean": one("a mean over tokens, of which ranks have different numbers",
                      "rt.weighted_mean(nn.functional.cross_entropy, ", "nn.functional.cross_entropy(",
                      "mean|tokens"),
    "padded_mean": Mistake("a mean over what is padded to each rank's longest", (), "mean|pad"),
    "masks_alike": one("all ranks draw the same masks", "rt.seed_ranks_apart()\n",
                       "rt.seed_ranks_apart()\nnp.random.seed(0)\n", "draw|random|dropout"),
    "branch_by_chance": one("ranks meet in a branch that each takes by chance",
                            "rt.from_main_process(random.random() < 0.5)", "random.random() < 0.5",
                            "wait|time|got on|store"),
    "environment": one("a variable that is read again is taken out",
                       'os.environ["SCRIPT_VISIBLE_DEVICES"] = "0"\n', "", "KeyError|VISIBLE_DEVICES"),
    "unused": one("parameters that the loss does not use", ", find_unused_parameters=True", "",
                  "unused|not used|reduction"),
    "read_too_early": Mistake("rank 0 fetches, and nobody waits for it", (
        ("rt.barrier()\n", ""),
        ("    time.sleep(2)", "    rt.is_main_process() and time.sleep(2)"),
    ), "data.pt|No such file"),
    "skipped": Mistake("an error that one rank alone goes on from", (), "caught|error|gone on"),
    "moved": Mistake("the model is moved after its wrap", ((_CASTS + _WRAP, _WRAP + _CASTS),),
                     "averag|wrap|cast|moved"),
}  # fmt: skip
