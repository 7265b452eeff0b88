"""Settings that providers over HTTP share. Importing them needs no HTTP client."""

from typing import Annotated

from msgspec import Meta

# \Z and not $: Python's $ also matches before a last newline, which would end a header.
HOST = r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)(:[0-9]{1,5})?"
PATH = r"(/[A-Za-z0-9._~/-]{0,200})?\Z"
_LOOPBACK = r"(localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])(:[0-9]{1,5})?"

# The base URL of a provider's API.
Url = Annotated[
    str,
    Meta(
        pattern=rf"^(https://{HOST}|http://{_LOOPBACK}){PATH}",
        extra={"expects": "a URL that begins with https:// (http:// to this machine only)"},
    ),
]
