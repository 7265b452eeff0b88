"""Paths: names with a slash in them, which a path has as %2F, are told from the slashes between names."""

import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

Scope = MutableMapping[str, Any]
Application = Callable[[Any, Any, Any], Awaitable[None]]

# What has to stay as it is until names are taken out: a slash, and what would turn into another escape.
_KEPT = re.compile("(%2[f5])", re.IGNORECASE)


def kept(raw: str) -> str:
    """A path with its escapes read, but for those that names are told by."""
    return "".join(piece.upper() if place % 2 else unquote(piece) for place, piece in enumerate(_KEPT.split(raw)))


def plain(name: str) -> str:
    """A name out of such a path."""
    return _KEPT.sub(lambda escape: unquote(escape[0]), name)


def keeping_slashes(application: Application) -> Application:
    """An application that is given paths in which slashes of names are no slashes."""

    async def run(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ANN401 - as ASGI has them
        raw = scope.get("raw_path") or b""
        if b"%2" in raw:
            scope["path"] = kept(raw.partition(b"?")[0].decode("latin-1"))
        await application(scope, receive, send)

    return run
