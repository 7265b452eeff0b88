"""Idempotency keys: the same inputs give the same key on every machine, for ever."""

import hashlib
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

# What the third part names, by channel. Every other channel follows the form of e-mail.
_SUBJECT = {"voice": "script version", "social": "post"}

Part = str | int | datetime | None


def _text(part: Part) -> str:
    """One part: percent-encoded; a time in UTC, RFC 3339, with microseconds; an absent one is empty."""
    match part:
        case None:
            return ""
        case datetime():
            return _time(part)
        case int():
            return str(part)
        case _:
            return quote(part, safe="")


# Many deliveries that are written at once have the same time.
@lru_cache(maxsize=64)
def _time(part: datetime) -> str:
    if part.tzinfo is None:
        raise ValueError("a time in a key needs its zone")
    return quote(part.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"), safe="")


def key(*parts: Part) -> str:
    """sha256, in hex, over the parts joined by `|`."""
    return hashlib.sha256("|".join(map(_text, parts)).encode("ascii")).hexdigest()


def delivery_key(
    channel: str,
    run: Part,
    recipient: Part,
    subject: Part,
    scheduled_for: datetime,
    *,
    node: str | None = None,
) -> str:
    """The key of a delivery. `subject` is the asset, for voice the script's version, for social the post.

    Social posts have no recipient: the channel stands in its place, after the post. Inside a workflow the node's id
    follows the run.
    """
    head = (run,) if node is None else (run, node)
    if _SUBJECT.get(channel) == "post":
        return key(*head, subject, channel, scheduled_for)
    return key(*head, recipient, subject, scheduled_for)
