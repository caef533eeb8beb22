"""Shards of webdataset: no rank is dealt some of them by the library, and batches that it shuffles are rank 0's."""

from __future__ import annotations

import pytest
from distify_codemods import Level, Options, Outcome

from tests.rules.scripts import IMPORTS, LOOP, conversion_of, converted, script

IMPORTED = f"{IMPORTS}import webdataset as wds\n"
AUTO = Options()
WHOLE = "        x, y = rt.from_main_process((x, y))\n"


def _loop(data: str, loader: str = "loader = DataLoader(data, batch_size=8)\n", imports: str = IMPORTED) -> str:
    return script(imports=imports, data=f"data = {data}\n", loader=loader)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('wds.WebDataset("a-{0..3}.tar")', 'wds.WebDataset("a-{0..3}.tar", nodesplitter=None)'),
        ('wds.WebDataset("a.tar", nodesplitter=wds.split_by_node).shuffle(9)',
         'wds.WebDataset("a.tar", nodesplitter=None).shuffle(9)'),
        ('wds.WebDataset("a.tar", nodesplitter=wds.shardlists.single_node_only, seed=3)',
         'wds.WebDataset("a.tar", nodesplitter=None, seed=3)'),
        ('wds.DataPipeline(wds.SimpleShardList("a.tar"), wds.split_by_node, wds.split_by_worker)',
         'wds.DataPipeline(wds.SimpleShardList("a.tar"), iter, wds.split_by_worker)'),
        ('wds.DataPipeline(*[wds.SimpleShardList("a.tar"), wds.split_by_node])',
         'wds.DataPipeline(*[wds.SimpleShardList("a.tar"), iter])'),
    ],
)  # fmt: skip
def test_all_ranks_read_all_shards(before: str, after: str) -> None:
    """Else each rank has other samples or, where nothing says who gets which, ends with an error."""
    new = converted(_loop(before), AUTO)
    assert f"data = {after}\n" in new
    assert "rt.data_parallel(model)" in new
    assert WHOLE in new, "its shuffles draw from the time"


@pytest.mark.parametrize(
    "data",
    [
        'wds.WebDataset("a.tar", nodesplitter=None)',
        'wds.WebDataset("a.tar", nodesplitter=lambda shards: shards)',
        'wds.DataPipeline(wds.SimpleShardList("a.tar"), wds.split_by_worker, wds.tarfile_to_samples())',
    ],
)
def test_what_is_dealt_out_by_nobody_stays(data: str) -> None:
    assert f"data = {data}\n" in converted(_loop(data), AUTO)


def test_a_name_of_ones_own_is_no_splitter() -> None:
    own = f"{IMPORTS}\n\ndef split_by_node(shards):\n    return shards\n\n"
    data = "TensorDataset(*split_by_node([torch.randn(64, 4), torch.randn(64, 1)]))"
    assert f"data = {data}\n" in converted(_loop(data, imports=own), AUTO)


def test_loaders_of_the_library_give_rank_zeros_batches() -> None:
    loader = "loader = wds.WebLoader(data, batch_size=None).unbatched().shuffle(9).batched(8)\n"
    found = conversion_of(_loop('wds.WebDataset("a.tar")', loader), options=AUTO)
    assert found.outcome is Outcome.CONVERTED
    assert WHOLE in found.files[0].after.decode()
    [advice] = [one.message for one in found.of(Level.ADVICE) if one.code == "SHARE01"]
    assert "come from `loader`, which `webdataset.WebLoader" in advice
    assert "reinforcement" not in advice


def test_the_number_of_a_turn_is_each_ranks_own() -> None:
    loader = "loader = wds.WebLoader(data, batch_size=None)\n"
    loop = LOOP.replace("for x, y in loader", "for step, (x, y) in enumerate(loader)")
    new = converted(script(imports=IMPORTED, data='data = wds.WebDataset("a.tar")\n', loader=loader, loop=loop), AUTO)
    assert WHOLE in new


@pytest.mark.parametrize("imported", ["from streaming import StreamingDataset", "from litdata import StreamingDataset"])
def test_what_deals_out_by_itself_needs_a_person(imported: str) -> None:
    found = conversion_of(_loop('StreamingDataset("folder")', imports=f"{IMPORTS}{imported}\n"), options=AUTO)
    assert (found.outcome, found.files) == (Outcome.REFUSED, ())
    assert any("to the ranks by itself" in one.message for one in found.of(Level.BLOCKING))


AUGMENTED = """\
class Pictures(torch.utils.data.Dataset):
    def __init__(self, transform):
        self.pictures, self.transform = torch.randn(64, 4), transform

    def __len__(self):
        return 64

    def __getitem__(self, index):
        return self.transform(image=self.pictures[index])["image"], self.pictures[index, :1]


"""


@pytest.mark.parametrize(("seed", "alike"), [(", seed=7", True), ("", False), (", seed=None", False)])
def test_augmentation_with_a_seed_of_its_own_draws_alike_on_all_ranks(seed: str, alike: bool) -> None:
    imports = f"{IMPORTS}import albumentations as A\n\n\n{AUGMENTED}"
    data = f"data = Pictures(A.Compose([A.HorizontalFlip(p=0.5)]{seed}))\n"
    new = converted(script(imports=imports, data=data), AUTO)
    assert ("rt.data_parallel(model)" in new) is alike


MONAI = f"{IMPORTS}from monai.transforms import Compose, RandFlip\n"


@pytest.mark.parametrize(
    ("imports", "setup", "loader", "told"),
    [
        ("", "", "DataLoader(data, batch_size=8)", True),
        ("import monai\n", "", "monai.data.DataLoader(data, batch_size=8)", False),
        ("from monai.utils import set_determinism\n", "set_determinism(seed=0)\n", "DataLoader(data, batch_size=8)",
         False),
    ],
)  # fmt: skip
def test_generators_that_get_their_seeds_from_torch_draw_alike(
    imports: str, setup: str, loader: str, told: bool
) -> None:
    data = f"{AUGMENTED}data = Pictures(Compose([RandFlip(prob=0.5)]))\n"
    text = script(imports=f"{MONAI}{imports}", setup=setup, data=data, loader=f"loader = {loader}\n")
    assert (WHOLE in converted(text, Options(strategy="shared"))) is told
