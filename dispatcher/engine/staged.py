"""Rendered deliveries as they go out in staging."""

from collections.abc import Iterable

from msgspec import structs

from dispatcher.engine.rules.staging import Message, Staging
from dispatcher.engine.streams import Rendered


def all_staged(batch: Iterable[Rendered], staging: Staging, provider: str) -> dict[int, Rendered]:
    """Return what goes out by a provider, by id. What is missing there is not sent."""
    found = ((one.item.id, _staged(one, staging, provider)) for one in batch)
    return {delivery_id: ready for delivery_id, ready in found if ready is not None}


def _staged(one: Rendered, staging: Staging, provider: str) -> Rendered | None:
    item = one.item
    found = staging.message(item.channel, provider, Message(item.recipient, one.parts, one.options))
    if found is None:
        return None
    # Another recipient is another message: a provider must not take one for a repeat of the other.
    key = f"staging:{found.recipient}:{item.idempotency_key}" if found.is_redirected else item.idempotency_key
    to = structs.replace(item, recipient=found.recipient, idempotency_key=key)
    return Rendered(to, found.parts, found.options)
