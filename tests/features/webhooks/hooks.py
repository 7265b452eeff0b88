"""Endpoints and what they are told, as the tests of the store have them."""

import json
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.webhooks import store as webhooks
from dispatcher.features.webhooks.store import Endpoint, Refused
from tests.support.scene import Scene

HERE = Workspace("default", "default")
BY = ("ann", "a test")


async def make(database: Database, *events: str, name: str = "crm", whose: Workspace = HERE) -> str:
    """An endpoint; answers its secret."""
    new = Endpoint(name, f"https://{name}.example.org/hooks", events or ("delivery.*", "run.*"), enabled=True)
    made = await webhooks.create(database, whose, new, *BY)
    assert not isinstance(made, Refused), made
    return made


async def enable(database: Database, enabled: bool, *events: str, name: str = "crm") -> str:
    """Let it be told what happens, or nothing."""
    shown = await webhooks.show(database, HERE, name)
    assert shown is not None
    return await webhooks.change(
        database, HERE, Endpoint(name, shown["url"], events or tuple(shown["events"]), enabled), *BY
    )


async def happened(database: Database) -> list[tuple[str, int]]:
    """What is to be told yet."""
    rows = await database.fetch("SELECT type, subject FROM dispatcher.webhook_events ORDER BY id")
    return [(row["type"], row["subject"]) for row in rows]


async def told(database: Database) -> list[dict[str, Any]]:
    """What deliveries on the channel say, with the endpoint that each is for."""
    rows = await database.fetch(
        """SELECT recipient, variables ->> 'event' AS said FROM dispatcher.deliveries
            WHERE channel = 'webhook' ORDER BY id"""
    )
    return [json.loads(row["said"]) | {"to": row["recipient"]} for row in rows]


async def hear_about(scene: Scene, delivery: int, kind: str) -> None:
    """What a provider says about a delivery."""
    record = "SELECT dispatcher.record_receipt($1, $2, 1::smallint, 'resend', 'abc', now(), 'so it is')"
    await scene.value(record, delivery, kind)
