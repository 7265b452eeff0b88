"""Receipts of Resend's, signed by Svix. Each mail carries its delivery's number as a tag, which comes back."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.features.receipts.providers import standard_webhooks
from dispatcher.features.receipts.providers.receipt import Kind, Receipt, instant, named, number, recipient, words
from dispatcher.features.receipts.providers.request import Answer, Door, Forged, Garbled, Heard, Request

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


def door(secrets: str) -> Door:
    """The door for who knows one of the secrets."""
    keys = standard_webhooks.keys(secrets)

    def heard(request: Request) -> Answer:
        signed = standard_webhooks.verify(request, keys)
        if isinstance(signed, Forged):
            return signed
        try:
            receipt = _receipt(_decode(request.body))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as fault:
            return Garbled(str(fault))
        return Heard(signed.id, () if receipt is None else (receipt,))

    return heard


def _receipt(event: _Event) -> Receipt | None:
    """What an event says of a mail; None where it is about something else."""
    data = event.data
    kind = _bounced(data.bounce) if event.type == "email.bounced" else _KINDS.get(event.type)
    if kind is None:
        return None
    to = data.to[0] if isinstance(data.to, list) and data.to else data.to
    return Receipt(
        kind,
        instant(event.created_at),
        number(_tag(data.tags)),
        None,
        named(data.email_id),
        recipient(to),
        _why(data),
    )


def _bounced(bounce: object) -> Kind:
    """Hard only where that is said: what is undetermined suppresses nobody."""
    return "bounced_hard" if isinstance(bounce, dict) and bounce.get("type") == "Permanent" else "bounced_soft"


def _tag(tags: object) -> object:
    """The delivery's number: tags come as an object, and came as a list of names and values."""
    if isinstance(tags, dict):
        return tags.get(DELIVERY_TAG)
    if isinstance(tags, list):
        return next(
            (tag.get("value") for tag in tags if isinstance(tag, dict) and tag.get("name") == DELIVERY_TAG), None
        )
    return None


def _why(data: _Data) -> str:
    for said in (data.bounce, data.failed, data.suppressed):
        if isinstance(said, dict):
            parts = (said.get("type"), said.get("subType"), said.get("reason"), said.get("message"))
            return words(": ".join(part for part in parts if isinstance(part, str) and part))
    return ""
