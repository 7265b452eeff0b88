"""The options of the webhooks channel; the endpoints are in the database."""

from ipaddress import ip_network
from typing import Annotated

from msgspec import Meta, Struct


class WebhooksOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options that all endpoints share."""

    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0
    # Calls of one endpoint under way at a time, in each process.
    connections: Annotated[int, Meta(ge=1, le=64)] = 8
    # Ranges that endpoints may lead to although they are not public, also by http://, with spaces between them.
    allow_addresses: Annotated[
        str,
        Meta(
            pattern=r"^[0-9A-Fa-f:./\s]*\Z",
            max_length=4_096,
            extra={"expects": 'ranges of addresses with spaces between them, for example "10.1.0.0/16 fd00::/8"'},
        ),
    ] = ""

    def __post_init__(self) -> None:
        try:
            for one in self.allow_addresses.split():
                ip_network(one)
        except ValueError:
            raise ValueError(
                "allow_addresses has something that is not a range of addresses; use 10.1.0.0/16, 10.1.2.3 or fd00::/8"
            ) from None
