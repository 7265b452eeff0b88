"""Suppression: whether a delivery may still be sent to an address, decided from what is known of the address.

an operator's word, a bounce, a complaint, an imported list    stop everything
unsubscribed from everything                                   stops everything but transactional deliveries that
                                                               carry no topic: a receipt, a new password
unsubscribed from a topic                                      stops what carries that topic, in whichever lane
"""

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from dispatcher.base.errors import did_you_mean
from dispatcher.engine.rules.life import Claimed, Lane

Source = Literal["operator", "bounce", "complaint", "unsubscribe", "import"]
SOURCES: tuple[Source, ...] = ("operator", "bounce", "complaint", "unsubscribe", "import")
TOPIC = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
TOPIC_WORDS = "1 to 64 characters a-z, 0-9, ., _ and -, a letter or digit first"


class Candidate(Struct, frozen=True):
    """A queued delivery that a suppression may be about."""

    id: int
    tenant_id: str
    channel: str
    lane: Lane
    recipient: str
    topic: str | None


class Suppression(Struct, frozen=True):
    """One entry about an address; `channel` is empty where it is about all of them."""

    channel: str
    source: Source
    reason: str


class Known(Struct, frozen=True):
    """The entries about one address."""

    suppressions: Sequence[Suppression] = ()
    unsubscribed: Collection[str] = ()


def unknown_channel(channel: str, channels: Collection[str]) -> str | None:
    """Return what is wrong with the channel of an entry, or None; an empty channel means all."""
    if channel in ("", *channels):
        return None
    return f"unknown channel{did_you_mean(channel, channels)}; known are {', '.join(sorted(channels))}"


def suppression_reason(item: Claimed | Candidate, known: Known) -> str | None:
    """Return why nothing may be sent, or None. The reason that stops most comes first."""
    left: str | None = None
    for one in known.suppressions:
        if one.channel not in ("", item.channel):
            continue
        if one.source != "unsubscribe":
            return f"suppressed: {one.source}" + (f": {one.reason}" if one.reason else "")
        if item.lane is not Lane.TRANSACTIONAL or item.topic is not None:
            left = "unsubscribed: from everything"
    if left is None and item.topic is not None and item.topic in known.unsubscribed:
        left = f"unsubscribed: from {item.topic}"
    return left
