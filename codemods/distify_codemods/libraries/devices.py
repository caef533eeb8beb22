"""GPUs: what chooses one, what uses it, and where its number comes from."""

from __future__ import annotations

import re

DEVICE = "torch.device"
#: What takes a device first.
TAKES_ONE = frozenset({DEVICE, "torch.set_default_device"})
#: What the name of a GPU begins with.
GPU = "cuda"
#: What it calls Apple's GPU, and who may find one.
APPLES = "mps"
ASKS_FOR_APPLES = (
    "torch.backends.mps.is_available", "torch.backends.mps.is_built", "torch.mps.is_available",
    "torch.accelerator.is_available", "torch.accelerator.current_accelerator",
)  # fmt: skip
#: What a tensor says of itself that another may be given: no number of a GPU.
OF_TENSORS = frozenset({"dtype", "device", "type"})
#: How the full names of what concerns GPUs begin.
CUDA = "torch.cuda."
#: Choose a GPU for what follows, and for what stands under it.
CHOOSES = "torch.cuda.set_device"
UNDER = "torch.cuda.device"
#: What uses a GPU, or says which one later things are put on.
USES = (CUDA, "torch.load", "torch.set_default_device", "torch.set_default_tensor_type")
#: What neither touches a device nor draws random numbers nor reads data.
HARMLESS = (
    "argparse.", "builtins.", "os.", "time.", "datetime.", "logging.", "sys.", "json.", "yaml.", "csv.", "glob.",
    "shutil.", "re.", "copy.", "math.", "string.", "warnings.", "pathlib.", "collections.", "functools.", "itertools.",
    "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.set_device", "torch.backends.",
    "torch.accelerator.", "torch.manual_seed", "torch.cuda.manual_seed", "numpy.random.seed", "random.seed",
    "torchvision.transforms.", "torch.no_grad", "torch.inference_mode", "torch.enable_grad",
    "torch.set_default_dtype", "torch.set_num_threads",
)  # fmt: skip
#: What an option of the command line may be made into, so that it names a device.
OPTIONS = frozenset({"builtins.str", DEVICE})
#: What reads settings from files, the environment or a person.
READ_SETTINGS = (
    "yaml.", "json.", "toml.", "tomli.", "tomllib.", "omegaconf.", "configparser.", "os.environ", "os.getenv",
    "builtins.input", "dotenv.", "ml_collections.", "hydra.", "fvcore.common.config.", "absl.flags.",
    "transformers.HfArgumentParser",
)  # fmt: skip
_MAKES = "hydra.utils."  # whatever a setting names

#: What a device is called, alone or with its number: `cuda:1`, `auto`; and numbers alone.
_NAME = re.compile(r"[A-Za-z]*(:?\d+(,\s*\d+)*)?")


def may_name_one(default: object) -> bool:
    """Whether an option that has this default may be a device: not an address, nor a file."""
    return not isinstance(default, (str, float)) or (isinstance(default, str) and _NAME.fullmatch(default) is not None)


def is_setting(name: str) -> bool:
    """Whether what a call returns is a number, a word or a table of them."""
    return name.startswith(READ_SETTINGS) and not name.startswith(_MAKES)
