"""Settings that providers over HTTP share. Importing them needs no HTTP client."""

from ipaddress import ip_network
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
# A place of the operator's own choice. Its path or query may be what allows to write there.
TargetUrl = Annotated[
    str,
    Meta(
        pattern=rf"^https?://{HOST}([/?][!\"$-~]*)?\Z",
        max_length=4_096,
        extra={
            "secret": True,
            "expects": "a URL that begins with https:// (http:// to what allow_addresses names), without login",
        },
    ),
]
AllowAddresses = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Fa-f:./\s]*\Z",
        max_length=4_096,
        extra={"expects": 'ranges of addresses with spaces between them, for example "10.1.0.0/16 fd00::/8"'},
    ),
]


def require_ranges(allow_addresses: str) -> None:
    try:
        for one in allow_addresses.split():
            ip_network(one)
    except ValueError:
        raise ValueError(
            "allow_addresses has something that is not a range of addresses; use 10.1.0.0/16, 10.1.2.3 or fd00::/8"
        ) from None
