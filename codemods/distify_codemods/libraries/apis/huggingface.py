"""Hugging Face's libraries: models, data sets and what lies on the hub."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("safetensors.torch.save_file safetensors.torch.save_model safetensors.numpy.save_file", Role.CHECKPOINT,
        Effect.WRITES, path=1),
    Api("safetensors.serialize_file", Role.CHECKPOINT, Effect.WRITES, path=1),
    Api("safetensors.torch.load_file safetensors.numpy.load_file safetensors.safe_open datasets.load_from_disk "
        "datasets.Dataset.load_from_disk datasets.DatasetDict.load_from_disk", effect=Effect.READS, path=0),
    Api("safetensors.torch.load_model", effect=Effect.READS, path=1),
    Api(".from_pretrained", effect=Effect.READS, path=0),
    Api(".save_pretrained .save_model .save_weights .save_vocabulary .save_lora_weights .save_adapter",
        Role.CHECKPOINT, Effect.WRITES, path=0),
    Api(".print_trainable_parameters", effect=Effect.PRINTS),
    Api(".push_to_hub", Role.CHECKPOINT, Effect.WRITES),
    Api(".save .save_to_disk", effect=Effect.WRITES, path=0),
    Api("huggingface_hub.upload_folder huggingface_hub.upload_file", effect=Effect.WRITES),
)  # fmt: skip
