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
    "monai.apps.TciaDataset", "monai.bundle.load", "mlflow.pytorch.load_model", "mlflow.pyfunc.load_model",
)  # fmt: skip
#: Of anything that is not named above.
RETRIEVES = (".urlretrieve", ".from_pretrained")
#: Whose `from_pretrained` is given the weights themselves.
WITH_WEIGHTS = "torch.nn."
#: Where weights that are fetched are asked for by position.
PRETRAINED = {"timm.create_model": 1, "timm.models.create_model": 1}
#: Libraries whose functions make a model each, and take first whether or which weights are fetched for it.
ZOOS = ("torchvision.models.", "timm.models.")
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
    return name.startswith(ZOOS) and not own[:1].isupper() and not own.startswith(("_", "get_", "list_"))


def fetches(name: str) -> bool:
    """Whether a function of a library fetches files, by its full name."""
    own = name.rsplit(".", 1)[-1].lower()
    if name.startswith(WITH_WEIGHTS):
        return False
    return (
        name.startswith(FETCHES) or name.endswith(RETRIEVES) or own.startswith("download") or own.endswith("download")
    )
