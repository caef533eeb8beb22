"""webdataset: samples in tar files. What it does about ranks by itself stands in `libraries/shards.py`."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("webdataset.TarWriter webdataset.ShardWriter", Role.WRITER),
    Api("webdataset.WebDataset webdataset.SimpleShardList webdataset.ResampledShards", effect=Effect.READS, path=0),
)
