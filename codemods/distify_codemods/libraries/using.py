"""Models of libraries: which results of theirs hang on all of their parameters.

What is not told here may leave some without gradients: a pooler that nothing takes, a head that is left out, layers
that are dropped by chance, a mask token.
"""

from __future__ import annotations

import re

#: Models that return one thing, made with all that they have. (Those of segmentation_models_pytorch take an encoder as
#: far down as `encoder_depth` says, which is not all of it for some by default, and keep the rest.)
_OF_ONE_RESULT = (
    "timm.", "torchvision.models.", "efficientnet_pytorch.", "monai.networks.", "torch_geometric.nn.",
)  # fmt: skip
_TRANSFORMERS = "transformers."
_DIFFUSERS = "diffusers."
#: What gives a model back with more in it, or as another class: its first argument is the model.
_AROUND = ("peft.get_peft_model", "peft.PeftModel")
#: Libraries whose objects may be called in a model, and have no parameters.
_WITHOUT = ("einops.", "torchvision.transforms.", "torchvision.ops.", "torchaudio.", "torchmetrics.", "kornia.",
            "opt_einsum.", "tqdm.", "cv2.", "PIL.", "albumentations.", "monai.transforms.")  # fmt: skip
#: How the names of classes end that turn data into what models are given.
_OF_DATA = ("Tokenizer", "TokenizerFast", "Processor", "FeatureExtractor", "Config")
#: Models of a task, whose head takes what their last layer gives.
_WITH_HEAD = re.compile(r"(For[A-Z]\w*|LMHeadModel)$")
#: Those that drop layers in some steps, or send samples to some of their experts.
_NOT_ALWAYS = re.compile(r"Wav2Vec2|Hubert|WavLM|UniSpeech|SEW|Data2VecAudio|Moe|MoE|Mixtral|Switch")
#: Those of several heads, all of which the loss alone needs.
_SEVERAL_HEADS = "ForPreTraining"
#: What is made with all of a model, under its name or its number.
_OF_HEADS = frozenset(["loss", "logits", 0])
_OF_BASES = frozenset(["pooler_output", "logits_per_image", "logits_per_text", 1])
_OF_DIFFUSION = frozenset(["sample", 0])
#: How a model of transformers is made without what only `pooler_output` needs; then its states are all that it has.
WITHOUT_POOLER = "add_pooling_layer"
_STATES = frozenset(["last_hidden_state", 0])


def is_model(name: str) -> bool:
    """Whether what a call returns is a model with parameters, for sure."""
    made = _class_of(name)
    of_task = name.startswith(_TRANSFORMERS) and bool(made.endswith("Model") or _WITH_HEAD.search(made))
    return (
        of_task
        or name.startswith("torchvision.models.")
        or name in ("timm.create_model", "timm.models.create_model", "torch.hub.load")
    )


def may_be_model(name: str) -> bool:
    """Whether what a call returns, of whatever library but torch, may have parameters."""
    return not (name.startswith(_WITHOUT) or _class_of(name).endswith(_OF_DATA))


def is_dictionary(name: str) -> bool:
    """Whether objects of a class are dictionaries, though nobody calls it so: what its models return."""
    return name.startswith(_TRANSFORMERS) and "Output" in _class_of(name)


def is_around(name: str) -> bool:
    return name.startswith(_AROUND)


def needs_all(name: str, taken: set[str | int], without_pooler: bool) -> bool:
    """Whether what is taken of a model's result hangs on all of its parameters. Nothing taken: the result goes on."""
    made = _class_of(name)
    if name.startswith(_OF_ONE_RESULT):
        return not taken
    if name.startswith(_DIFFUSERS):
        return not taken.isdisjoint(_OF_DIFFUSION)
    if not name.startswith(_TRANSFORMERS) or _NOT_ALWAYS.search(made):
        return False
    if made.endswith(_SEVERAL_HEADS):
        return "loss" in taken
    if _WITH_HEAD.search(made):
        return not taken.isdisjoint(_OF_HEADS)
    return not taken.isdisjoint(_OF_BASES) or (without_pooler and not taken.isdisjoint(_STATES))


def _class_of(name: str) -> str:
    """`BertModel` of `transformers.BertModel.from_pretrained`."""
    return next((part for part in reversed(name.split(".")) if part[:1].isupper()), "")


#: The class method by which classes of libraries, and those derived from them, are made with weights that were saved.
FROM_PRETRAINED, CONFIG = "from_pretrained", "transformers.AutoConfig.from_pretrained"
_LOADED_BY_CLASS = (_TRANSFORMERS, _DIFFUSERS, "huggingface_hub.")


def loads_classes(name: str) -> bool:
    return name.startswith(_LOADED_BY_CLASS)


def is_made_by_a_config(name: str) -> bool:
    """Whether such a class is given a configuration first; others are given what was saved beside their weights."""
    return name.startswith(_TRANSFORMERS)
