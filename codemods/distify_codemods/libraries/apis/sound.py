"""Sound in files."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("soundfile.write scipy.io.wavfile.write librosa.output.write_wav", effect=Effect.WRITES, path=0),
    Api(
        "scipy.io.wavfile.read librosa.load librosa.stream librosa.get_samplerate librosa.get_duration soundfile.read "
        "soundfile.info",
        effect=Effect.READS,
        path=0,
    ),
    Api("soundfile.SoundFile", Role.STORE),
    Api(".write_audiofile", effect=Effect.WRITES, path=0),
)
