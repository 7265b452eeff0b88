"""Scopes: what is corrected in a request before Litestar sees it, its path and which compression its caller accepts."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]

# Stays as it is until names are taken out of a path: a slash, and what would turn into another escape.
_ESCAPED = re.compile("(%2[f5])", re.IGNORECASE)
_ACCEPT_ENCODING = b"accept-encoding"


def corrected(application: Application) -> Application:
    """Return an application whose requests are corrected first."""

    async def run(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has them
        raw = scope.get("raw_path") or b""
        if b"%2" in raw:
            scope["path"] = _decode_path(raw.partition(b"?")[0].decode("latin-1"))
        _correct_encoding(scope)
        await application(scope, receive, send)

    return run


def _decode_path(raw: str) -> str:
    """Decode a path, except for slashes inside its names, which it has as %2F."""
    return "".join(part.upper() if place % 2 else unquote(part) for place, part in enumerate(_ESCAPED.split(raw)))


def decode_name(name: str) -> str:
    """Decode a name out of such a path."""
    return _ESCAPED.sub(lambda escape: unquote(escape[0]), name)


def _correct_encoding(scope: Scope) -> None:
    """Write `gzip` or nothing: Litestar looks for that word alone, and not for the weight beside it."""
    values = [value for name, value in scope["headers"] if name == _ACCEPT_ENCODING]
    if values:
        others = [(name, value) for name, value in scope["headers"] if name != _ACCEPT_ENCODING]
        wanted = _accepts_gzip(b",".join(values).decode("latin-1"))
        scope["headers"] = [*others, (_ACCEPT_ENCODING, b"gzip")] if wanted else others


def _accepts_gzip(field: str) -> bool:
    """Whether gzip is accepted, by its name or by `*` (RFC 9110). A weight of 0 refuses it."""
    weights = dict(map(_weight, field.lower().split(",")))
    return weights.get("gzip", weights.get("*", 0.0)) > 0


def _weight(coding: str) -> tuple[str, float]:
    name, _, weight = coding.partition(";")
    try:
        return name.strip(), float(weight.strip().removeprefix("q=")) if weight else 1.0
    except ValueError:
        return name.strip(), 0.0
