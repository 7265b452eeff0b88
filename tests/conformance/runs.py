"""Runs as tests drive them: definitions put as they are written, triggers by SQL, and what became of each."""

import json
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from itertools import count, pairwise
from typing import Any

import asyncpg

from dispatcher.plans import plan as plans
from dispatcher.plans.definition.definition import Known, compile_definition
from tests.conformance.outbox import QUICK, Outbox
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

_numbers = count(1)

# What waits for a time is looked at soon, and a retry comes at once.
BRISK = QUICK | {"DISPATCHER_RETRY__BASE_SECONDS": "0.05", "DISPATCHER_WALK__POLL_SECONDS": "0.1"}
CHANNELS = ("chat", "email", "http", "push", "sms", "social", "voice", "whatsapp")
PUT = "SELECT * FROM dispatcher.put_workflow('default', 'default', $1, $2, $3, 'ann', true)"


class Runs:
    """Workflows and runs of one database, where there are these functions."""

    def __init__(self, connection: Connection, functions: Collection[str] = ()) -> None:
        self.connection = connection
        self.outbox = Outbox(connection)
        self._known = Known(CHANNELS, functions)

    async def start(self, definition: Mapping[str, Any], **given: Any) -> int:
        """A run of a definition; it is put under a name of its own."""
        named = {"name": f"flow-{next(_numbers)}", **definition}
        await self.put(named)
        return await self.trigger(named["name"], **given)

    async def put(self, definition: Mapping[str, Any]) -> None:
        """Put a definition under its own name, and let it take triggers."""
        plan = compile_definition(definition, self._known)
        assert isinstance(plan, plans.Plan), plan
        await self.connection.fetch(PUT, plan.name, json.dumps(definition), plans.encode(plan).decode())

    async def trigger(self, name: str, **given: Any) -> int:
        """A run of a workflow that is there."""
        start = "SELECT execution_id FROM dispatcher.trigger_workflow($1, $2)"
        return int(await self.connection.fetchval(start, name, json.dumps(given)))

    async def row(self, run: int) -> Any:
        """The run as it stands."""
        return await self.connection.fetchrow("SELECT * FROM dispatcher.runs WHERE id = $1", run)

    async def vars(self, run: int) -> dict[str, Any]:
        """What its nodes have added."""
        found = await self.connection.fetchval("SELECT state -> 'vars' FROM dispatcher.runs WHERE id = $1", run)
        return dict(json.loads(found or "{}"))

    async def deliveries(self, run: int) -> list[Any]:
        """What it has ordered, with the life of each."""
        return await self.connection.fetch(
            """SELECT d.id, d.node, d.recipient, l.life, l.attempt, l.error
                 FROM dispatcher.deliveries d JOIN dispatcher.delivery_life l USING (id)
                WHERE d.run_id = $1 ORDER BY d.id""",
            run,
        )

    async def delivery(self, run: int, node: str, *lives: str) -> int:
        """The one delivery of a node, once it stands there."""

        async def there() -> int | None:
            found = [one for one in await self.deliveries(run) if one["node"] == node]
            return found[0]["id"] if found and found[0]["life"] in lives else None

        return int(await until(there, f"the delivery of {node} is {' or '.join(lives)}"))

    async def events(self, run: int) -> list[tuple[str, str | None]]:
        """Its log, in short."""
        rows = await self.connection.fetch(
            "SELECT event, node FROM dispatcher.run_entries WHERE run_id = $1 ORDER BY number", run
        )
        return [(row["event"], row["node"]) for row in rows]

    async def until_status(self, run: int, *statuses: str) -> Any:
        """Wait until it is one of these; its row."""

        async def there() -> Any:
            row = await self.row(run)
            return row if row["status"] in statuses else None

        try:
            return await until(there, f"run {run} is {' or '.join(statuses)}")
        except AssertionError as late:
            row, log = await self.row(run), await self.events(run)
            raise AssertionError(f"{late}: it is {row['status']} ({row['error']}), {log}") from late


@asynccontextmanager
async def running(
    url: str, environment: Mapping[str, str], functions: Collection[str] = ()
) -> AsyncIterator["Running"]:
    """A program at work on a database, for as many tests as share it."""
    program = Program(url)
    connection = await asyncpg.connect(url)
    try:
        await program.start(**BRISK, **environment)
        yield Running(program, Runs(connection, functions))
    finally:
        await connection.close()
        program.end()


class Running:
    """The program, and its runs."""

    def __init__(self, program: Program, runs: Runs) -> None:
        self.program = program
        self.runs = runs


def steps(*nodes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A graph in a line; each node has its number for an id unless it has one."""
    named = [{"id": f"n{number}", **node} for number, node in enumerate(nodes, 1)]
    edges = [{"from": one["id"], "to": two["id"]} for one, two in pairwise(named)]
    return {"entryNodeId": named[0]["id"], "nodes": named, "edges": edges, **more}


def sms(**fields: Any) -> dict[str, Any]:
    """A text message."""
    return {"type": "sms", "to": "+4917012345", "body": "hello", **fields}


def call(function: str = "bill", payload: Any = None, **fields: Any) -> dict[str, Any]:
    """A function call."""
    return {"type": "http", "function": function, "action": "create", "payload": payload or {"order": 7}, **fields}
