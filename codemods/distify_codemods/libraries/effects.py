"""What functions of libraries do to files, and which libraries keep an experiment's log."""

from __future__ import annotations

#: The path is that of the object itself: `path.write_text(text)`.
ITSELF = -1
#: Which files are written or read is not told by one argument.
UNSEEN = -2


def _by_place(**names: str) -> dict[str, int]:
    places = {"first": 0, "second": 1, "third": 2, "itself": ITSELF, "unseen": UNSEEN}
    return {name: places[place] for place, given in names.items() for name in given.split()}


#: Functions that write a checkpoint, with the place of its path among their arguments.
CHECKPOINTS = _by_place(
    second="torch.save torch.jit.save torch.export.save safetensors.torch.save_file safetensors.torch.save_model "
    "safetensors.numpy.save_file",
)
CHECKPOINT_METHODS = _by_place(
    first="save_pretrained save_model save_weights save_checkpoint save_vocabulary save_lora_weights save_adapter",
    unseen="push_to_hub",
)
#: What writes an object into a file that is open.
INTO_A_HANDLE = _by_place(
    second="json.dump pickle.dump dill.dump cloudpickle.dump yaml.dump yaml.safe_dump toml.dump tomli_w.dump "
    "marshal.dump",
)
#: What keeps data in a file, and changes nothing else.
KEEPS = {
    **CHECKPOINTS,
    **INTO_A_HANDLE,
    **_by_place(
        first="numpy.save numpy.savez numpy.savez_compressed numpy.savetxt scipy.io.savemat scipy.sparse.save_npz "
        "pandas.to_pickle",
        second="joblib.dump",
    ),
}  # fmt: skip
#: What shows something, in a window.
SHOWS = frozenset({"matplotlib.pyplot.show", "matplotlib.pyplot.pause", "cv2.imshow"})
#: What else changes files, and nothing else.
WRITES = {
    **KEEPS,
    **_by_place(
        first="cv2.imwritemulti imageio.volsave imageio.volwrite imageio.v2.volsave imageio.v2.volwrite "
        "mediapy.write_image mediapy.write_video torch.cuda.memory._dump_snapshot torchvision.io.write_file "
        "torchaudio.save torchvision.io.write_jpeg torchvision.io.write_png torchvision.io.write_video "
        "os.mkdir os.remove os.removedirs os.rmdir os.unlink os.truncate shutil.rmtree "
        "matplotlib.pyplot.savefig matplotlib.pyplot.imsave matplotlib.image.imsave cv2.imwrite "
        "imageio.imwrite imageio.imsave imageio.mimsave imageio.mimwrite imageio.v2.imwrite imageio.v2.imsave "
        "imageio.v2.mimsave imageio.v2.mimwrite imageio.v3.imwrite skimage.io.imsave tifffile.imwrite "
        "tifffile.imsave soundfile.write scipy.io.wavfile.write librosa.output.write_wav",
        second="torchvision.utils.save_image os.rename os.replace os.symlink os.link shutil.copyfile shutil.copy "
        "shutil.copy2 shutil.copytree shutil.move shutil.unpack_archive plotly.io.write_image plotly.io.write_html "
        "nibabel.save SimpleITK.WriteImage pyarrow.csv.write_csv pyarrow.dataset.write_dataset "
        "pyarrow.feather.write_feather pyarrow.parquet.write_table pyarrow.parquet.write_to_dataset",
        third="torch.onnx.export",
        unseen="os.fsync os.system subprocess.call subprocess.check_call subprocess.run shutil.make_archive "
        "huggingface_hub.upload_folder huggingface_hub.upload_file",
    ),
    **dict.fromkeys(SHOWS, UNSEEN),
}  # fmt: skip
#: Other processes: which files they write is not seen.
SHELL = ("os.system", "subprocess.")
#: What a folder or file may be gone after.
REMOVES = (
    "shutil.rmtree", "shutil.move", "os.rename", "os.replace", "os.rmdir", "os.removedirs", "rename", *SHELL,
)  # fmt: skip
#: Methods that take a path for what they write; without one, those that begin with `to_` return it as text.
_OF_ANYTHING = {
    **CHECKPOINT_METHODS,
    **_by_place(
        first="savefig save save_to_disk to_csv to_json to_pickle to_excel to_parquet to_feather to_hdf to_stata "
        "to_orc to_html to_latex to_markdown to_xml to_netcdf to_zarr "
        "write_videofile write_gif write_audiofile tofile extractall export_chrome_trace write_image "
        "write_html",
        second="to_sql",
    ),
}  # fmt: skip
_OF_PATHS = _by_place(
    itself="write_text write_bytes unlink touch rmdir symlink_to hardlink_to",
    first="rename",
)
WRITING_METHODS = {**_OF_ANYTHING, **_OF_PATHS, "extract": UNSEEN}
#: Methods that other things have, too: of what they write a file.
METHODS_OF: dict[str, str | tuple[str, ...]] = {
    **dict.fromkeys(_OF_PATHS, "pathlib."),
    "extract": ("zipfile.", "tarfile."),
}
TEXTS = "to_"

