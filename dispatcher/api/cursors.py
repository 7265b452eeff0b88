"""Cursors: where the next page of a list begins. What is in one is nobody's business, and may change."""

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from dispatcher.api.problems import faulty
from dispatcher.errors import Fault

_FORM = re.compile(rb"([a-z_]{1,32}) below ([1-9][0-9]{0,18})")
# What an id can be, and what all are below.
ID_MAX = 2**63 - 1


def cursor(noun: str, last: int) -> str:
    """The cursor of what comes below an id in a list."""
    return urlsafe_b64encode(f"{noun} below {last}".encode()).decode().rstrip("=")


def below(noun: str, text: str | None) -> int:
    """The id that a cursor of this list leads below; without one, over all of them. Raises Problem."""
    if text is None:
        return ID_MAX
    try:
        match = _FORM.fullmatch(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        match = None
    if match is None or match[1].decode() != noun or int(match[2]) > ID_MAX or cursor(noun, int(match[2])) != text:
        raise faulty([Fault("query.cursor", "is none of this list: take next_cursor from its last answer")])
    return int(match[2])
