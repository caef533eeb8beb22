"""CodeCarbon: what a run consumes."""

from distify_codemods.libraries.registry import Api, Effect, Role

APIS = (
    Api("codecarbon.", Role.TRACKER, Effect.LOGS, online=True,
        tells="stop stop_task flush final_emissions final_emissions_data"),
    Api("codecarbon.track_emissions codecarbon.emissions_tracker.track_emissions", Role.FOR_ALL, Effect.LOGS,
        online=True, advice="each rank measures what this decorates, and writes it down: with an `EmissionsTracker` "
        "that is started and stopped, rank 0 alone does"),
)  # fmt: skip
