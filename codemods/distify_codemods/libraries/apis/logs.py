"""Log records: Python's own logging, and loguru."""

from distify_codemods.libraries.registry import Api, Role

APIS = (
    Api("logging.FileHandler logging.handlers.RotatingFileHandler logging.handlers.TimedRotatingFileHandler "
        "logging.handlers.WatchedFileHandler", Role.LOG_FILE),
    Api("logging.handlers.", Role.LOG_SINK, online=True),
    Api("loguru.logger.add", Role.LOG_SINK),
    Api("logging.basicConfig", Role.LOG_BASICS),
    Api("logging.config.dictConfig logging.config.fileConfig loguru.logger.configure", Role.LOG_SETUP),
)  # fmt: skip
