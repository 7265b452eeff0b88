"""A rendered delivery as it goes out in staging."""

from msgspec import structs

from dispatcher.engine.rules.staging import Message, Staging
from dispatcher.engine.streams import Rendered


def staged(one: Rendered, staging: Staging, provider: str) -> Rendered | None:
    """Return a delivery with what goes out by a provider; None: nothing."""
    item = one.item
    found = staging.message(item.channel, provider, Message(item.recipient, one.parts, one.options))
    if found is None:
        return None
    # Another recipient is another message: a provider must not take one for a repeat of the other.
    key = f"staging:{found.recipient}:{item.idempotency_key}" if found.is_redirected else item.idempotency_key
    to = structs.replace(item, recipient=found.recipient, idempotency_key=key)
    return Rendered(to, found.parts, found.options)
