"""Tables and settings in files: pandas, pyarrow, YAML, TOML."""

from distify_codemods.libraries.registry import Api, Effect, Role

_TABLES = "tables"

APIS = (
    Api("pandas.to_pickle", Role.DATA, Effect.WRITES, path=0, one_file=True),
    Api("yaml.dump yaml.safe_dump yaml.dump_all yaml.safe_dump_all toml.dump tomli_w.dump tomlkit.dump "
        "ruamel.yaml.dump ujson.dump simplejson.dump rapidjson.dump", Role.INTO_A_HANDLE,
        Effect.WRITES, path=1),
    Api("pandas.HDFStore", Role.STORE, default="a", writes_by="[] put append append_to_multiple remove"),
    Api("pandas.ExcelWriter xlsxwriter.Workbook pyarrow.csv.CSVWriter pyarrow.parquet.ParquetWriter "
        "pyarrow.ipc.new_file pyarrow.ipc.new_stream pyarrow.RecordBatchFileWriter "
        "pyarrow.RecordBatchStreamWriter", Role.WRITER),
    Api("pyarrow.OSFile pyarrow.memory_map jsonlines.open", Role.STORE),
    Api("omegaconf.OmegaConf.save", effect=Effect.WRITES, path=1),
    Api("omegaconf.OmegaConf.load", effect=Effect.READS, path=0),
    Api("pyarrow.csv.write_csv pyarrow.dataset.write_dataset pyarrow.feather.write_feather "
        "pyarrow.parquet.write_table pyarrow.parquet.write_to_dataset", effect=Effect.WRITES, path=1),
    Api("pandas.read_ pandas.ExcelFile polars.read_ polars.scan_ pyarrow.csv.read_csv pyarrow.dataset.dataset "
        "pyarrow.feather.read_ pyarrow.json.read_json pyarrow.parquet.read_ pyarrow.parquet.ParquetDataset "
        "pyarrow.parquet.ParquetFile", effect=Effect.READS, path=0),
    Api("pandas.read_csv pandas.read_json pandas.read_excel", effect=Effect.READS, path=0, one_file=True,
        holds=_TABLES),
    Api("pandas.read_pickle", effect=Effect.READS, path=0, one_file=True),
    Api(".to_csv .to_json .to_excel", effect=Effect.WRITES, path=0, one_file=True, holds=_TABLES),
    Api(".to_pickle", effect=Effect.WRITES, path=0, one_file=True),
    Api(".to_parquet .to_feather .to_hdf .to_stata .to_orc .to_html .to_latex .to_markdown .to_string "
        ".to_xml "
        ".write_csv .write_json .write_ndjson .write_parquet .write_ipc .write_avro .write_excel .sink_csv "
        ".sink_parquet", effect=Effect.WRITES, path=0),
    Api(".to_sql", effect=Effect.WRITES, path=1),
    Api(".to_gbq .to_clipboard .to_iceberg", effect=Effect.WRITES),
)  # fmt: skip
