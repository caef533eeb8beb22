"""Arrays in files: numpy, scipy, joblib, and stores of large ones."""

from distify_codemods.libraries.registry import Api, Effect, Role

_WRITES, _READS = Effect.WRITES, Effect.READS
_ARRAYS = "arrays"

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
    Api("numpy.load scipy.io.loadmat", effect=_READS, path=0, one_file=True, holds=_ARRAYS),
    Api("numpy.loadtxt numpy.genfromtxt numpy.fromfile", effect=_READS, path=0, one_file=True),
    Api("scipy.sparse.load_npz joblib.load zarr.load scipy.io.mmread sklearn.datasets.load_files "
        "sklearn.datasets.load_svmlight_file", effect=_READS, path=0),
    Api("numpy.memmap", Role.MAPPED, mode=2),
    Api("numpy.lib.format.open_memmap", Role.MAPPED),
    Api("h5py.File", Role.STORE, one_file=True),
    Api("netCDF4.Dataset scipy.io.netcdf_file tables.open_file zarr.open zarr.open_array zarr.open_group",
        Role.STORE),
    Api("lmdb.open", Role.DATABASE, _READS, path=0, writes_by="put sync commit"),
    Api("faiss.write_index faiss.write_index_binary", effect=_WRITES, path=1),
    Api("faiss.read_index faiss.read_index_binary", effect=_READS, path=0),
    Api(".tofile .to_netcdf .to_zarr", effect=_WRITES, path=0),
    Api(".dump", effect=_WRITES, path=0, of=("numpy.",)),
)  # fmt: skip
