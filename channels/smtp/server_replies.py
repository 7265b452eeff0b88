"""A server's replies as they may be shown: without addresses and control characters, and not endless."""

import re

TEXT_MAX = 300
# Shorter ones are words of every language, and identify no person.
LOCAL_PART_MIN = 3

_ADDRESS = re.compile(r"<[^<>\s]*@[^<>\s]*>|[^\s<>()\[\]\"',;:=]+@[^\s<>()\[\]\"',;:]+")
_SPACE = re.compile(r"\s+")
_ENHANCED = re.compile(rb"[245]\.\d{1,3}\.\d{1,3}(?=\s|$)")


def enhanced_code(line: bytes) -> str:
    """The enhanced status code behind the three digits of a line, or nothing."""
    found = _ENHANCED.match(line, 4)
    return found[0].decode() if found else ""


def reply_text(lines: list[bytes], recipient: str) -> str:
    """The lines of one answer, in one line."""
    return clean(" ".join(_text(line) for line in lines), recipient)


def _text(line: bytes) -> str:
    found = _ENHANCED.match(line, 4)
    return line[found.end() if found else 4 :].decode("ascii", "replace")


def clean(text: str, recipient: str = "") -> str:
    """A text in which no address is left, and nothing of the recipient's."""
    text = _SPACE.sub(" ", "".join(one if one.isprintable() else " " for one in text.replace("\ufffd", "?")))
    if recipient:
        text = re.sub(f"<?{re.escape(recipient)}>?", "<address>", text, flags=re.IGNORECASE)
    text = _ADDRESS.sub("<address>", text).strip()
    if recipient:
        local = recipient.rpartition("@")[0]
        if len(local) >= LOCAL_PART_MIN:
            text = re.sub(rf"(?<!\w){re.escape(local)}(?!\w)", "<address>", text, flags=re.IGNORECASE)
    return text if len(text) <= TEXT_MAX else text[:TEXT_MAX].rstrip() + "…"
