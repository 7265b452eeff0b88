"""The parts of a message on each channel."""

import re
from collections.abc import Collection, Iterable

from msgspec import Struct

# A channel that is not listed takes any parts.
PART_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


class Parts(Struct, frozen=True):
    """The parts that a channel takes, and groups of which it needs one each."""

    takes: tuple[str, ...]
    needs: tuple[tuple[str, ...], ...]


_BODY = Parts(("body",), (("body",),))
PARTS: dict[str, Parts] = {
    "email": Parts(("subject", "text", "html"), (("subject",), ("text", "html"))),
    "sms": _BODY,
    "whatsapp": Parts(("body", "content_sid", "content_variables"), (("body", "content_sid"),)),
    "push": Parts(("title", "body", "image", "data"), (("body", "data"),)),
    "voice": _BODY,
    "social": _BODY,
    "chat": Parts(("body", "blocks"), (("body",),)),
    "http": _BODY,
}


def of(channel: str | None) -> Parts | None:
    """The parts of a channel, or of a partial, which has no channel; None where any will do."""
    return _BODY if channel is None else PARTS.get(channel)


def unknown(channel: str | None, part: str) -> str | None:
    """The fault of a part's name; None for a part of the channel."""
    parts = of(channel)
    if parts is None:
        return None if PART_NAME.fullmatch(part) else "is not the name of a part: a letter, then a-z, 0-9 and _"
    if part in parts.takes:
        return None
    return f"is no part of {channel or 'a partial'}, which takes {', '.join(parts.takes)}"


def missing(channel: str | None, given: Collection[str]) -> list[str]:
    """The missing parts of a message, in words."""
    parts = of(channel)
    if parts is None:
        return [] if given else ["any part"]
    return [" or ".join(group) for group in parts.needs if not set(group) & set(given)]


def in_order(channel: str | None, given: Iterable[str]) -> list[str]:
    """The names of parts in reading order."""
    known = of(channel)
    order = known.takes if known is not None else ()
    return sorted(given, key=lambda part: (order.index(part) if part in order else len(order), part))
