"""Workflows as the tests of the store have them: plans put by hand, runs at a node, and refusals taken apart."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import asyncpg

from dispatcher.plans import plan as plans
from dispatcher.plans.plan import Delay, Edge, Plan, RequiredVariable, Send, TemplateUse
from tests.support.scene import Connection

PUT = "SELECT * FROM dispatcher.put_workflow($1, $2, $3, $4, $5, $6, $7)"
TRIGGER = "SELECT * FROM dispatcher.trigger_workflow($1, $2, $3)"


def plan(
    *,
    required: Sequence[str] = (),
    reads: Sequence[tuple[str, ...]] = (),
    templates: Sequence[TemplateUse] = (),
    name: str = "welcome",
) -> Plan:
    """A mail, a delay, an end; nothing of it has to render."""
    mail = Send(step=0, channel="sms", to=("+4917012345",), parts={"body": "hello"})
    return Plan(
        name=name,
        entry="mail",
        nodes={"mail": mail, "wait": Delay(step=1, seconds=3600.0)},
        edges={"mail": (Edge("wait"),)},
        required_fields=tuple(required),
        reads=tuple(RequiredVariable(".".join(at), at) for at in reads),
        templates=tuple(templates),
    )


async def put(connection: Connection, one: Plan | None = None, *, active: bool = True, author: str = "ann") -> Any:
    """Save a workflow whose definition is its plan."""
    made = one or plan()
    text = plans.encode(made).decode()
    return await connection.fetchrow(PUT, "default", "default", made.name, text, text, author, active)


async def trigger(
    connection: Connection, given: Mapping[str, Any] | None = None, key: str | None = None, name: str = "welcome"
) -> Any:
    """A run of it."""
    return await connection.fetchrow(TRIGGER, name, json.dumps(given or {}), key)


async def at_node(
    connection: Connection, run_id: int, node: str = "mail", standing: str = "sending", until: float | None = None
) -> None:
    """Bring a run to a node, as a walk does that has nothing else to do."""
    visit: dict[str, Any] = {"standing": standing, "since": 1.0}
    if until is not None:
        visit["until"] = until
    await connection.execute(
        """UPDATE dispatcher.runs SET status = $2, started_at = now(), available_at = to_timestamp($4),
                  state = state || jsonb_build_object('cursor', $3::jsonb) WHERE id = $1""",
        run_id,
        "running" if standing == "sending" else "waiting",
        json.dumps({node: visit}),
        until,
    )


async def ordered(connection: Connection, run_id: int, count: int = 1, node: str = "mail", **fields: Any) -> list[int]:
    """Deliveries that a node of it has ordered."""
    columns = "".join(f", {name}" for name in fields)
    values = "".join(f", ${number}" for number in range(4, 4 + len(fields)))
    rows = await connection.fetch(
        f"""INSERT INTO dispatcher.deliveries (run_id, node, idempotency_key, channel, recipient, template{columns})
            SELECT $1, $2, concat_ws('-', $1::bigint, $2::text, n), 'sms', '+4917012345', '{{"body": "hello"}}'{values}
              FROM generate_series(1, $3::int) AS n RETURNING id""",
        run_id,
        node,
        count,
        *fields.values(),
    )
    return [row["id"] for row in rows]


async def fail(connection: Connection, run_id: int, node: str = "mail") -> None:
    """End a run as failed at a node."""
    await connection.execute(
        """UPDATE dispatcher.runs SET status = 'failed', dead = true, finished_at = now(), available_at = NULL,
                  error = 'it said no', error_node = $2 WHERE id = $1""",
        run_id,
        node,
    )


def faults(refusal: asyncpg.PostgresError) -> dict[str, str]:
    """The faults of a refusal by path."""
    return {fault["path"]: fault["words"] for fault in json.loads(refusal.as_dict()["detail"])}


async def wakes(connection: Connection) -> list[int]:
    """Which runs were woken."""
    rows = await connection.fetch("SELECT run_id FROM dispatcher.wakes ORDER BY run_id")
    return [row["run_id"] for row in rows]


async def status(connection: Connection, run_id: int) -> str:
    """The row of a run."""
    return str(await connection.fetchval("SELECT status FROM dispatcher.runs WHERE id = $1", run_id))


async def stand(connection: Connection, ids: Sequence[int]) -> list[str]:
    """Where deliveries stand."""
    rows = await connection.fetch("SELECT life FROM dispatcher.delivery_life WHERE id = ANY ($1) ORDER BY id", ids)
    return [row["life"] for row in rows]
