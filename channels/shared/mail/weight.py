"""The weight of a message: what is heavy is composed beside the event loop, since that takes some 20 ms a megabyte."""

from channels.contract import Envelope

# A step of the program may hold the event loop for 20 ms.
LIGHT_BYTES_MAX = 256 * 1024


def is_heavy(envelope: Envelope) -> bool:
    """Whether composing it would hold the event loop."""
    weight = sum(map(len, envelope.parts.values()))
    options = envelope.options
    if options:
        for name in ("attachments", "inline"):
            weight += sum(map(_content_length, options.get(name) or ()))
    return weight > LIGHT_BYTES_MAX


def _content_length(given: object) -> int:
    content = given.get("content") if isinstance(given, dict) else None
    return len(content) if isinstance(content, str | bytes) else 0
