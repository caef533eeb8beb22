"""What keeps results in files by itself: the next process that asks finds them there."""

from distify_codemods.libraries.registry import Api, Role

APIS = (
    Api("joblib.Memory monai.data.PersistentDataset monai.data.CacheNTransDataset monai.data.LMDBDataset "
        "monai.data.GDSDataset diskcache.Cache diskcache.FanoutCache", Role.CACHE),
    Api(".map .filter .sort .shuffle .flatten_indices .train_test_split", Role.CACHE,
        of=("datasets.load_dataset", "datasets.load_from_disk")),
)  # fmt: skip