#: What opens a file, with the places of its path and of its mode.
FILES = ("builtins.open", "io.open")
#: Functions that change nothing but what they return, and those among them that do.
PURE: tuple[str, ...] = ("torch.", "numpy.", "math.", "time.", "builtins.")
IMPURE = frozenset([*WRITES, *FILES, "builtins.input", "builtins.exec", "builtins.setattr"])
BY_PATH = ("gzip.open", "bz2.open", "lzma.open", "codecs.open")
#: Text goes through them into a file that is open.
THROUGH = ("csv.writer", "csv.DictWriter")
PATHS_OPEN = "pathlib.Path.open"
HANDLES = (*FILES, *BY_PATH, PATHS_OPEN, *THROUGH)
#: Objects that stand for a file: they write it, or read it.
STORES = frozenset(
    ["h5py.File", "zipfile.ZipFile", "tarfile.open", "tarfile.TarFile", "pandas.HDFStore", "netCDF4.Dataset",
     "tables.open_file", "soundfile.SoundFile", "rasterio.open", "wave.open", "zarr.open"]
)  # fmt: skip
ALWAYS_WRITE = frozenset(
    ["pandas.ExcelWriter", "cv2.VideoWriter", "imageio.get_writer", "imageio.v2.get_writer",
     "imageio_ffmpeg.write_frames", "matplotlib.backends.backend_pdf.PdfPages", "pyarrow.csv.CSVWriter",
     "pyarrow.parquet.ParquetWriter", "tensorflow.io.TFRecordWriter", "tensorflow.python_io.TFRecordWriter",
     "torch.package.PackageExporter", "torchaudio.io.StreamWriter", "torch_geometric.logging.init_wandb"]
)  # fmt: skip
#: What is written into them is no file, and each rank reads it back for itself.
IN_MEMORY = frozenset({"io.BytesIO", "io.StringIO"})
#: A file in memory, of which every rank needs the contents.
MAPPED = frozenset({"numpy.memmap", "numpy.lib.format.open_memmap"})
#: Where the mode stands, if not second.
MODES = {PATHS_OPEN: 0, "numpy.memmap": 2}
#: What is opened to be read and written, and the methods that write it.
DATABASES = {
    "sqlite3.connect": frozenset({"commit", "executemany", "executescript"}),
    "lmdb.open": frozenset({"put", "sync", "commit"}),
    "shelve.open": frozenset({"[]", "__setitem__", "sync", "update", "clear", "setdefault", "pop"}),
}

#: What reads a file, with the place of its path; names that end with a dot or an underscore stand for all of these.
READS = _by_place(
    first="numpy.load numpy.loadtxt numpy.genfromtxt numpy.fromfile pandas.read_ PIL.Image.open "
    "matplotlib.image.imread matplotlib.pyplot.imread cv2.imread imageio.imread imageio.v2.imread imageio.v3.imread "
    "imageio.mimread skimage.io.imread torchvision.io.read_ torchvision.datasets.ImageFolder "
    "torchvision.datasets.DatasetFolder scipy.io.loadmat scipy.sparse.load_npz scipy.io.wavfile.read joblib.load "
    "shutil.unpack_archive xml.etree.ElementTree.parse safetensors.torch.load_file safetensors.safe_open "
    "torchaudio.load librosa.load nibabel.load tifffile.imread sqlite3.connect lmdb.open shelve.open",
)
READING_METHODS = _by_place(itself="read_text read_bytes")

