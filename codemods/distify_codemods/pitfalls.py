"""What goes wrong when a script for one GPU is made distributed, and which rule sees to it.

The rules name the numbers of their pitfalls (`Rule.pitfalls`); docs/pitfalls.md is made of both.
"""

from __future__ import annotations

from distify_codemods.records import dataclass


@dataclass(frozen=True)
class Pitfall:
    """`symptom`: what its victim sees. `answer`: what a conversion does. `source`: where people met it."""

    number: int
    title: str
    symptom: str
    answer: str
    source: str


PITFALLS: tuple[Pitfall, ...] = (
    Pitfall(
        1, "set_epoch is forgotten", "every epoch has the order of the first; nothing says so",
        "`set_epoch(epoch)` before the loader is iterated, wherever its loop stands",
        "pytorch#31771, pytorch#31232",
    ),
    Pitfall(
        2, "`shuffle=True` stays beside a sampler", "ValueError as the loader is made",
        "`shuffle` moves into the sampler: a keyword, a position, an entry of `**kwargs`",
        "torch.utils.data.DataLoader",
    ),
    Pitfall(
        3, "the batch size becomes one per process", "N times the batch, a share of the steps, another result",
        "the global batch stays: each rank takes its part of it, and a batch that does not divide stops the run",
        "Accelerate, performance guide; accelerate#2903",
    ),
    Pitfall(
        4, "the learning rate no longer fits", "training diverges, or learns too slowly",
        "the global batch is kept, so the rate is, too",
        "arXiv 1706.02677, arXiv 2205.10287, DistributedDataParallel's documentation",
    ),
    Pitfall(
        5, "padding counts samples of an evaluation twice", "an accuracy that moves with the number of GPUs",
        "evaluations are dealt out without padding, or every rank evaluates everything",
        "pytorch#25162, Lightning#2398",
    ),
    Pitfall(
        6, "an evaluation drops samples so that ranks have equal shares", "samples that are never counted",
        "nothing is dropped that was not dropped before",
        "torch.utils.data.DataLoader",
    ),
    Pitfall(
        7, "a figure is one rank's", "the accuracy of a share, or an N-th of the accuracy",
        "sums are all-reduced before they are divided; what is no plain sum is computed from gathered outputs",
        "pytorch/examples, imagenet/main.py",
    ),
    Pitfall(
        8, "gradients of summed losses are averaged", "steps that are N times too small",
        "a summed loss is multiplied by the world size where `backward` is called",
        "pytorch#37359",
    ),
    Pitfall(
        9, "a mean is divided by a count that differs per rank", "a small drift from the script on one GPU",
        "the divisor is the one of the whole batch",
        "transformers#34242",
    ),
    Pitfall(
        10, "checkpoints have `module.` keys", "missing keys when one is loaded without DistributedDataParallel",
        "what is saved and loaded is the model inside",
        "pytorch#41048, pytorch#3805",
    ),
    Pitfall(
        11, "`_orig_mod.` and `module.` pile up", "keys that match neither the one model nor the other",
        "exactly the prefix that the conversion brought is taken off",
        "pytorch#101107",
    ),
    Pitfall(
        12, "checkpoints are loaded onto the GPU that wrote them", "N processes on GPU 0, which runs out of memory",
        "`map_location` is the rank's own device",
        "pytorch#23138, examples#1078",
    ),
    Pitfall(
        13, "the device is set after its first use", "each process holds memory on GPU 0",
        "the process group comes before the first device, and pins it",
        "apex#222",
    ),
    Pitfall(
        14, "all ranks download at once, or build the cache of a data set",
        "damaged archives, files that are not there",
        "rank 0 first, then the first rank of each other node, then the rest",
        "tutorials#3065, examples#1411",
    ),
    Pitfall(
        15, "all ranks make a folder at once", "FileExistsError, now and then",
        "one rank makes it, or it may exist",
        "the race between `os.path.exists` and `os.makedirs`",
    ),
    Pitfall(
        16, "every rank writes", "N runs in the tracker, N lines for each line",
        "output, progress bars, writers and trackers are rank 0's",
        "timm#1309, Lightning#11380",
    ),
    Pitfall(
        17, "a collective under a guard of rank 0", "the run hangs until a timeout ends it",
        "what stands under a guard uses the model inside, and nothing that ranks do together",
        "pytorch#89716, Lightning#19106",
    ),
    Pitfall(
        18, "ranks decide differently", "a hang, or files that contradict each other",
        "a decision hangs on figures that all ranks share, or it needs you",
        "speechbrain#1939, Accelerate, troubleshooting guide",
    ),
    Pitfall(
        19, "ReduceLROnPlateau sees a rank's own loss", "learning rates that drift apart in silence",
        "the figure is averaged over ranks before the scheduler sees it",
        "accelerate#3797, DALLE-pytorch#268",
    ),
    Pitfall(
        20, "schedules count the steps of another run", "the rate falls too early or too late",
        "the number of steps stays, and so do schedules and `len(loader)`",
        "accelerate#2142, diffusers#3954",
    ),
    Pitfall(
        21, "BatchNorm sees a rank's share", "worse results at small batches, other ones at any",
        "its statistics are those of the global batch, over Gloo as well as over NCCL",
        "pytorch#49794",
    ),
    Pitfall(
        22, "all ranks draw the same augmentation", "less variety than one GPU had; nothing says so",
        "ranks draw apart once the model and the splits are made",
        "detr#297",
    ),
    Pitfall(
        23, "ranks split the data differently", "validation data is trained on; nothing says so",
        "splits are drawn from rank 0's numbers on every rank",
        "Lightning#7728, Lightning#18638",
    ),
    Pitfall(
        24, "parameters get no gradient in some step", "RuntimeError: expected to have finished reduction",
        "`find_unused_parameters` where it is needed, and only there",
        "pytorch#43259",
    ),
    Pitfall(
        25, "one of several models is wrapped", "the others drift apart; nothing says so",
        "every model whose parameters an optimizer has is wrapped",
        "generative adversarial networks in general",
    ),
    Pitfall(
        26, "a model is changed after it is wrapped", "replicas that never agree again",
        "the wrap comes after initialising, loading, freezing and replacing",
        "DistributedDataParallel's documentation",
    ),
    Pitfall(
        27, "two forward passes before one backward pass", "a buffer was modified in place",
        "BatchNorm over all ranks keeps nothing for its backward pass that a broadcast of buffers writes to",
        "pytorch#22095, pytorch#65907",
    ),
    Pitfall(
        28, "reentrant checkpoints and shared parameters", "a parameter is marked as ready twice",
        "gradients are averaged by a line of their own, where DistributedDataParallel would count a part twice",
        "accelerate#3536",
    ),
    Pitfall(
        29, "methods of a wrapped model", "AttributeError; or gradients that are never averaged",
        "attributes come from the model inside; what trains through other methods has its gradients averaged apart",
        "pytorch#108484, MONAI GenerativeModels#354",
    ),
    Pitfall(
        30, "accumulation synchronises every backward pass", "right, and slow",
        "the last one before a step averages; the flag of `no_sync()` is set over forward and backward pass",
        "DistributedDataParallel.no_sync",
    ),
    Pitfall(
        31, "clipping sees gradients that are not averaged", "each rank clips by a norm of its own",
        "gradients are averaged before anything reads them",
        "horovod/torch/optimizer.py",
    ),
    Pitfall(
        32, "every rank reads the whole of an iterable data set", "N times the data, at no gain",
        "the stream is dealt out over ranks and workers",
        "datasets#5360, Lightning#15734",
    ),
    Pitfall(
        33, "a sampler is replaced", "its weights are lost, or nothing gets faster",
        "the sampler goes on choosing, alike on all ranks, and what it chose is dealt out",
        "pytorch#77154, pytorch#23430",
    ),
    Pitfall(
        34, "ranks have unequal numbers of batches", "a hang at the end of an epoch",
        "training is padded to equal shares, and says so",
        "pytorch#38174",
    ),
    Pitfall(
        35, "every rank starts all workers", "more processes than cores",
        "workers are divided over the ranks of a node",
        "pytorch/examples, imagenet/main.py",
    ),
    Pitfall(
        36, "`--local_rank` is asked for", "unrecognized arguments: --local-rank",
        "the launcher's environment says it",
        "timm#1724, BasicSR#626",
    ),
    Pitfall(
        37, "`cuda:0` stands in the script", "all ranks on one GPU",
        "every device is the rank's own",
        "torch.cuda.set_device",
    ),
    Pitfall(
        38, "the script sets CUDA_VISIBLE_DEVICES", "invalid device ordinal",
        "the assignment goes",
        "Lightning#2407",
    ),
    Pitfall(
        39, "nn.DataParallel stays", "`module.module.`, and threads within processes",
        "it goes, and its `.module` goes on working",
        "torch.nn.DataParallel's documentation",
    ),
    Pitfall(
        40, "the script is distributed already", "two process groups",
        "nothing is written, and how to launch it is said",
        "pytorch#68320",
    ),
    Pitfall(
        41, "batches are drawn without a DataLoader", "every rank trains on the same batches",
        "all ranks draw the same batch, and each takes its share of it",
        "nanoGPT, train.py",
    ),
    Pitfall(
        42, "hidden states go from batch to batch", "states that do not belong to their text",
        "the columns of the folded text are shared out, never its length",
        "pytorch/examples, word_language_model",
    ),
    Pitfall(
        43, "torch.compile and the wrap", "graph breaks, keys that do not match",
        "the compiled model is wrapped, its checkpoints keep their keys",
        "PyTorch, torch.compile and DDP",
    ),
    Pitfall(
        44, "gradients taken by `torch.autograd.grad`", "they are never averaged, and nothing says so",
        "gradients are averaged by themselves, after the last backward pass",
        "DistributedDataParallel's documentation",
    ),
    Pitfall(
        45, "one rank resumes", "ranks in different epochs; a file that is read while it is written",
        "every rank loads, after a file has been written whole",
        "horovod, examples/pytorch/pytorch_imagenet_resnet50.py",
    ),
    Pitfall(
        46, "the process group is left open", "warnings, aborts at exit",
        "the runtime takes it down by itself, however the script ends",
        "torch.distributed.destroy_process_group",
    ),
    Pitfall(
        47, "the others wait for rank 0 too long", "the watchdog ends the run",
        "ranks wait for rank 0 through the store, outside of collectives, for as long as it takes",
        "pytorch#46874",
    ),
    Pitfall(
        48, "local and global ranks are mixed up", "one writer per node on a shared disk",
        "files are written by global rank 0, devices follow the local rank",
        "Lightning#11380",
    ),
    Pitfall(
        49, "the loss compares samples of a batch", "another loss; nothing says so",
        "what the loss compares is gathered over ranks, differentiably, or it needs you",
        "contrastive losses on several GPUs; SimCLR",
    ),
)  # fmt: skip
