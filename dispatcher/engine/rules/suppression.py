"""Suppression: whether something may still be sent to an address, decided from what is known of the address.

an operator's word, a bounce, a complaint, an imported list    stop everything
unsubscribed from everything                                   stops everything but transactional deliveries that
                                                               carry no topic: a receipt, a new password
unsubscribed from a topic                                      stops what carries that topic, in whichever lane
"""

import re
from collections.abc import Collection, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from dispatcher.base.errors import did_you_mean
from dispatcher.engine.rules.life import Lane

Source = Literal["operator", "bounce", "complaint", "unsubscribe", "import"]
SOURCES: tuple[Source, ...] = ("operator", "bounce", "complaint", "unsubscribe", "import")
TOPIC = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
TOPIC_WORDS = "1 to 64 characters a-z, 0-9, ., _ and -, a letter or digit first"


class Addressed(Protocol):
    """A delivery, as far as it matters here."""

    @property
    def id(self) -> int: ...
    @property
    def tenant_id(self) -> str: ...
    @property
    def channel(self) -> str: ...
    @property
    def lane(self) -> Lane: ...
    @property
    def recipient(self) -> str: ...
    @property
    def topic(self) -> str | None: ...


class Suppression(Struct, frozen=True):
    """One entry about an address; `channel` is empty where it is about all of them."""

    channel: str
    source: Source
    reason: str


class Known(Struct, frozen=True):
    """What is known of one address."""

    suppressions: Sequence[Suppression] = ()
    unsubscribed: Collection[str] = ()


def unknown_channel(channel: str, channels: Collection[str]) -> str | None:
    """What is wrong with a channel that an entry is about; empty: every one."""
    if channel in ("", *channels):
        return None
    return f"unknown channel{did_you_mean(channel, channels)}; known are {', '.join(sorted(channels))}"


def suppression_reason(item: Addressed, known: Known) -> str | None:
    """Why nothing may be sent, or None. What stops most is named first."""
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