#: What makes a folder by itself, named by the time, wherever it runs; and what gives all ranks one name for it.
NAMED_BY_THE_TIME = {"hydra.main": "`hydra.run.dir=outputs/NAME` on the command line"}

#: Libraries of which every call reports to somewhere.
TRACKERS = (
    "tensorboardX.", "torch.utils.tensorboard.", "tensorboard_logger.", "tensorboard.program.", "mlflow.", "visdom.",
    "comet_ml.", "neptune.", "clearml.", "aim.", "swanlab.", "dvclive.", "sacred.", "torch_geometric.logging.",
    "codecarbon.", "tensorflow.summary.", "tensorflow.compat.v1.summary.", "tensorflow.compat.v2.summary.", "wandb.",
)  # fmt: skip

#: Of these, those that may report over a network: the others write files.
ONLINE = tuple(
    one for one in TRACKERS
    if not one.startswith(("tensorboardX.", "torch.utils.tensorboard.", "tensorboard_logger.", "tensorflow."))
)  # fmt: skip

#: Libraries that do nothing to files but by what stands above, or is followed by a rule of its own.
KNOWN = (
    "builtins.", "sys.", "os.", "io.", "argparse.", "logging.", "loguru.", "warnings.", "random.", "math.", "re.",
    "string.", "time.", "datetime.", "json.", "csv.", "pickle.", "yaml.", "copy.", "collections.", "itertools.",
    "functools.", "glob.", "pathlib.", "gc.", "typing.", "importlib.", "inspect.", "subprocess.", "shutil.",
    "tempfile.", "uuid.", "hashlib.", "signal.", "atexit.", "contextlib.", "dataclasses.", "abc.", "types.",
    "textwrap.", "pprint.", "platform.", "socket.", "getpass.", "urllib.", "traceback.", "operator.", "enum.",
    "zipfile.", "tarfile.", "gzip.", "threading.", "multiprocessing.", "concurrent.",
    "torch.", "torchvision.", "torchtext.", "torchaudio.", "numpy.", "pandas.", "scipy.", "sklearn.", "matplotlib.",
    "seaborn.", "PIL.", "cv2.", "tqdm.", "rich.", "click.", "typer.", "fire.", "termcolor.", "einops.", "timm.",
    "absl.", "IPython.", "requests.", "h5py.", "joblib.", "skimage.", "imageio.", "omegaconf.", "hydra.",
)  # fmt: skip
#: Words of names by which a library says that it writes, or that it reads.
WRITING_WORDS = ("save", "dump", "export", "write")
_READING_WORDS = ("load", "read", "restore", "parse")


def is_named(name: str) -> bool:
    """Whether a function is in one of these tables, or is of a library that keeps a log."""
    tables = (WRITES, HANDLES, STORES, ALWAYS_WRITE, MAPPED, DATABASES, NAMED_BY_THE_TIME)
    return any(name in table for table in tables) or name.startswith(TRACKERS) or bool(reading(name))


def reading(name: str) -> list[str]:
    """Which entries of the table of what reads files a function is, by its full name."""
    return [one for one in READS if name == one or (one.endswith(("_", ".")) and name.startswith(one))]


def is_known(library: str, name: str) -> bool:
    """Whether nothing is written by a function or method that no table names: `library` it is of, `name` its own."""
    return library.startswith(KNOWN) and not says_that_it_writes(name)


def says_that_it_writes(name: str) -> bool:
    return any(word in name.lower() for word in WRITING_WORDS)


def says_that_it_reads(name: str) -> bool:
    return name.lower().startswith(_READING_WORDS)
