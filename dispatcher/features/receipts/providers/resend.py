"""Receipts of Resend, signed by Svix. Each mail carries the id of its delivery as a tag, which receipts repeat."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.features.receipts.providers.receipt import (
    Kind,
    Receipt,
    bounced,
    instant,
    named,
    number,
    recipient,
    words,
)

DELIVERY_TAG = "delivery"

_KINDS: Mapping[str, Kind] = {
    "email.sent": "sent",
    "email.delivered": "delivered",
    "email.delivery_delayed": "sent",
    "email.complained": "complained",
    "email.opened": "opened",
    "email.clicked": "clicked",
    "email.failed": "failed",
    "email.suppressed": "failed",
}


class _Data(Struct, frozen=True):
    email_id: Any = None
    to: Any = None
    tags: Any = None
    bounce: Any = None
    failed: Any = None
    suppressed: Any = None


class _Event(Struct, frozen=True):
    type: str
    created_at: Any = None
    data: _Data = _Data()


_decode = msgspec.json.Decoder(_Event).decode


def receipts(body: bytes) -> tuple[Receipt, ...]:
    """Return the receipt in an event about a mail; none for other events. Raises msgspec's errors."""
    event = _decode(body)
    data = event.data
    kind = bounced(data.bounce, "type") if event.type == "email.bounced" else _KINDS.get(event.type)
    if kind is None:
        return ()
    to = data.to[0] if isinstance(data.to, list) and data.to else data.to
    at, delivery_id = instant(event.created_at), number(_tag(data.tags))
    return (Receipt(kind, at, delivery_id, None, named(data.email_id), recipient(to), _why(data)),)


def _tag(tags: object) -> object:
    """Return the tag with the delivery's id: tags are an object, in older events a list of names and values."""
    if isinstance(tags, list):
        tags = {str(tag.get("name")): tag.get("value") for tag in reversed(tags) if isinstance(tag, dict)}
    return tags.get(DELIVERY_TAG) if isinstance(tags, dict) else None


def _why(data: _Data) -> str:
    for said in (data.bounce, data.failed, data.suppressed):
        if isinstance(said, dict):
            return words(*map(said.get, ("type", "subType", "reason", "message")))
    return ""
