"""Checks of a captured message: what a recipient, or a provider, would find wrong with it. Nothing is called."""

from email.message import EmailMessage
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

# From here on, mail programs show a part of a mail only.
HTML_BYTES_MAX = 102_400
_LINKED = {"a": "href", "img": "src", "link": "href"}
_SCHEMES = ("http", "https", "mailto", "tel")
# Hosts that no recipient can reach.
_LOCAL = ("localhost", "127.0.0.1", "::1")


class Check(Struct, frozen=True):
    """A check: what it found, and whether that is as it should be."""

    is_good: bool
    words: str


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.images_without_words = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if (name := _LINKED.get(tag)) and given.get(name):
            self.found.append(str(given[name]).strip())
        if tag == "img" and given.get("alt") is None:
            self.images_without_words += 1


def checks(parts: dict[str, Any], mail: EmailMessage | None, fault: str | None) -> list[Check]:
    """Return the checks of a message."""
    found = [Check(False, fault)] if fault else [Check(True, "its provider would take it")]
    texts = [str(text) for text in parts.values()]
    found.append(
        Check(False, "it shows the source of a template: {{ or {%")
        if any("{{" in text or "{%" in text for text in texts)
        else Check(True, "no template source is left")
    )
    html = parts.get("html")
    if isinstance(html, str):
        found += _html(html)
    if mail is not None:
        found.append(
            Check(True, "it can be unsubscribed from with one click")
            if mail["list-unsubscribe"]
            else Check(False, "no List-Unsubscribe: right for receipts and codes, wrong for news")
        )
        plain = mail.get_body(preferencelist=("plain",))
        found.append(Check(plain is not None, "it has a text part" if plain is not None else "no text part"))
    return found


def _html(html: str) -> list[Check]:
    links = _Links()
    links.feed(html)
    wrong = [f"{link[:100]}: {why}" for link in dict.fromkeys(links.found) if (why := _fault(link))]
    found = [Check(False, f"link {words}") for words in wrong]
    if links.found and not wrong:
        found.append(Check(True, f"{len(links.found)} links are whole addresses"))
    if links.images_without_words:
        found.append(Check(False, f"{links.images_without_words} images without alt"))
    size = len(html.encode())
    if size > HTML_BYTES_MAX:
        found.append(Check(False, f"{size:,} bytes of HTML: over {HTML_BYTES_MAX:,} it is cut off by some"))
    return found


def _fault(link: str) -> str:
    """Return what is wrong with a link, or nothing."""
    try:
        parts = urlsplit(link)
        host = parts.hostname
    except ValueError:
        return "is not an address"
    if link.startswith(("#", "cid:", "data:")):
        return ""
    if parts.scheme not in _SCHEMES:
        return "is not a whole address: it has to begin with https://"
    if parts.scheme in ("http", "https") and (not host or host in _LOCAL):
        return "leads to no public host"
    return "is not encrypted: https:// is" if parts.scheme == "http" else ""
