"""Receipts in our own form, from whatever else knows what became of a message, signed as Standard Webhooks are."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from dispatcher.features.receipts.providers import standard_webhooks
from dispatcher.features.receipts.providers.receipt import (
    ID_MAX,
    NAME_CHARACTERS_MAX,
    Kind,
    Receipt,
    named,
    recipient,
    words,
)
from dispatcher.features.receipts.providers.request import Answer, Door, Forged, Garbled, Heard, Request

Name = Annotated[str, Meta(min_length=1, max_length=NAME_CHARACTERS_MAX, pattern=r"^[^\x00]*\Z")]
Tenant = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00]*\Z")]


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """What is posted: the delivery by its id or by its key, and what became of it."""

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
        """One name, and not two that may differ."""
        if (self.id is None) == (self.idempotency_key is None):
            raise ValueError("names the delivery by its id, or by its idempotency_key")


_decode = msgspec.json.Decoder(Body).decode


def door(secrets: str) -> Door:
    """The door for those who know one of the secrets."""
    keys = standard_webhooks.keys(secrets)

    def heard(request: Request) -> Answer:
        signed = standard_webhooks.verify(request, keys)
        if isinstance(signed, Forged):
            return signed
        try:
            body = _decode(request.body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            return Garbled(str(fault))
        return Heard(signed.id, (_receipt(body),))

    return heard


def _receipt(body: Body) -> Receipt:
    key = None if body.idempotency_key is None else (body.tenant_id, body.workspace_id, body.idempotency_key)
    return Receipt(
        body.status,
        body.at,
        body.id,
        key,
        named(body.provider_message_id),
        recipient(body.recipient),
        words(body.reason),
    )
