"""torch and its sister libraries: what they do to files."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("torch.save", Role.CHECKPOINT, Effect.WRITES, path=1, one_file=True),
    Api("torch.jit.save torch.export.save", Role.CHECKPOINT, Effect.WRITES, path=1),
    Api(".save_checkpoint", Role.CHECKPOINT, Effect.WRITES, path=0),
    Api("torch.load", effect=Effect.RESTORES, path=0, one_file=True),
    Api("onnx.save onnx.save_model", Role.CHECKPOINT, Effect.WRITES, path=1),
    Api("onnx.load onnx.load_model", effect=Effect.READS, path=0),
    Api("torch.onnx.export", effect=Effect.WRITES, path=2),
    Api("torch.cuda.memory._dump_snapshot torchvision.io.write_file torchvision.io.write_jpeg "
        "torchvision.io.write_png torchvision.io.write_video torchaudio.save", effect=Effect.WRITES, path=0),
    Api("torchvision.utils.save_image", effect=Effect.WRITES, path=1, one_file=True),
    Api("torch.package.PackageExporter torchaudio.io.StreamWriter", Role.WRITER),
    Api("torchvision.io.read_ torchvision.datasets.ImageFolder torchvision.datasets.DatasetFolder",
        effect=Effect.READS, path=0),
    Api("torchaudio.load", effect=Effect.READS, path=0, one_file=True),
    Api(".export_chrome_trace", effect=Effect.WRITES, path=0),
)  # fmt: skip
