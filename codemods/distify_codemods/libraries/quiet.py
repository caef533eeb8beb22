"""Libraries that compute: what is called of them writes no file and asks nobody, but for what other tables name."""

from __future__ import annotations

from functools import cache

from distify_codemods.libraries import computing, downloads, effects, outside, seeding, standard

_LIBRARIES = (
    *computing.LIBRARIES, *effects.KNOWN, *outside.DEBUGGERS,
    "adabelief_pytorch.", "albumentations.", "altair.", "apex.", "attr.", "attrs.", "bitsandbytes.", "bokeh.",
    "colorama.", "configargparse.", "cupy.", "datasets.", "dateutil.", "dgl.", "distify_runtime.", "docopt.", "dotenv.",
    "efficientnet_pytorch.", "ema_pytorch.", "evaluate.", "faiss.", "functorch.", "fvcore.", "gensim.", "graphviz.",
    "horovod.", "imgaug.", "jax.", "jiwer.",
    "jsonargparse.", "kornia.", "librosa.", "lion_pytorch.", "mamba_ssm.", "mcubes.",
    "memory_profiler.", "monai.", "munkres.", "networkx.", "nibabel.", "nltk.", "numba.", "nystrom_attention.",
    "optuna.create_study", "optuna.exceptions.",
    "optuna.importance.", "optuna.logging.", "optuna.pruners.", "optuna.samplers.", "optuna.study.", "optuna.trial.",
    "packaging.", "peft.", "piq.", "pkg_resources.", "plotly.", "plyfile.", "polars.", "prettytable.", "psutil.",
    "pyarrow.", "pydantic.", "pydicom.", "pykdtree.", "pynvml.", "pypose.", "pytorch_metric_learning.",
    "pytorch_msssim.", "pytz.", "rdkit.Chem.MolFromSm", "rouge.", "rouge_score.", "sacrebleu.", "safetensors.",
    "schedulefree.", "segmentation_models_pytorch.", "seqeval.", "shapely.", "simple_parsing.", "SimpleITK.", "six.",
    "sortedcontainers.", "soundfile.", "spacy.", "statsmodels.", "sympy.", "tabulate.", "tap.", "thop.", "tiktoken.",
    "tkinter.", "tokenizers.", "torch_cluster.", "torch_ema.", "torch_optimizer.", "torch_scatter.", "torch_sparse.",
    "torchdiffeq.", "torchinfo.", "torchmetrics.", "torchsummary.", "torchviz.", "transformers.", "trimesh.", "tyro.",
    "typing_extensions.", "warmup_scheduler.", "webdataset.", "xformers.", "yacs.", "zipp.",
)  # fmt: skip
#: Of these, what starts programs or runs any code, what speaks to somebody, and what keeps files by itself.
_NOT = (
    "builtins.__import__", "builtins.eval", "builtins.exec", "cv2.VideoCapture", "evaluate.list_",
    "evaluate.push_to_hub", "hydra.utils.", "IPython.",
    "importlib.", "jax.distributed.", "jax.experimental.", "jax.profiler.",
    "monai.apps.", "monai.bundle.", "monai.engines.", "monai.fl.", "monai.handlers.",
    "multiprocessing.connection.", "multiprocessing.managers.", "os.exec",
    "os.fork", "os.open", "os.popen", "os.posix_spawn", "os.spawn", "os.startfile", "os.system", "pyarrow.flight.",
    "pyarrow.fs.", "requests.", "socket.", "subprocess.", "torch.distributed.rpc.", "torch.utils.cpp_extension.",
    "transformers.Seq2SeqTrainer", "transformers.Trainer", "transformers.TrainingArguments",
    "trimesh.exchange.load.load_remote", "trimesh.load_remote", "urllib.",
)  # fmt: skip
#: What of those only computes, on addresses and the like.
_PLAIN = (
    "hydra.utils.get_", "hydra.utils.to_absolute_path",
    "importlib.metadata.", "importlib.reload", "importlib.resources.", "importlib.util.find_spec", "requests.adapters.",
    "requests.exceptions.", "requests.utils.", "socket.get", "socket.inet", "socket.setdefaulttimeout",
    "subprocess.CalledProcessError", "subprocess.TimeoutExpired", "subprocess.list2cmdline", "urllib.error.",
    "urllib.parse.", "urllib.request.Request",
)  # fmt: skip
#: Those of which the tables have all that writes a file, whatever else is called so.
_WRITERS_KNOWN = (
    "torch.", "sys.", "tqdm.", "os.write", "builtins.", "local.", "safetensors.torch.save", "cv2.VideoWriter",
    "tkinter.filedialog.asksaveasfilename",
)  # fmt: skip


@cache
def is_quiet(name: str) -> bool:
    """Whether a function or class of a library writes no file and asks nobody, or some table says which it does."""
    named = name.startswith(_PLAIN) or downloads.fetches(name) or outside.is_named(name)
    if named or effects.is_named(name) or seeding.is_seeding(name):
        return True
    says = effects.says_that_it_writes(name.rsplit(".", 1)[-1])
    loud = name.startswith(_NOT) or (says and not name.startswith(_WRITERS_KNOWN))
    return (name.startswith(_LIBRARIES) or standard.computes(name)) and not loud
