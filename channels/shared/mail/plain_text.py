"""The text of an html part, for readers of text only: words, lines, list marks, and where links lead."""

import re
from html import unescape

# An element without text goes with its content; an unclosed one takes the rest, as in a browser.
# Each of these ends at the next `<`: what is never closed would else be looked at again from every tag before it.
_UNSEEN = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|head|title|template)\b[^<>]*>.*?(?:</\1\s*>|\Z)", re.DOTALL | re.IGNORECASE
)
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)>|<[!?/][^<>]*>")
_HREF = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>]+))", re.IGNORECASE)
_ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
_BLANKS = re.compile(r"[ \t\r\n\f]+")
_RUNS = re.compile(r" {2,}")
_AROUND_LINES = re.compile(r" *\n *")
_GAPS = re.compile(r"\n{3,}")
# Longer numbers are refused by Python, and are not characters anyway.
_ENDLESS_NUMBER = re.compile(r"&#[0-9]{10,};?")

_LINES = ("br", "div", "tr", "section", "header", "footer", "article", "dt", "dd")
_PARAGRAPHS = ("p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "dl", "table", "blockquote", "pre", "hr", "body")
_BREAKS = dict.fromkeys(_LINES, "\n") | dict.fromkeys(_PARAGRAPHS, "\n\n") | dict.fromkeys(("td", "th"), " ")
_LINKS = ("http://", "https://", "mailto:", "tel:")


def plain_text(html: str) -> str:
    """The text of an html part. One pass over its tags; anything that is not html comes out as some text."""
    pieces: list[str] = []
    links: list[str] = []
    position = 0
    html = _UNSEEN.sub(" ", html)
    for tag in _TAG.finditer(html):
        pieces.append(_BLANKS.sub(" ", html[position : tag.start()]))
        position = tag.end()
        if tag[2]:
            pieces.append(_said(tag[2].lower(), bool(tag[1]), tag[3], links))
    pieces.append(_BLANKS.sub(" ", html[position:]))
    text = unescape(_ENDLESS_NUMBER.sub("\N{REPLACEMENT CHARACTER}", "".join(pieces)))
    text = _RUNS.sub(" ", text.replace("\xa0", " "))
    return _GAPS.sub("\n\n", _AROUND_LINES.sub("\n", text)).strip() + "\n"


def _said(name: str, closing: bool, attributes: str, links: list[str]) -> str:
    match name:
        case "a" if closing:
            link = links.pop() if links else ""
            return f" ({link})" if link else ""
        case "a":
            links.append(_link(attributes))
        case "img" if alt := _ALT.search(attributes):
            return alt[1] or alt[2] or ""
        case "li" if not closing:
            return "\n- "
        case _:
            return _BREAKS.get(name, "")
    return ""


def _link(attributes: str) -> str:
    found = _HREF.search(attributes)
    target = (found[1] or found[2] or found[3] or "").strip() if found else ""
    return target if target.lower().startswith(_LINKS) else ""
