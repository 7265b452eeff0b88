"""Receipts in Dispatcher's own JSON form, for providers without a reader, signed as Standard Webhooks."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dispatcher.features.receipts.providers.receipt import (
    ID_MAX,
    NAME_CHARACTERS_MAX,
    Kind,
    Receipt,
    named,
    recipient,
    words,
)

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX, pattern=r"^[^\x00]*\Z")]
Tenant = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*\Z")]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """The request body: a delivery, named by its id or by its key, and its status at the provider."""

    status: Kind
    id: Annotated[int, Meta(ge=1, le=ID_MAX)] | None = None
    idempotency_key: Name | None = None
    tenant_id: Tenant = "default"
    workspace_id: Tenant = "default"
    at: Annotated[datetime, Meta(tz=True)] | None = None
    provider_message_id: str = ""
    recipient: str = ""
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse no name, and two that may differ."""
        if (self.id is None) == (self.idempotency_key is None):
            raise ValueError("names the delivery by its id, or by its idempotency_key")


_decode = msgspec.json.Decoder(Body).decode


def receipts(body: bytes) -> tuple[Receipt, ...]:
    """Return the receipt that a body carries. Raises msgspec's errors."""
    said = _decode(body)
    key = None if said.idempotency_key is None else (said.tenant_id, said.workspace_id, said.idempotency_key)
    names = named(said.provider_message_id)
    return (Receipt(said.status, said.at, said.id, key, names, recipient(said.recipient), words(said.reason)),)
