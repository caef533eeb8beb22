"""DATA05: batches that all ranks see whole are loaded in shares, and put together before the script sees them."""

from __future__ import annotations

from distify_codemods.rules.base import Context, Rule
from distify_codemods.rules.examples import Example, LeftAlone

CODE = "DATA05"
_WHY = "each rank loads its share of a batch's samples, and all get the whole batch"


def run(context: Context) -> None:
    if not context.shares_forwards:
        alike = f"all ranks make the same batches, and each keeps its own samples{context.unless}"
        context.not_needed(alike if context.decisions.slicings else "each rank loads its own samples")
        return
    for one in context.decisions.shared_loading:
        if context.editable(one.module, one.node, "the loader is made here"):
            context.put_into(one.module, one.node, "shard_loading({})", _WHY)
            context.applied("ranks load shares of each batch, where the run finds that faster", one.module, one.node)
    if not context.decisions.shared_loading:
        context.not_needed("every rank loads the batches of the script, whole")


_SCRIPT = """
  import torch
  from PIL import Image
  from torch import nn
  from torch.utils.data import DataLoader, Dataset
  from torchvision.transforms import functional as F
  {ours}


  class Pictures(Dataset):
      def __len__(self):
          return 600

      def __getitem__(self, index):
          return F.to_tensor(Image.open(f"{index}.png").convert("RGB"))


  {group}
- loader = DataLoader(Pictures(), batch_size=8, shuffle=True)
+ loader = rt.shard_loading(DataLoader(Pictures(), batch_size=8, shuffle=True))
  model = nn.Conv2d(3, 8, 3)
+ rt.data_parallel(model)
  {optimizer}
  for epoch in range(3):
      for x in loader:
          out = model(x).flatten(1)
          loss = torch.cdist(out, out).mean()
          {step}
"""
_KEEPS = _SCRIPT.replace("return F", "self.seen = index\n          return F")

RULE = Rule(
    code=CODE,
    name="loading",
    why="Where forward passes are shared, each rank sees whole batches, and N ranks load each sample N times. Where "
    "samples take long to read, training waits for that.",
    safety="For a DataLoader of torch that loops with forward passes go through, over a data set whose samples are "
    "seen to follow from their indices and from torch's, NumPy's and Python's random numbers alone: nothing is kept, "
    "and nothing unknown is called. The run times some batches, checks one, and loads shares only where that is "
    "faster. A batch is bit for bit what one process would have loaded. A data set that is found to draw random "
    "numbers is loaded whole on every rank, and the run says so: in shares it would draw others, as would the script.",
    run=run,
    limits="Samples go over the network to all ranks, and each puts the batch together. "
    "`rt.shard_loading(loader, draws=True)` loads shares of a data set that draws, too (a flip, a crop): its random "
    "numbers follow from a sample's place then, and the script's own go on as if it had drawn none. They are as good "
    "as those of one process, and others.",
    examples=(Example(strategy="shared", script=_SCRIPT), LeftAlone(strategy="shared", script=_KEEPS)),
)
