"""Webhooks: the endpoints of applications that are told of events; made, changed, rotated and deleted."""

from typing import Any

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.features.webhooks.endpoints import (
    change_webhook,
    create_webhook,
    delete_webhook,
    get_webhook,
    get_webhook_log,
    list_webhooks,
    rotate_webhook,
)
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right

ROWS = 50
_EVENTS = "One in each line: delivery.*, run.failed …"


@page("/webhooks", Right.WEBHOOKS)
async def webhooks(visit: Visit) -> Answer:
    """List endpoints by name."""
    return visit.show("system/webhooks.html", found=await visit.ask(list_webhooks, query={**visit.query}))


@page("/webhooks/{name}", Right.WEBHOOKS)
async def webhook(visit: Visit) -> Answer:
    """Show an endpoint and what was done to it."""
    log = await visit.ask(get_webhook_log, query={"limit": ROWS, "cursor": visit.query.get("cursor")})
    return visit.show("system/webhook.html", one=await visit.ask(get_webhook), log=log)


async def _once(visit: Visit, endpoint: Endpoint, body: dict[str, Any]) -> Answer:
    made = await visit.ask(endpoint, body=body)
    return visit.show("system/secret.html", name=made.name, secret=made.secret, back="/webhooks")


@form("/webhooks/new", create_webhook)
async def create(_visit: Visit) -> Form:
    """Make an endpoint."""

    async def act(visit: Visit, body: dict[str, Any]) -> Answer:
        return await _once(visit, create_webhook, body)

    return Form(
        title="Tell an application of events?",
        text="Its messages are signed. The secret is shown once.",
        fields=[
            Field("name", "Name", required=True),
            Field("url", "URL", placeholder="https://", required=True),
            Field("events", "Events", "lines", hint=_EVENTS, required=True),
        ],
        button="Make it",
        act=act,
        back="/webhooks",
    )


@form("/webhooks/{name}/change", change_webhook)
async def change(visit: Visit) -> Form:
    """Change an endpoint."""
    one = await visit.ask(get_webhook)
    return Form(
        title=f"Change {one.name}?",
        text="A disabled endpoint gets no events; deliveries that wait for it are skipped.",
        fields=[
            Field("url", "URL", value=one.url, required=True),
            Field("events", "Events", "lines", value=one.events, hint=_EVENTS, required=True),
            Field("enabled", "It gets events", "check", value=one.enabled),
        ],
        button="Change it",
        back=f"/webhooks/{one.name}",
    )


@form("/webhooks/{name}/rotate", rotate_webhook)
async def rotate(visit: Visit) -> Form:
    """Give an endpoint another secret."""

    async def act(visit: Visit, body: dict[str, Any]) -> Answer:
        return await _once(visit, rotate_webhook, body)

    return Form(
        title=f"Give {visit.path['name']} another secret?",
        text="The new one is shown once. For a day both sign.",
        button="Rotate it",
        act=act,
        back="/webhooks",
    )


@form("/webhooks/{name}/delete", delete_webhook)
async def delete(visit: Visit) -> Form:
    """Delete an endpoint."""
    return Form(
        title=f"Delete {visit.path['name']}?",
        text="It gets no more events; deliveries that wait for it are skipped.",
        button="Delete it",
        risk=True,
        back="/webhooks",
        done=f"{visit.path['name']} is deleted.",
    )
