"""Arrays in files: numpy, scipy, joblib, and stores of large ones."""

from distify_codemods.libraries.registry import Api, Effect, Role

_WRITES, _READS = Effect.WRITES, Effect.READS
_ARRAYS = "arrays"
_SETS = "[] flush fill sort partition put itemset setfield"

APIS = (
    Api("numpy.save", Role.DATA, _WRITES, path=0, one_file=True, adds=".npy", holds=_ARRAYS),
    Api("numpy.savez numpy.savez_compressed", Role.DATA, _WRITES, path=0, one_file=True, adds=".npz",
        holds=_ARRAYS),
    Api("numpy.savetxt", Role.DATA, _WRITES, path=0, one_file=True),
    Api("scipy.io.savemat", Role.DATA, _WRITES, path=0, one_file=True, adds=".mat", holds=_ARRAYS),
    Api("scipy.sparse.save_npz zarr.save zarr.save_array zarr.save_group", Role.DATA, _WRITES, path=0),
    Api("scipy.io.mmwrite", Role.DATA, _WRITES, path=0, one_file=True, adds=".mtx"),
    Api("sklearn.datasets.dump_svmlight_file", effect=_WRITES, path=2),
    Api("joblib.dump", Role.DATA, _WRITES, path=1, one_file=True),
    Api("numpy.load", Role.MAPPED, _READS, path=0, told_by="mmap_mode", one_file=True, holds=_ARRAYS,
        writes_by=_SETS),
    Api("scipy.io.loadmat", effect=_READS, path=0, one_file=True, holds=_ARRAYS),
    Api("numpy.loadtxt numpy.genfromtxt numpy.fromfile", effect=_READS, path=0, one_file=True),
    Api("scipy.sparse.load_npz joblib.load zarr.load scipy.io.mmread sklearn.datasets.load_files "
        "sklearn.datasets.load_svmlight_file", effect=_READS, path=0),
    Api("numpy.memmap", Role.MAPPED, mode=2, default="r+", one_file=True, writes_by=_SETS),
    Api("numpy.lib.format.open_memmap", Role.MAPPED, default="r+", one_file=True, writes_by=_SETS),
    Api("h5py.File", Role.STORE, one_file=True),
    Api("netCDF4.Dataset scipy.io.netcdf_file tables.open_file", Role.STORE),
    Api("zarr.open zarr.open_array zarr.open_group", Role.STORE, default="a",
        writes_by="[] append array create create_array create_dataset create_group create_hierarchy empty full ones "
        "require_array require_dataset require_group resize set_basic_selection set_block_selection "
        "set_coordinate_selection set_mask_selection set_orthogonal_selection update_attributes zeros"),
    Api("lmdb.open", Role.DATABASE, _READS, path=0, writes_by="put sync commit"),
    Api("faiss.write_index faiss.write_index_binary", effect=_WRITES, path=1),
    Api("faiss.read_index faiss.read_index_binary", effect=_READS, path=0),
    Api(".tofile", effect=_WRITES, path=0, one_file=True),
    Api(".to_netcdf .to_zarr", effect=_WRITES, path=0),
    Api(".dump", effect=_WRITES, path=0, of=("numpy.",)),
)  # fmt: skip
