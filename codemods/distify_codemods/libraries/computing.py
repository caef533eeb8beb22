"""What libraries do to batches: of which it is known, or does not matter."""

from __future__ import annotations

from functools import cache

from distify_codemods.libraries import graphs, torch_losses

#: Libraries whose functions are in the tables, or compute nothing on batches.
LIBRARIES = (
    "torch.", "torchvision.", "torchaudio.", "torchtext.", "torch_geometric.", "torch_scatter.", "timm.", "numpy.",
    "einops.", "math.", "cmath.", "builtins.", "random.", "itertools.", "functools.", "operator.", "collections.",
    "copy.", "time.", "datetime.", "os.", "sys.", "io.", "re.", "string.", "typing.", "contextlib.", "dataclasses.",
    "enum.", "types.", "abc.", "inspect.", "warnings.", "gc.", "logging.", "json.", "pickle.", "pathlib.", "argparse.",
    "tqdm.", "PIL.", "local.", "yaml.", "toml.", "omegaconf.", "hydra.", "absl.", "click.", "fire.", "easydict.",
    "ml_collections.", "rich.", "loguru.", "statistics.", "bisect.", "heapq.", "queue.", "hashlib.", "uuid.",
)  # fmt: skip
#: Whose modules take each sample by itself, but for what the tables say.
MODULES = (
    "torch.", "torchvision.", "torchaudio.", "timm.", "transformers.", "segmentation_models_pytorch.",
    "efficientnet_pytorch.", "torch_geometric.", "einops.", "lpips.", "pytorch_msssim.", "builtins.",
    "functools.", "local.",
)  # fmt: skip
#: Of these: what was read or fetched can be anything, what detects objects counts boxes.
OTHERS = ("torch.load", "torch.hub.", "torch.jit.load", "torchvision.models.detection.", *graphs.MIXING)
#: What models of these have by name, modules and methods that take each sample by itself, as the model does.
_PARTS = {
    "torchvision.models.": """conv1 bn1 relu maxpool layer1 layer2 layer3 layer4 avgpool fc features classifier conv0
    norm0 pool0 stem trunk_output conv_proj encoder heads head norm flatten Conv2d_1a_3x3 Conv2d_2a_3x3 Conv2d_2b_3x3
    maxpool1 Conv2d_3b_1x1 Conv2d_4a_3x3 maxpool2 conv5""",
    "timm.": """conv1 bn1 act1 maxpool layer1 layer2 layer3 layer4 global_pool fc conv_stem blocks conv_head bn2 act2
    classifier patch_embed pos_drop patch_drop norm_pre norm fc_norm head_drop head stem stages layers features
    forward_features forward_head""",
}
#: Message passing: each row of what it is given, a node of a graph, becomes something of its neighbours.
GRAPHS = ("torch_geometric.nn.", "dgl.nn.", "torch.sparse.mm", "torch.spmm", "torch_sparse.")
#: Of these: what takes each node by itself.
OF_EACH_NODE = frozenset(
    f"torch_geometric.nn.{name}"
    for name in ("Linear", "dense.Linear", "dense.linear.Linear", "MLP", "models.MLP", "models.mlp.MLP")
)
#: What deals graphs out in batches, or a graph in parts.
GRAPH_BATCHES = ("torch_geometric.loader.", "torch_geometric.data.Batch", "dgl.dataloading.", "dgl.batch")
#: They return what they are given, in another form.
PASSING = (
    "torch.jit.script", "torch.jit.trace", "torch.compile", "copy.deepcopy", "copy.copy", "torch.nn.Sequential",
    "torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.optim.swa_utils.AveragedModel", "torch.nn.DataParallel",
)  # fmt: skip
#: Functions that make of all that they are given one thing, or an order.
RELATING = ("statistics.", "heapq.nlargest", "heapq.nsmallest")
_READING = frozenset(f"builtins.{name}" for name in "abs bool float int len max min print range round str sum".split())
#: Models that may compute the loss themselves where they are given one of these. Those of these names do: a mean over
#: what is labelled, often tokens, of which samples have different numbers; what is labelled -100 does not count. Others
#: have losses of their own, over boxes or pixels, or none.
OF_LABELS = "transformers."
_MEANS_OVER_LABELS = (
    "LMHead", "DoubleHeads", "ForCausalLM", "ForMaskedLM", "ForSeq2SeqLM", "ForConditionalGeneration",
    "ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering", "ForMultipleChoice",
    "ForNextSentencePrediction", "ForPreTraining", "ForImageClassification", "ForAudioClassification",
)  # fmt: skip
#: Of these, those with one label for each sample.
_OF_WHOLE_SAMPLES = (
    "ForSequenceClassification", "ForMultipleChoice", "ForNextSentencePrediction", "ForImageClassification",
    "ForAudioClassification", "ForVideoClassification",
)  # fmt: skip
LABELS = frozenset("labels label_ids start_positions end_positions next_sentence_label return_loss".split())
#: Methods of dictionaries and the like, whatever class has them.
PLAIN = frozenset("get items keys values pop update append extend index count copy format join split strip".split())
#: Modules that return several tensors, as those of transformers do.
OF_SEVERAL = frozenset(
    [
        *(f"torch.nn.{name}" for name in "LSTM GRU RNN LSTMCell MultiheadAttention AdaptiveLogSoftmaxWithLoss".split()),
        "torchvision.models.inception_v3", "torchvision.models.googlenet",
    ]
)  # fmt: skip
_MODELS = (
    "torch.nn.", "torchvision.models.", "timm.", "transformers.", "segmentation_models_pytorch.", "lpips.",
    "efficientnet_pytorch.", "torch_geometric.nn.", "pytorch_msssim.",
)  # fmt: skip


