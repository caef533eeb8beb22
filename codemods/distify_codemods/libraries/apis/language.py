"""Text: spaCy's pipelines, and SentencePiece's models."""

from distify_codemods.libraries.registry import Api, Effect

APIS = (
    Api(".to_disk", effect=Effect.WRITES, path=0),
    Api("spacy.load", effect=Effect.READS, path=0),
    Api("sentencepiece.SentencePieceTrainer.train sentencepiece.SentencePieceTrainer.Train", effect=Effect.WRITES),
    Api("sentencepiece.SentencePieceProcessor", effect=Effect.READS, path=0),
)  # fmt: skip
