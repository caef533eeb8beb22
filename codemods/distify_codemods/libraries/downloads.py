"""What libraries fetch from elsewhere."""

from __future__ import annotations

#: Functions and classes that fetch what is not there yet, by how their full names begin.
FETCHES = (
    "datasets.load_dataset", "torch.hub.load", "torch.utils.model_zoo.load_url", "sklearn.datasets.fetch_",
    "seaborn.load_dataset", "torchtext.vocab.GloVe", "torchtext.vocab.FastText", "torchtext.vocab.CharNGram",
    "torchtext.vocab.Vectors",
    "sentence_transformers.SentenceTransformer", "sentence_transformers.CrossEncoder", "transformers.pipeline",
    "clip.load", "open_clip.create_model", "lpips.LPIPS", "gensim.downloader.load", "whisper.load_model",
    "tensorflow_datasets.load", "torch_geometric.datasets.", "ogb.", "facenet_pytorch.InceptionResnetV1",
    "monai.apps.CrossValidation", "monai.apps.DecathlonDataset", "monai.apps.MedNISTDataset",
    "monai.apps.TciaDataset", "monai.bundle.load",
    "mlflow.pytorch.load_model", "mlflow.pyfunc.load_model", "dgl.data.", "torchtext.datasets.", "keras.datasets.",
    "tensorflow.keras.datasets.", "nilearn.datasets.fetch_", "pooch.retrieve", "skimage.data.", "scipy.datasets.",
    "torchaudio.pipelines.", "librosa.ex", "librosa.util.ex",
    "open_clip.get_tokenizer", "datasets.load_metric", "evaluate.load", "evaluate.combine", "deepchem.molnet.load_",
)  # fmt: skip
#: Of these, what fetches nothing.
_NOT = (
    "google.colab.files.",
    "dgl.data.utils.",
    "dgl.data.DGLDataset",
    "dgl.data.CSVDataset",
    "dgl.data.graph_serialize.",
)
#: Bases that, where what they make is not in their folder yet, call what downloads and prepares it.
PREPARE = (
    "torch_geometric.data.Dataset",
    "torch_geometric.data.InMemoryDataset",
    "torch_geometric.data.OnDiskDataset",
    "dgl.data.DGLDataset",
    "dgl.data.DGLBuiltinDataset",
)
#: The methods by which they do so, where a class has them.
PREPARING = ("download", "process")
#: Of anything that is not named above.
RETRIEVES = (".urlretrieve", ".from_pretrained")
#: Whose `from_pretrained` is given the weights themselves.
WITH_WEIGHTS = "torch.nn."
#: Whose `download` answers with data, and leaves no file.
_ANSWERS = ("yfinance.",)
#: Where weights that are fetched are asked for by position.
PRETRAINED = {"timm.create_model": 1, "timm.models.create_model": 1}
#: Libraries whose functions make a model each, and take first whether or which weights are fetched for it.
ZOOS = ("torchvision.models.", "timm.models.")
#: Layers that lie among the models.
_PARTS = ("timm.models.layers.", "timm.models.registry.")
#: Models for which weights of a part are fetched unless one of these arguments says no, by name or by position.
BY_DEFAULT: dict[str, tuple[tuple[str, ...], int | None]] = {
    "torchvision.models.detection.": (("weights_backbone", "pretrained_backbone"), None),
    "torchvision.models.segmentation.": (("weights_backbone", "pretrained_backbone"), None),
    "segmentation_models_pytorch.": (("encoder_weights",), 2),
}
#: Names of models that lie on a hub, wherever they are given.
ON_A_HUB = ("hf-hub:", "hf_hub:")
HUB = "torch.hub.load"


def makes_a_model(name: str) -> bool:
    """Whether something of one of these libraries is a function that makes a model, or of whole models a class."""
    own = name.rsplit(".", 1)[-1]
    if name.startswith("segmentation_models_pytorch."):
        return name.count(".") == 1 and (own[:1].isupper() or own == "create_model")
    if not name.startswith(ZOOS) or name.startswith(_PARTS):
        return False
    return not own[:1].isupper() and not own.startswith(("_", "get_", "list_"))


def fetches(name: str) -> bool:
    """Whether a function of a library fetches files, by its full name."""
    if name.startswith((WITH_WEIGHTS, *_ANSWERS)):
        return False
    if name.startswith(_NOT):
        return False
    return name.startswith(FETCHES) or name.endswith(RETRIEVES) or says_so(name.rsplit(".", 1)[-1])


def says_so(own: str) -> bool:
    """Whether a function or method says by its own name that it downloads."""
    own = own.lower()
    return own.startswith("download") or own.endswith("download") or "_download_file" in own
