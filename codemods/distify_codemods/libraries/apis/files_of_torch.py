"""torch and its sister libraries: what they do to files."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("torch.save", Role.CHECKPOINT, Effect.WRITES, path=1, one_file=True, holds="a checkpoint"),
    Api("torch.jit.save torch.export.save", Role.CHECKPOINT, Effect.WRITES, path=1),
    Api(".save_checkpoint", Role.CHECKPOINT, Effect.WRITES, path=0),
    Api("torch.load", effect=Effect.RESTORES, path=0, one_file=True),
    Api("torch.jit.load torch.export.load torch.package.PackageImporter", effect=Effect.READS, path=0),
    Api("torch.from_file torch.UntypedStorage.from_file torch.FloatStorage.from_file", Role.MAPPED, Effect.READS,
        path=0, told_by="shared", writes_by="[] copy_ fill_ zero_ add_ mul_ set_ index_copy_ scatter_ masked_fill_"),
    Api("onnx.save onnx.save_model", Role.CHECKPOINT, Effect.WRITES, path=1),
    Api("onnx.load onnx.load_model", effect=Effect.READS, path=0),
    Api("torch.onnx.export", effect=Effect.WRITES, path=2),
    Api("torch.cuda.memory._dump_snapshot torchvision.io.write_file torchvision.io.write_jpeg "
        "torchvision.io.write_png torchvision.io.write_video torchaudio.save", effect=Effect.WRITES, path=0),
    Api("torchvision.utils.save_image", effect=Effect.WRITES, path=1, one_file=True, holds="pictures"),
    Api("torchvision.datasets.utils.extract_archive", effect=Effect.WRITES, path=1),
    Api("torch.package.PackageExporter torchaudio.io.StreamWriter torch.profiler.tensorboard_trace_handler",
        Role.WRITER),
    Api("torchvision.io.read_ torchvision.io.decode_image torchvision.io.VideoReader torchaudio.info "
        "torchaudio.io.StreamReader torchaudio.datasets. torchvision.datasets.", effect=Effect.READS, path=0),
    Api("torchaudio.load", effect=Effect.READS, path=0, one_file=True),
    Api("timm.models.load_checkpoint timm.models.resume_checkpoint", effect=Effect.READS, path=1),
    Api("timm.utils.update_summary", effect=Effect.WRITES, path=3),
    Api(".export_chrome_trace .export_stacks .export_memory_timeline", effect=Effect.WRITES, path=0),
)  # fmt: skip
