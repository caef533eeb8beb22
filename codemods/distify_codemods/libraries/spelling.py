"""Under which one name a thing of a library is known: where it lives differs between versions and habits."""

from __future__ import annotations

import re
from functools import cache

#: What is written there as it stands: most names begin with none of that, and expressions are dear to compile.
_BEGINS = re.compile(r"(?:\w|\\\.)*")
#: Files of packages whose contents the packages have themselves: what stands in such a file, and how it is known.
_FILES = tuple(
    (_BEGINS.findall(written)[0].replace("\\", ""), written, known)
    for written, known in (
        (r"torch\.nn\.modules\.(?:[a-z]\w*\.)?(_?[A-Z]\w*)", r"torch.nn.\1"),
        (r"torch\.nn\.parameter\.(\w+)", r"torch.nn.\1"),
        (r"torch\.nn\.(?:parallel|parallel\.data_parallel)\.DataParallel", "torch.nn.DataParallel"),
        (r"torch\.nn\.parallel\.(?:data_parallel|distributed)\.(\w+)", r"torch.nn.parallel.\1"),
        (r"torch\.nn\.parallel\.(replicate|parallel_apply)\.\1", r"torch.nn.parallel.\1"),
        (r"torch\.optim\.(?!lr_scheduler\.|swa_utils\.)[a-z]\w*\.([A-Z]\w*)", r"torch.optim.\1"),
        (r"torch\.utils\.data\.(?:dataset|sampler|dataloader|distributed)\.(\w+)", r"torch.utils.data.\1"),
        (r"torch\.utils\.data\._utils\.collate\.default_collate", "torch.utils.data.default_collate"),
        (r"torch\.autograd\.variable\.Variable", "torch.autograd.Variable"),
        (r"torch\.autograd\.(?:grad_mode\.)?(no_grad|enable_grad|inference_mode|set_grad_enabled)", r"torch.\1"),
        (r"torch\.random\.(manual_seed|seed|get_rng_state|set_rng_state)", r"torch.\1"),
        (r"torch\.cuda\.random\.(\w+)", r"torch.cuda.\1"),
        (r"torch\.utils\.tensorboard\.writer\.(\w+)", r"torch.utils.tensorboard.\1"),
        (r"tensorboardX\.writer\.(\w+)", r"tensorboardX.\1"),
        (r"timm\.data\.mixup\.(\w+)", r"timm.data.\1"),
        (r"timm\.loss\.[a-z]\w*\.(\w+)", r"timm.loss.\1"),
        (r"webdataset\.(?:compat|shardlists|pipeline|writer)\.(\w+)", r"webdataset.\1"),
        (r"torch_geometric\.data\.(?:dataloader\.)?DataLoader", "torch_geometric.loader.DataLoader"),
        (r"torch_geometric\.loader\.dataloader\.(\w+)", r"torch_geometric.loader.\1"),
        (r"torchtext\.legacy\.(.+)", r"torchtext.\1"),
        (r"torchtext\.data\.(?:iterator|field|dataset)\.(\w+)", r"torchtext.data.\1"),
        (r"_pickle\.(\w+)", r"pickle.\1"),
        (r"cPickle\.(\w+)", r"pickle.\1"),
        (r"tqdm\.(?:(?!contrib\b)\w+\.)?(?:tqdm|tqdm_notebook|tqdm_gui)", "tqdm.tqdm"),
        (r"tqdm\.(?:(?!contrib\b)\w+\.)?(?:trange|tnrange|tgrange)", "tqdm.trange"),
    )
)


@cache
def usual(name: str) -> str:
    """`torch.nn.BatchNorm2d` of `torch.nn.modules.batchnorm.BatchNorm2d`."""
    for begins, written, known in _FILES:
        found = re.fullmatch(written, name) if name.startswith(begins) else None
        name = found.expand(known) if found else name
    return name


def is_a_class(name: str) -> bool:
    """Whether something of a library is a class, as all of them write it: a call of one gives an object, never None."""
    return name.rpartition(".")[2][:1].isupper()
