"""Libraries that read samples by shards, and deal these out to the ranks by themselves where there are several."""

from __future__ import annotations

#: Data sets with an option that says who gets which shards; without it they end with an error where there are ranks.
SPLIT = frozenset({"webdataset.WebDataset"})
OPTION = "nodesplitter"
#: What is given there, or stands in a pipeline: it looks for the number of the rank.
SPLITTERS = frozenset({"webdataset.split_by_node", "webdataset.single_node_only"})
#: Data sets of which each rank gets a part, whatever they are told.
BY_THEMSELVES = frozenset(
    "streaming.StreamingDataset litdata.StreamingDataset "
    "litdata.CombinedStreamingDataset litdata.StreamingDataLoader".split()
)
