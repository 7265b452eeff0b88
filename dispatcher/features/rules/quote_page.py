"""The page of a quote: a PDF of its variables, the same bytes for the same variables."""

from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from typing import Any

import msgspec

from dispatcher.base.errors import TemplateError

# Rows and characters of the page; a quote that has more is a document of its own, which is stored as an object.
ROWS_MAX = 200
TEXT_MAX = 500
PAGES = ("quote",)

_MARGIN = 56.0
_WIDTH, _HEIGHT = 595.0, 842.0
_LEADING = 16.0
_FONT = "Vera"

_decode = msgspec.json.Decoder(dict[str, Any]).decode


def page(kind: str, variables: str) -> bytes:
    """Return a PDF that is made of the variables of a message, JSON. Raises TemplateError for another kind."""
    if kind not in PAGES:
        raise TemplateError("options.attachments.pdf", f"is not a page that can be made; there are {', '.join(PAGES)}")
    return _drawn(list(_lines(_decode(variables))))


def _lines(variables: Mapping[str, Any]) -> Iterator[str]:
    quote = variables.get("quote")
    fields = quote if isinstance(quote, dict) else {}
    yield f"Quote {_text(fields.get('number'))}".strip()
    lead = variables.get("lead")
    if isinstance(lead, dict) and lead.get("name"):
        yield _text(lead["name"])
    yield ""
    for name, value in list(fields.items())[:ROWS_MAX]:
        if name != "number" and value not in ("", None):
            yield f"{_text(name).replace('_', ' ').capitalize()}: {_text(value)}"


def _text(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return " ".join(text.split())[:TEXT_MAX]


@cache
def _font() -> Any:  # noqa: ANN401 - the library has no types
    """Return the font, registered once: it tells documents apart by itself."""
    from reportlab.pdfbase import pdfmetrics  # noqa: PLC0415 - loaded when it is first needed
    from reportlab.pdfbase.ttfonts import TTFont  # noqa: PLC0415 - as above

    font = TTFont(_FONT, "Vera.ttf")
    pdfmetrics.registerFont(font)
    return font


def _drawn(lines: list[str]) -> bytes:
    # Loaded when it is first needed: it takes a tenth of a second.
    from reportlab.lib.utils import simpleSplit  # noqa: PLC0415 - as above
    from reportlab.pdfgen.canvas import Canvas  # noqa: PLC0415 - as above

    letters = _font().face.charToGlyph
    buffer = BytesIO()
    canvas = Canvas(buffer, pagesize=(_WIDTH, _HEIGHT), invariant=1)
    top = _HEIGHT - _MARGIN
    for number, line in enumerate(lines):
        size = 18 if number == 0 else 11
        shown = "".join(sign if ord(sign) in letters else "?" for sign in line)
        for piece in simpleSplit(shown, _FONT, size, _WIDTH - 2 * _MARGIN) or [""]:
            if top < _MARGIN:
                canvas.showPage()
                top = _HEIGHT - _MARGIN
            canvas.setFont(_FONT, size)
            canvas.drawString(_MARGIN, top, piece)
            top -= _LEADING + size - 11
    canvas.save()
    return buffer.getvalue()