def is_a_model(name: str) -> bool:
    """Whether what a library's function or class of that name makes is a model, or what prepares its inputs, that is
    given tensors and texts; a pipeline of transformers opens what it is given the path of."""
    return name.startswith(_MODELS) and "pipeline" not in name


#: What makes encoders that return a list of feature maps, and what they are told for that, if anything.
_OF_FEATURES = {
    "segmentation_models_pytorch.encoders.get_encoder": "", "timm.create_model": "features_only",
    "timm.models.create_model": "features_only",
}  # fmt: skip


def told_to_list(name: str) -> str | None:
    """By which argument a model returns a list of feature maps; empty: it always does; None: it never does."""
    return _OF_FEATURES.get(name)


#: Functions, and methods of tensors, that do.
SEVERAL = frozenset(
    """chunk split unbind tensor_split hsplit vsplit dsplit meshgrid broadcast_tensors max min median mode sort topk
    kthvalue cummax cummin aminmax qr svd eig eigh slogdet lu lstsq frexp std_mean var_mean gradient
    pad_packed_sequence multi_head_attention_forward""".split()
)


def only_reads(name: str) -> bool:
    """Whether a function makes something new of what it is given, and changes none of it."""
    of_torch = name.startswith("torch.") and name.count(".") == 1
    computes = of_torch or name.startswith(("torch.nn.functional.", "math.")) or name in _READING
    return computes and name not in PASSING and not name.endswith("_")


def has_a_label_for_each_sample(name: str) -> bool:
    """Whether a model of such a class computes its loss as a mean over samples, whatever is in them."""
    return name.startswith(OF_LABELS) and any(head in name for head in _OF_WHOLE_SAMPLES)


def is_a_mean_over_labels(name: str) -> bool:
    """Whether a model of such a class computes its loss as a mean over what is labelled."""
    return name.startswith(OF_LABELS) and any(head in name for head in _MEANS_OVER_LABELS)


def has_parts(model: str) -> bool:
    """Whether it is a model whose parts are known by name, `model` being what made it."""
    return model.startswith(tuple(_PARTS)) and not model.startswith(OTHERS)


def is_a_part(model: str, name: str) -> bool:
    """Whether it is a part of such a model."""
    return has_parts(model) and any(name in names.split() for own, names in _PARTS.items() if model.startswith(own))


@cache
def is_a_layer(name: str) -> bool:
    """Whether it does to each sample what it does alone, whatever it is made with."""
    plain = name.startswith(MODULES) and not name.startswith((*OTHERS, "transformers."))
    return (plain and name not in PASSING) or torch_losses.of_class(name) is not None
