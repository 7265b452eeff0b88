"""Deliveries: the list with its search, and what can be done to one."""

from typing import Any, get_args

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.rendering import plain
from dispatcher.features.deliveries.endpoints import (
    cancel_delivery,
    get_delivery,
    list_deliveries,
    move_delivery,
    repair_delivery,
    retry_delivery,
)
from dispatcher.features.deliveries.models import LOOKED_MAX, DeliveryLife, WholeDelivery
from dispatcher.http.problems import FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
# The filters of the list, beside the search box.
FILTERS = ("life", "channel", "template_name", "campaign", "run_id", "since", "until", "recipient", "error")
# As long as an id can be; a longer number is an address.
_ID_DIGITS_MAX = 16


@page("/deliveries", Right.DELIVERIES)
async def deliveries(visit: Visit) -> Answer:
    """List deliveries, the newest first."""
    asked = {name: visit.query[name] for name in FILTERS if visit.query.get(name)}
    problem: Problem | None = None
    found: Any = None
    try:
        words = visit.query.get("q", "").strip()
        if words and (number := await _by_id(visit, words)):
            return visit.go(f"/deliveries/{number}")
        found = await _found(visit, words, asked)
    except Problem as refused:
        if refused.kind is not FAULTY:
            raise
        problem = refused
    return visit.show(
        "messages/deliveries.html",
        found=found,
        problem=problem,
        looked_max=LOOKED_MAX,
        channels=sorted(visit.config().channels),
        lives=get_args(DeliveryLife),
        status=200 if problem is None else problem.kind.status,
    )


async def _by_id(visit: Visit, words: str) -> int | None:
    """Return the delivery that a number in the search box is the id of."""
    if not (words.isascii() and words.isdecimal() and len(words) <= _ID_DIGITS_MAX):
        return None
    try:
        found: WholeDelivery = await visit.ask(get_delivery, words)
    except Problem as problem:
        if problem.kind is not NOT_FOUND:
            raise
        return None
    return found.id


async def _found(visit: Visit, words: str, asked: dict[str, str]) -> Any:  # noqa: ANN401 - a page of deliveries
    """Return a page: the words are an address, else a key, else words of the error."""
    times: dict[str, object] = {name: _zoned(asked[name]) for name in ("since", "until") if name in asked}
    query: dict[str, object] = {**asked, **times, "limit": ROWS, "cursor": visit.query.get("cursor")}
    if asked:
        query["brief"] = "true"
    if not words:
        return await visit.ask(list_deliveries, query=query)
    if "@" in words or words.startswith("+") or words.isdecimal():
        return await visit.ask(list_deliveries, query={**query, "recipient": words})
    by_key = await visit.ask(list_deliveries, query={"idempotency_key": words, "limit": ROWS})
    if by_key.deliveries:
        return by_key
    return await visit.ask(list_deliveries, query={**query, "error": words})


def _zoned(text: str) -> str:
    """Return a time that a browser has sent, which has no zone, in UTC."""
    return text if text.endswith("Z") or "+" in text else f"{text}Z" if text.count(":") > 1 else f"{text}:00Z"


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
        text="One delivery, until it is handed to its provider.",
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


@form("/deliveries/{delivery_id}/repair", repair_delivery)
async def repair(visit: Visit) -> Form:
    """Write a failed or skipped delivery anew, with other variables."""
    found: WholeDelivery = await visit.ask(get_delivery)
    return Form(
        title=f"Write delivery {found.id} anew, with other variables?",
        text="The old one stays as it is. The new one has a key of its own, and each names the other.",
        button="Write it",
        fields=[
            Field(
                "variables",
                "Variables",
                "json",
                value=plain(found.variables) or {},
                required=True,
                hint="They are added to those that it had.",
            )
        ],
        back=lambda written: f"/deliveries/{written.id}",
        cancel=_about(visit),
        done="It is written anew.",
    )
