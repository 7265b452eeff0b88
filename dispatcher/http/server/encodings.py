"""Encodings: whether whoever asks can read what is compressed, as RFC 9110 lets him say it."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]

_FIELD = b"accept-encoding"


def accepts_gzip(field: str) -> bool:
    """Whether gzip is wanted: by its name, or else as any other. A weight of nothing says that it is not."""
    weights = dict(map(_weighed, field.lower().split(",")))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weighed(one: str) -> tuple[str, float]:
    name, _, weight = one.partition(";")
    value = weight.strip().removeprefix("q=")
    try:
        return name.strip(), float(value) if weight else 1.0
    except ValueError:
        return name.strip(), 0.0


def saying_plainly(application: Application) -> Application:
    """An application that is told `gzip`, or nothing: it looks for that word, and not for what stands beside it."""

    async def run(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has them
        said = [value for name, value in scope["headers"] if name == _FIELD]
        if said:
            others = [(name, value) for name, value in scope["headers"] if name != _FIELD]
            wanted = accepts_gzip(b",".join(said).decode("latin-1"))
            scope["headers"] = [*others, (_FIELD, b"gzip")] if wanted else others
        await application(scope, receive, send)

    return run
