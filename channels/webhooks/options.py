"""The options of the webhooks channel; the endpoints are in the database."""

from typing import Annotated

from msgspec import Meta, Struct

from channels.shared.web.settings import AllowAddresses, require_ranges


class WebhooksOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options that all endpoints share."""

    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0
    # Calls of one endpoint under way at a time, in each process.
    connections: Annotated[int, Meta(ge=1, le=64)] = 8
    # Ranges that endpoints may lead to although they are not public, also by http://, with spaces between them.
    allow_addresses: AllowAddresses = ""

    def __post_init__(self) -> None:
        require_ranges(self.allow_addresses)
