"""The runtime of converted scripts: what a person who writes it by hand has rank 0 write."""

from distify_codemods.libraries.registry import Api, Effect

APIS = (Api("distify_runtime.main_process_open", effect=Effect.WRITES, path=0),)
