"""The inbox: every captured message as its recipient would see it, the newest first."""

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from dispatcher.console.page import Answer, Visit, page
from dispatcher.console.pages.messages.mail_checks import checks
from dispatcher.console.rendering import plain
from dispatcher.features.captured.endpoints import get_captured, list_captured
from dispatcher.features.captured.models import CapturedMessage
from dispatcher.features.deliveries.endpoints import get_delivery_mail
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 30


@page("/inbox", Right.DELIVERIES)
async def inbox(visit: Visit) -> Answer:
    """List captured messages, and show the newest."""
    return await _shown(visit, None)


@page("/inbox/{captured_id}", Right.DELIVERIES)
async def message(visit: Visit) -> Answer:
    """Show a captured message beside the others."""
    return await _shown(visit, visit.path["captured_id"])


async def _shown(visit: Visit, number: str | None) -> Answer:
    meant = {name: visit.query.get(name) for name in ("channel", "recipient", "cursor")}
    found = await visit.ask(list_captured, query={"limit": ROWS, **meant})
    if number is None and found.captured:
        number = str(found.captured[0].id)
    one: CapturedMessage | None = None if number is None else await visit.ask(get_captured, number)
    parts: dict[str, Any] = {} if one is None else plain(one.parts)
    raw = b"" if one is None or not one.has_mail else await _raw(visit, one)
    mail = message_from_bytes(raw, policy=policy.default) if raw else None
    return visit.show(
        "messages/inbox.html",
        found=found,
        one=one,
        parts=parts,
        part=_part(visit.query.get("part", ""), parts),
        channels=sorted(visit.config().channels),
        source=raw.decode("ascii", "replace"),
        headers=[] if mail is None else list(mail.items()),
        checks=[] if one is None else checks(parts, _mail(mail), one.fault),
    )


def _mail(mail: object) -> EmailMessage | None:
    return mail if isinstance(mail, EmailMessage) else None


def _part(asked: str, parts: dict[str, Any]) -> str:
    """Return what is shown of the message: by default what its recipient sees."""
    first = "html" if "html" in parts else "text"
    return asked if asked in ("html", "phone", "text", "source", "headers", "checks") else first


async def _raw(visit: Visit, one: CapturedMessage) -> bytes:
    try:
        return bytes((await visit.ask(get_delivery_mail, one.delivery_id)).raw)
    except Problem as problem:
        if problem.kind is not CONFLICT:
            raise
        return b""


@page("/inbox/{captured_id}/html", Right.DELIVERIES, raw=True)
async def html(visit: Visit) -> Answer:
    """Show the HTML of a captured message, in a frame where it can do nothing."""
    found: CapturedMessage = await visit.ask(get_captured)
    parts = plain(found.parts)
    if "html" not in parts:
        raise Problem(NOT_FOUND, f"captured message {found.id} has no HTML")
    return visit.message(str(parts["html"]))


@page("/inbox/{captured_id}/mail", Right.DELIVERIES, raw=True)
async def mail_file(visit: Visit) -> Answer:
    """Download a captured mail as a server would get it."""
    found: CapturedMessage = await visit.ask(get_captured)
    raw = await _raw(visit, found)
    if not raw:
        raise Problem(NOT_FOUND, f"captured message {found.id} is no mail")
    return visit.download(raw, f"{found.idempotency_key}.eml", "message/rfc822")
