"""One delivery: what became of it, its trace, and the message as its recipient sees it."""

from collections.abc import Mapping, Sequence
from email import message_from_bytes, policy
from typing import Any

from msgspec import Struct

from dispatcher.base.values.locales import UNNAMED
from dispatcher.console.page import Answer, Visit, page
from dispatcher.console.pages.messages.delivery_trace import trace
from dispatcher.console.rendering import plain
from dispatcher.features.deliveries.endpoints import get_delivery, get_delivery_mail, list_deliveries
from dispatcher.features.deliveries.models import WholeDelivery
from dispatcher.features.templates.endpoints import preview_template
from dispatcher.features.templates.models import Preview
from dispatcher.http.problems import CONFLICT, FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

# What can still be cancelled or moved, and what can be sent again.
OPEN = ("pending", "parked", "claimed")
ENDED = ("failed", "skipped")
OTHERS = 6
_SENTENCES = {
    "pending": "It has not been sent yet.",
    "claimed": "A dispatcher has taken it.",
    "sending": "It is being handed to its provider.",
    "parked": "It is not sent while something is paused.",
    "held": "It is held: a call was begun, and nobody knows whether it left.",
    "failed": "It was not delivered.",
    "skipped": "It was not sent.",
}


class Message(Struct, frozen=True, kw_only=True):
    """A message as it was handed over, in parts."""

    html: str = ""
    text: str = ""
    headers: Sequence[tuple[str, str]] = ()
    attachments: Sequence[tuple[str, str, int]] = ()
    # Other parts by name, for channels that are no mail.
    others: Mapping[str, Any] = {}
    # Why it could not be rendered now.
    fault: str = ""
    is_rendered: bool = False

    @property
    def parts(self) -> list[tuple[str, str, int]]:
        """Return the parts that there are: name, words, and how many in it."""
        found = [("html", "HTML", 0)] if self.html else []
        found += [("text", "Text", 0)] if self.text else []
        found += [(name, name, 0) for name in self.others]
        found += [("headers", "Headers", len(self.headers))] if self.headers else []
        return found + ([("attachments", "Attachments", len(self.attachments))] if self.attachments else [])


@page("/deliveries/{delivery_id}", Right.DELIVERIES)
async def delivery(visit: Visit) -> Answer:
    """Show one delivery with its trace and its message."""
    one: WholeDelivery = await visit.ask(get_delivery)
    message = await _message(visit, one)
    if not message.parts:
        message = await rendered(visit, one)
    names = [name for name, _, _ in message.parts]
    asked = visit.query.get("part", "")
    query = {"recipient": one.recipient, "limit": OTHERS}
    others = (await visit.ask(list_deliveries, query=query)).deliveries if one.recipient else []
    return visit.show(
        "messages/delivery.html",
        one=one,
        sentence=_SENTENCES.get(one.life, ""),
        steps=trace(one),
        message=message,
        part=asked if asked in names else next(iter(names), ""),
        template=plain(one.template),
        others=[other for other in others if other.id != one.id],
        may_stop=one.life in OPEN,
        may_retry=one.life in ENDED and one.retried_by is None,
        may_settle=one.life == "held" and visit.may(Right.HELD),
    )


@page("/deliveries/{delivery_id}/html", Right.DELIVERIES, raw=True)
async def delivery_html(visit: Visit) -> Answer:
    """Show the HTML of a captured message, in a frame where it can do nothing."""
    one: WholeDelivery = await visit.ask(get_delivery)
    message = await _message(visit, one)
    if not message.parts:
        message = await rendered(visit, one)
    if not message.html:
        raise Problem(NOT_FOUND, f"delivery {one.id} has no HTML")
    return visit.message(message.html)


async def _message(visit: Visit, one: WholeDelivery) -> Message:
    """Return the message that was captured last; an empty one where none was."""
    if not one.captured:
        return Message()
    parts = plain(one.captured[-1].parts) or {}
    raw = await _raw(visit) if one.channel == "email" else None
    if raw is None:
        texts = {name: value for name, value in parts.items() if name not in ("html", "text")}
        return Message(html=_text(parts.get("html")), text=_text(parts.get("text")), others=texts)
    return read_mail(raw)


async def rendered(visit: Visit, one: WholeDelivery) -> Message:
    """Return the message as its template's version and its variables make it now."""
    if not visit.may(Right.TEMPLATES):
        return Message()
    own, locale = plain(one.template), one.locale
    asked: dict[str, object] = {"variables": plain(one.variables) or {}}
    if own:
        asked |= {"draft": {"channel": one.channel, "locales": {UNNAMED: {"parts": own}}}}
    else:
        asked |= {"version": one.template_version, "locale": locale}
    try:
        shown: Preview = await visit.ask(preview_template, one.template_name or "inline", body=asked)
    except Problem as problem:
        if problem.kind not in (FAULTY, NOT_FOUND):
            raise
        return Message(fault=problem.faults[0].message if problem.faults else problem.detail)
    others = {name: text for name, text in shown.parts.items() if name not in ("html", "text")}
    return Message(html=shown.parts.get("html", ""), text=shown.parts.get("text", ""), others=others, is_rendered=True)


def read_mail(raw: bytes) -> Message:
    """Return a mail in parts."""
    mail = message_from_bytes(raw, policy=policy.default)
    html, text = mail.get_body(("html",)), mail.get_body(("plain",))
    return Message(
        html="" if html is None else _text(html.get_content()),
        text="" if text is None else _text(text.get_content()),
        headers=[(name, str(value)) for name, value in mail.items()],
        attachments=[
            (part.get_filename() or "", part.get_content_type(), len(part.get_payload(decode=True) or b""))
            for part in mail.iter_attachments()
        ],
    )


async def _raw(visit: Visit) -> bytes | None:
    try:
        found: bytes = (await visit.ask(get_delivery_mail)).raw
    except Problem as problem:
        if problem.kind is not CONFLICT:
            raise
        return None
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
