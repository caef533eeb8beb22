"""What libraries do to the samples of a batch that a `collate_fn` puts together."""

from __future__ import annotations

#: Along a new dimension, the first one unless another is named; all must be of one form.
STACKING = frozenset({"torch.stack", "numpy.stack"})
#: Make one tensor of a list of numbers or lists, or of what is one already: all must be of one form.
MAKING = frozenset(
    """torch.tensor torch.as_tensor torch.asarray torch.Tensor torch.LongTensor torch.FloatTensor torch.IntTensor
    torch.BoolTensor torch.DoubleTensor torch.ByteTensor torch.from_numpy numpy.array numpy.asarray""".split()
)
#: Behind each other along the dimension that is there: right for samples of one row.
JOINING = frozenset({"torch.cat", "torch.concat", "torch.concatenate", "torch.vstack"})
PADDING = frozenset({"torch.nn.utils.rnn.pad_sequence"})
#: Of all sizes, the first is the number of rows.
FILLING = frozenset("torch.zeros torch.ones torch.empty torch.full numpy.zeros numpy.ones numpy.full".split())
#: Collate functions that stack the parts of samples.
DEFAULT = frozenset(
    """torch.utils.data.default_collate transformers.default_data_collator
    transformers.DefaultDataCollator""".split()
)
#: And those that pad each part, along its second dimension.
PADS_PARTS = frozenset(
    """transformers.DataCollatorWithPadding transformers.DataCollatorForTokenClassification
    transformers.DataCollatorForSeq2Seq""".split()
)
#: Of numbers that depend on nothing else, they make the same on all ranks.
PURE = frozenset(
    """torch.tensor torch.as_tensor torch.device torch.arange torch.zeros torch.ones torch.full torch.eye numpy.array
    builtins.int builtins.float builtins.str builtins.bool builtins.len builtins.range builtins.list builtins.tuple
    builtins.dict builtins.set builtins.max builtins.min builtins.sum builtins.abs builtins.isinstance builtins.getattr
    builtins.hasattr builtins.zip builtins.enumerate builtins.sorted""".split()
)
#: What makes one thing of all that it is given.
OF_ALL = frozenset(
    """builtins.max builtins.min builtins.sum builtins.any builtins.all builtins.set builtins.len numpy.max
    numpy.amax numpy.min numpy.mean""".split()
)
#: Methods after which a tensor's rows are what they were.
ROW_METHODS = frozenset(
    """long float int bool double half short byte to type cpu cuda numpy contiguous clone detach pin_memory astype
    requires_grad_ eq ne gt lt ge le""".split()
)
#: Those of which no dimension that they are given is the first: `x.unsqueeze(1)`, `x.transpose(1, 2)`.
BEHIND = frozenset("unsqueeze squeeze transpose flatten".split())
