"""Deliveries: the list with its filters, one delivery with its trace, and what can be done to it."""

from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, get_args

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.pages.messages.delivery_trace import trace
from dispatcher.console.rendering import plain
from dispatcher.features.deliveries.endpoints import (
    cancel_delivery,
    get_delivery,
    get_delivery_mail,
    list_deliveries,
    move_delivery,
    retry_delivery,
)
from dispatcher.features.deliveries.models import DeliveryLife, WholeDelivery
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
# What can still be cancelled or moved, and what can be sent again.
OPEN = ("pending", "parked", "claimed")
ENDED = ("failed", "skipped")


@page("/deliveries", Right.DELIVERIES)
async def deliveries(visit: Visit) -> Answer:
    """List deliveries, the newest first."""
    found = await visit.ask(list_deliveries, query={"limit": ROWS, **visit.query})
    channels = sorted(visit.config().channels)
    return visit.show(
        "messages/deliveries.html",
        found=found,
        channels=channels,
        lives=get_args(DeliveryLife),
    )


@page("/deliveries/{delivery_id}", Right.DELIVERIES)
async def delivery(visit: Visit) -> Answer:
    """Show one delivery with its trace and its message."""
    found: WholeDelivery = await visit.ask(get_delivery)
    mail = await _mail(visit) if found.channel == "email" and found.captured else None
    return visit.show(
        "messages/delivery.html",
        one=found,
        steps=trace(found),
        mail=mail,
        parts=_parts(found),
        part=visit.query.get("part", ""),
        may_stop=found.life in OPEN,
        may_retry=found.life in ENDED,
    )


@page("/deliveries/{delivery_id}/html", Right.DELIVERIES, raw=True)
async def delivery_html(visit: Visit) -> Answer:
    """Show the HTML of a captured message, in a frame where it can do nothing."""
    found: WholeDelivery = await visit.ask(get_delivery)
    html = _parts(found).get("html")
    if html is None:
        raise Problem(NOT_FOUND, f"delivery {found.id} has no HTML")
    return visit.message(str(html))


def _parts(found: WholeDelivery) -> dict[str, Any]:
    """Return the parts of the message that was captured last, or an empty dict."""
    return (plain(found.captured[-1].parts) or {}) if found.captured else {}


async def _mail(visit: Visit) -> EmailMessage | None:
    try:
        found = await visit.ask(get_delivery_mail)
    except Problem as problem:
        if problem.kind is not CONFLICT:
            raise
        return None
    return message_from_bytes(found.raw, policy=policy.default)


def _about(visit: Visit) -> str:
    return f"/deliveries/{visit.path['delivery_id']}"


@form("/deliveries/{delivery_id}/cancel", cancel_delivery)
async def cancel(visit: Visit) -> Form:
    """Cancel a delivery."""
    return Form(
        title=f"Cancel delivery {visit.path['delivery_id']}?",
        text="One delivery. It is not sent, unless it was handed to its provider meanwhile.",
        button="Cancel it",
        back=_about(visit),
        risk=True,
    )


@form("/deliveries/{delivery_id}/move", move_delivery)
async def move(visit: Visit) -> Form:
    """Move a delivery to another time."""
    return Form(
        title=f"Send delivery {visit.path['delivery_id']} at another time?",
        button="Move it",
        fields=[Field("run_at", "New time", "time", value=visit.now, required=True)],
        back=_about(visit),
    )


@form("/deliveries/{delivery_id}/retry", retry_delivery)
async def retry(visit: Visit) -> Form:
    """Send a failed or skipped delivery again."""
    return Form(
        title=f"Retry delivery {visit.path['delivery_id']}?",
        text="It becomes pending again, with all its attempts anew. A suppressed address is skipped, not written to.",
        button="Retry it",
        back=_about(visit),
    )
