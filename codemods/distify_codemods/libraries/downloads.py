"""What libraries fetch from elsewhere."""

from __future__ import annotations

#: Functions and classes that fetch what is not there yet, by how their full names begin.
FETCHES = (
    "datasets.load_dataset", "torch.hub.load", "torch.utils.model_zoo.load_url", "sklearn.datasets.fetch_",
    "seaborn.load_dataset", "torchtext.vocab.GloVe", "torchtext.vocab.FastText", "torchtext.vocab.CharNGram",
    "sentence_transformers.SentenceTransformer", "sentence_transformers.CrossEncoder", "transformers.pipeline",
    "clip.load", "open_clip.create_model", "lpips.LPIPS", "gensim.downloader.load", "whisper.load_model",
    "tensorflow_datasets.load", "torch_geometric.datasets.", "ogb.", "facenet_pytorch.InceptionResnetV1",
)  # fmt: skip
#: Of anything that is not named above.
RETRIEVES = (".urlretrieve", ".from_pretrained")
#: Whose `from_pretrained` is given the weights themselves.
WITH_WEIGHTS = "torch.nn."
#: Where weights that are fetched are asked for by position.
PRETRAINED = {"timm.create_model": 1, "timm.models.create_model": 1}


def fetches(name: str) -> bool:
    """Whether a function of a library fetches files, by its full name."""
    own = name.rsplit(".", 1)[-1].lower()
    if name.startswith(WITH_WEIGHTS):
        return False
    return (
        name.startswith(FETCHES) or name.endswith(RETRIEVES) or own.startswith("download") or own.endswith("download")
    )
