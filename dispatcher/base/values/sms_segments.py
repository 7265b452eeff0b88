"""The segments of an SMS: how its text is encoded, and in how many parts it is sent and paid.

A text of the GSM alphabet (3GPP TS 23.038) has 160 characters in one segment, or 153 in each of several, of which some
signs take two. Any other sign makes the whole text UCS-2: 70 UTF-16 units, or 67 in each of several. What takes two is
never divided.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENDED = frozenset("\f^{}\\[~]|€")
_ALPHABET = _BASIC | _EXTENDED
# No provider takes a longer text, and to count it would hold up the event loop.
CHARACTERS_MAX = 10_000
# The last sign of the basic plane: those behind it are two units of UTF-16.
_ONE_UNIT_MAX = "\uffff"

Encoding = Literal["GSM-7", "UCS-2"]


class Segments(Struct, frozen=True):
    """How an SMS is sent."""

    encoding: Encoding
    segments: Annotated[int, Meta(description="In how many parts it is sent and paid.")]
    characters: Annotated[int, Meta(description="As the encoding counts them.")]

    @property
    def words(self) -> str:
        """In short, for people."""
        return f"{self.segments} segment{'' if self.segments == 1 else 's'} ({self.encoding})"


def sms_segments(text: str) -> Segments:
    """Return the segments of a text."""
    if _ALPHABET.issuperset(text):
        return _divided("GSM-7", (2 if sign in _EXTENDED else 1 for sign in text), 160, 153)
    return _divided("UCS-2", (1 if sign <= _ONE_UNIT_MAX else 2 for sign in text), 70, 67)


def segments_of(channel: str | None, parts: Mapping[str, str]) -> Segments | None:
    """Return the segments of a rendered message; None where it is not an SMS, or is far too long for one."""
    body = parts.get("body")
    return None if channel != "sms" or body is None or len(body) > CHARACTERS_MAX else sms_segments(body)


def _divided(encoding: Encoding, widths: Iterable[int], alone: int, each: int) -> Segments:
    total, segments, used = 0, 1, 0
    for width in widths:
        total += width
        if used + width > each:
            segments, used = segments + 1, 0
        used += width
    return Segments(encoding, 1 if total <= alone else segments, total)
