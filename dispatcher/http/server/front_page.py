"""The front page: what a browser gets at the listener's address, with links to what is served there."""

from base64 import b64encode
from collections.abc import Callable, Iterable
from hashlib import sha256
from html import escape

from litestar import MediaType, Response, get
from litestar.handlers import HTTPRouteHandler

from dispatcher.base.version import VERSION

STYLE = "body { margin: 3rem auto; max-width: 40rem; padding: 0 1.25rem; font: 1rem/1.6 system-ui, sans-serif; }"
# Those that are not served are left out.
LINKS = {
    "/console": "the operators' console",
    "/reference": "the API, for people",
    "/openapi.json": "the API, for programs",
    "/readyz": "whether it is ready for work",
    "/healthz": "whether it is alive",
    "/metrics": "its metrics, for Prometheus",
}
_STYLE_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
}


def front_page(served: Iterable[HTTPRouteHandler], staging: Callable[[], str]) -> HTTPRouteHandler:
    """Return the route of the page, with the links that are `served`, and a note while staging is on."""
    paths = {path.rstrip("/") for handler in served for path in handler.paths}
    items = "".join(
        f'<li><a href="{path[1:]}">{path}</a>: {words}</li>\n' for path, words in LINKS.items() if path in paths
    )

    @get("/", media_type=MediaType.HTML, sync_to_thread=False)
    def front() -> Response[str]:
        words = staging()
        note = f"<p><b>{escape(words)}</b></p>\n" if words else ""
        return Response(_page(note + f"<ul>\n{items}</ul>"), media_type=MediaType.HTML, headers=HEADERS)

    return front


def _page(body: str) -> str:
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dispatcher</title>
<style>{STYLE}</style>
</head>
<body>
<h1>Dispatcher {VERSION}</h1>
{body}
</body>
</html>
"""
