"""Python's own modules: what they do to files."""

from distify_codemods.libraries.registry import ITSELF, Api, Effect, Role

_WRITES, _REMOVES = Effect.WRITES, Effect.WRITES | Effect.REMOVES

APIS = (
    Api("builtins.open io.open", Role.FILE, one_file=True),
    Api("gzip.open gzip.GzipFile bz2.open bz2.BZ2File lzma.open lzma.LZMAFile codecs.open", Role.BY_PATH,
        one_file=True),
    Api("csv.writer csv.DictWriter", Role.THROUGH),
    Api("zipfile.ZipFile tarfile.open tarfile.TarFile wave.open", Role.STORE),
    Api("io.BytesIO io.StringIO", Role.IN_MEMORY),
    Api("json.dump pickle.dump dill.dump cloudpickle.dump marshal.dump", Role.INTO_A_HANDLE, _WRITES, path=1),
    Api("os.mkdir os.remove os.unlink os.truncate", effect=_WRITES, path=0),
    Api("os.symlink os.link shutil.copyfile shutil.copy shutil.copy2 shutil.copytree", Role.IN_PLACE, _WRITES,
        path=1),
    Api("os.removedirs os.rmdir shutil.rmtree", effect=_REMOVES, path=0),
    Api("os.rename os.replace shutil.move", Role.IN_PLACE, _REMOVES, path=1),
    Api("shutil.unpack_archive", effect=_WRITES, path=1),
    Api("shutil.unpack_archive", effect=Effect.READS, path=0),
    Api("dill.dump_session dill.dump_module", effect=_WRITES, path=0),
    Api("os.fsync shutil.make_archive", effect=_WRITES),
    Api("subprocess.", Role.SHELL, Effect.REMOVES),
    Api("os.system subprocess.call subprocess.check_call subprocess.run subprocess.check_output subprocess.getoutput"
        " subprocess.getstatusoutput", Role.SHELL, _REMOVES),
    Api("xml.etree.ElementTree.parse", effect=Effect.READS, path=0),
    Api("sqlite3.connect", Role.DATABASE, Effect.READS, path=0, writes_by="commit executemany executescript"),
    Api("shelve.open", Role.DATABASE, Effect.READS, path=0,
        writes_by="[] __setitem__ sync update clear setdefault pop"),
    Api(".write_text .write_bytes", effect=_WRITES, path=ITSELF, of=("pathlib.",), one_file=True),
    Api(".unlink .touch .rmdir", effect=_WRITES, path=ITSELF, of=("pathlib.",)),
    Api(".symlink_to .hardlink_to", Role.IN_PLACE, _WRITES, path=ITSELF, of=("pathlib.",)),
    Api(".rename", Role.IN_PLACE, _REMOVES, path=0, of=("pathlib.",)),
    Api(".replace", Role.IN_PLACE, _REMOVES, path=0, of=("pathlib.",), path_alone=True),
    Api(".extract", effect=_WRITES, of=("zipfile.", "tarfile.")),
    Api(".extractall", effect=_WRITES, path=0),
    Api(".read_text .read_bytes", effect=Effect.READS, path=ITSELF, one_file=True),
)  # fmt: skip
