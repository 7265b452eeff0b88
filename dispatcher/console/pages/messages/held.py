"""Held deliveries: grouped by error, listed, and settled one by one, by the selection, or all that match."""

from collections.abc import Mapping
from typing import Any

from dispatcher.console import bulk
from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.features.held.endpoints import (
    list_held,
    list_held_groups,
    resolve_all_held,
    resolve_held,
)
from dispatcher.http.roles import Right

ROWS = 50
# Each settlement: its title, its button, and what has to be confirmed.
WAYS: Mapping[str, tuple[str, str, str]] = {
    "sent": ("Settle as sent", "They arrived", ""),
    "requeue": ("Send again", "Send again", "Who has got it already gets it twice. I have looked at the provider."),
    "failed": ("Settle as failed", "Settle as failed", ""),
}
_CHOICES = (
    ("sent", "It arrived", "The provider has it. Nothing is sent."),
    ("failed", "It did not arrive", "It is a dead letter, and nothing is sent."),
    ("requeue", "Send it again", "Who has got it already gets it twice."),
)


@page("/held", Right.HELD)
async def held(visit: Visit) -> Answer:
    """List held deliveries, grouped by their error."""
    meant = _filter(visit)
    groups = await visit.ask(list_held_groups, query=meant)
    found = await visit.ask(list_held, query={"limit": ROWS, "cursor": visit.query.get("cursor"), **meant})
    channels = sorted(visit.config().channels)
    return visit.show("messages/held.html", groups=groups, found=found, channels=channels, ways=WAYS)


def _filter(visit: Visit) -> dict[str, str]:
    return {name: visit.query[name] for name in ("channel", "error") if visit.query.get(name)}


@form("/held/{delivery_id}/resolve", resolve_held)
async def settle(visit: Visit) -> Form:
    """Settle one."""
    number = visit.path["delivery_id"]
    return Form(
        title=f"How did delivery {number} end?",
        text="A call was begun, and its answer is missing. Look at the provider first.",
        fields=[
            Field("settle_as", "", "options", choices=_CHOICES, required=True),
            Field("provider_message_id", "Message id at the provider", hint="With “it arrived”, if you know it."),
        ],
        button="Settle it",
        back=f"/deliveries/{number}",
    )


@form("/held/resolve", resolve_all_held)
async def settle_all(visit: Visit) -> Form:
    """Settle those that are selected, or all that match."""
    way = visit.query.get("settle_as", "")
    title, button, confirm = WAYS.get(way, WAYS["failed"])
    meant = _filter(visit)
    ids = bulk.selected(visit)

    async def act(visit: Visit, body: dict[str, Any]) -> bulk.Total:
        body |= {"settle_as": way if way in WAYS else "failed"}
        if ids:
            return await bulk.each(visit, resolve_held, ids, body)
        return await bulk.sweep(visit, resolve_all_held, body | meant)

    return Form(
        title=f"{title}: {bulk.meant(ids, meant, 'held deliveries')}?",
        text="" if ids else "Those that are held after you press the button are left alone.",
        button=button,
        confirm=confirm,
        risk=way == "requeue",
        act=act,
        back="/held",
    )
