"""Deliveries: the list with its search, and what can be done to one."""

from collections.abc import Mapping
from typing import Any, get_args

from dispatcher.console import bulk
from dispatcher.console.forms import read_times
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
from dispatcher.features.deliveries.sweep_endpoint import sweep_deliveries
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
# The filters of the list, beside the search box.
FILTERS = ("life", "channel", "template_name", "campaign", "run_id", "since", "until", "recipient", "error")
_TIMES = ("since", "until")
# What is done to many: its title, its button, what has to be known, and the endpoint for one.
WAYS: Mapping[str, tuple[str, str, str, Endpoint]] = {
    "retry": (
        "Retry",
        "Retry them",
        "What has failed or was skipped is sent again, others stay as they are.",
        retry_delivery,
    ),
    "move": ("Move", "Move them", "What was not handed to its provider is sent at another time.", move_delivery),
    "cancel": ("Cancel", "Cancel them", "What was not handed to its provider is not sent.", cancel_delivery),
}
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
        ways=WAYS,
        meant=_meant(visit, asked),
        status=200 if problem is None else problem.kind.status,
    )


def _meant(visit: Visit, asked: Mapping[str, str]) -> dict[str, str] | None:
    """Return the filter of all that match, in the endpoint's words; None where a key or an id was searched."""
    words = visit.query.get("q", "").strip()
    if not words:
        return dict(asked)
    return {**asked, "recipient": words} if _is_address(words) else {**asked, "error": words}


def _is_address(words: str) -> bool:
    return "@" in words or words.startswith("+") or words.isdecimal()


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
    query: dict[str, object] = {
        **asked,
        **read_times(asked, *_TIMES),
        "limit": ROWS,
        "cursor": visit.query.get("cursor"),
    }
    if asked:
        query["brief"] = "true"
    if not words:
        return await visit.ask(list_deliveries, query=query)
    if _is_address(words):
        return await visit.ask(list_deliveries, query={**query, "recipient": words})
    by_key = await visit.ask(list_deliveries, query={"idempotency_key": words, "limit": ROWS})
    if by_key.deliveries:
        return by_key
    return await visit.ask(list_deliveries, query={**query, "error": words})


def _about(visit: Visit) -> str:
    return f"/deliveries/{visit.path['delivery_id']}"


@form("/deliveries/sweep", sweep_deliveries)
async def sweep(visit: Visit) -> Form:
    """Cancel, move or retry those that are selected, or all that match."""
    action = visit.query.get("action", "")
    title, button, text, asks = WAYS.get(action, WAYS["cancel"])
    action = action if action in WAYS else "cancel"
    meant = {name: visit.query[name] for name in FILTERS if visit.query.get(name)}
    ids = bulk.selected(visit)

    async def act(visit: Visit, body: dict[str, Any]) -> bulk.Total:
        if ids:
            return await bulk.each(visit, asks, ids, body)
        return await bulk.sweep(visit, sweep_deliveries, body | meant | read_times(meant, *_TIMES) | {"action": action})

    fields = [Field("run_at", "New time", "time", value=visit.now, required=True)] if action == "move" else []
    return Form(
        title=f"{title} {bulk.meant(ids, meant, 'deliveries')}?",
        text=text if ids else f"{text} Those that are written after you press the button are left alone.",
        fields=fields,
        button=button,
        confirm="" if ids or meant else "I mean all deliveries of this workspace.",
        risk=action == "cancel",
        act=act,
        back="/deliveries",
    )


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
