"""Webhook endpoints, events and their deliveries for tests."""

import json
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.webhooks import store as webhooks
from dispatcher.features.webhooks.store import Endpoint, Refused
from tests.support.scene import Scene

HERE = Workspace("default", "default")
BY = ("ann", "a test")


async def make(database: Database, *events: str, name: str = "crm", workspace: Workspace = HERE) -> str:
    """Create an endpoint; return its secret."""
    new = Endpoint(name, f"https://{name}.example.org/hooks", events or ("delivery.*", "run.*"), enabled=True)
    made = await webhooks.create(database, workspace, new, *BY)
    assert not isinstance(made, Refused), made
    return made


async def show(database: Database, workspace: Workspace = HERE, name: str = "crm") -> dict[str, Any]:
    """Return an endpoint; IndexError where the name is unknown."""
    return (await webhooks.listed(database, workspace, "", 1, name))[0]


async def enable(database: Database, enabled: bool, *events: str, name: str = "crm") -> str:
    """Enable or disable an endpoint."""
    shown = await show(database, name=name)
    return await webhooks.change(
        database, HERE, Endpoint(name, shown["url"], events or tuple(shown["events"]), enabled), *BY
    )


async def events(database: Database) -> list[tuple[str, int]]:
    """Return the events that wait for their deliveries."""
    rows = await database.fetch("SELECT type, subject FROM dispatcher.webhook_events ORDER BY id")
    return [(row["type"], row["subject"]) for row in rows]


async def messages(database: Database) -> list[dict[str, Any]]:
    """Return the messages of the deliveries, each with its endpoint."""
    rows = await database.fetch(
        """SELECT recipient, variables ->> 'event' AS said FROM dispatcher.deliveries
            WHERE channel = 'webhook' ORDER BY id"""
    )
    return [json.loads(row["said"]) | {"to": row["recipient"]} for row in rows]


async def record_receipt(scene: Scene, delivery: int, kind: str) -> None:
    """Record a receipt for a delivery."""
    record = "SELECT dispatcher.record_receipt($1, $2, 1::smallint, 'resend', 'abc', now(), 'so it is')"
    await scene.value(record, delivery, kind)
