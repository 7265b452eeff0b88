"""Workflows as an application sees them: definitions that it saves, runs that it triggers, and what became of both."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import asyncpg
import msgspec

from dispatcher.config.settings import CHANNELS
from dispatcher.plans import plan as plans
from dispatcher.plans.definition.definition import Known, compile_definition
from dispatcher.plans.plan import Plan
from tests.conformance.outbox import Outbox
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until, until_heeded

Node = dict[str, Any]
Definition = dict[str, Any]

# A channel of somebody's own: whoever it does not know has a bad address.
PAGER = "pager"
# Whatever is tried again, is so at once.
BRISK = {"DISPATCHER_RETRY__BASE_SECONDS": "0.05"}
# Nobody looks at runs without being woken, or without their time having come.
UNPOLLED = {"DISPATCHER_WALK__POLL_SECONDS": "600"}
ENDED = ("completed", "failed", "cancelled")


def node(name: str, kind: str, **fields: Any) -> Node:
    """A node; one that sends goes to somebody and says something, unless it is told otherwise."""
    made: Node = {"id": name, "type": kind}
    if kind in CHANNELS and kind != "http":
        made |= {"to": "ann@example.org" if kind == "email" else "+4917012345"}
        said = {"subject": "About it", "text": f"{name} speaks"} if kind == "email" else {"body": f"{name} speaks"}
        made |= {} if {"template", "parts", "body", "text"} & fields.keys() else said
    return made | fields


def graph(name: str, nodes: Sequence[Node], edges: Sequence[Sequence[str]], **fields: Any) -> Definition:
    """A definition in the form of a graph; it begins with its first node. An edge is from, to and its condition."""
    written = [dict(zip(("from", "to", "condition"), edge, strict=False)) for edge in edges]
    return {"name": name, "entryNodeId": nodes[0]["id"], "nodes": list(nodes), "edges": written} | fields


def line(name: str, *nodes: Node, **fields: Any) -> Definition:
    """A graph whose nodes come one after another."""
    ids = [one["id"] for one in nodes]
    return graph(name, nodes, list(pairwise(ids)), **fields)


async def put(
    connection: Connection, definition: Definition, *, functions: Sequence[str] = (), author: str = "ann"
) -> Any:
    """Save a definition, which takes triggers from then on."""
    made = compile_definition(definition, Known((*CHANNELS, PAGER), functions))
    assert isinstance(made, Plan), made
    return await connection.fetchrow(
        "SELECT * FROM dispatcher.put_workflow('default', 'default', $1, $2, $3, $4, true)",
        made.name,
        json.dumps(definition),
        plans.encode(made).decode(),
        author,
    )


class Flows:
    """One database with a program on it."""

    def __init__(self, connection: Connection, program: Program) -> None:
        self.connection = connection
        self.program = program
        self.outbox = Outbox(connection)

    async def put(self, definition: Definition, *, functions: Sequence[str] = (), author: str = "ann") -> Any:
        """Save a definition, which takes triggers from then on."""
        return await put(self.connection, definition, functions=functions, author=author)

    async def trigger(self, name: str, given: Mapping[str, Any] | None = None, **arguments: Any) -> int:
        """A run of it."""
        return int((await self.answer(name, given, **arguments))["execution_id"])

    async def answer(self, name: str, given: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        """What a trigger answers."""
        names = "".join(f", {one} => ${number}" for number, one in enumerate(arguments, 3))
        return await self.connection.fetchrow(
            f"SELECT * FROM dispatcher.trigger_workflow($1, $2{names})",
            name,
            json.dumps(given or {}),
            *arguments.values(),
        )

    async def ended(self, definition: Definition, given: Mapping[str, Any] | None = None) -> int:
        """A run of this that was completed."""
        await self.put(definition)
        run = await self.trigger(definition["name"], given)
        await self.until_status(run, "completed")
        return run

    async def row(self, run: int) -> Any:
        """The run as its row has it."""
        return await self.connection.fetchrow("SELECT * FROM dispatcher.runs WHERE id = $1", run)

    async def view(self, run: int) -> Any:
        """The run in the words of the older interface."""
        return await self.connection.fetchrow("SELECT * FROM dispatcher.workflow_executions WHERE id = $1", run)

    async def status(self, run: int) -> str:
        """What it is."""
        return str((await self.row(run))["status"])

    async def until_status(self, run: int, *statuses: str) -> None:
        """Wait until it is one of these; a run that has ended as something else never will be."""

        async def there() -> bool:
            row = await self.row(run)
            if row["status"] in ENDED and row["status"] not in statuses:
                raise AssertionError(f"run {run} is {row['status']}: {row['error']}")
            return row["status"] in statuses

        await until(there, f"run {run} is {' or '.join(statuses)}")

    async def at(self, run: int) -> list[str]:
        """The nodes that it is at."""
        nodes = (
            "SELECT ARRAY(SELECT jsonb_object_keys(state -> 'cursor') ORDER BY 1) FROM dispatcher.runs WHERE id = $1"
        )
        found: list[str] = await self.connection.fetchval(nodes, run)
        return found

    async def until_at(self, run: int, *nodes: str) -> None:
        """Wait until it is at just these nodes."""

        async def there() -> bool:
            return await self.at(run) == sorted(nodes)

        await until(there, f"run {run} is at {', '.join(nodes)}")

    async def context(self, run: int) -> dict[str, Any]:
        """What it knows."""
        found: dict[str, Any] = msgspec.json.decode((await self.view(run))["context"])
        return found

    async def log(self, run: int) -> list[dict[str, Any]]:
        """Its log."""
        rows = await self.connection.fetch(
            "SELECT * FROM dispatcher.run_entries WHERE run_id = $1 ORDER BY number", run
        )
        found = [dict(row) for row in rows]
        for entry in found:
            entry |= {name: json.loads(entry[name]) for name in ("context", "added") if entry[name] is not None}
        return found

    async def happened(self, run: int) -> list[tuple[str, str]]:
        """What happened to which node, in order."""
        return [(entry["event"], entry["node"]) for entry in await self.log(run)]

    async def deliveries(self, run: int) -> list[Any]:
        """What it has ordered, in order, and how that stands."""
        return await self.connection.fetch(
            """SELECT d.*, l.life, l.status, l.error, l.finished_at FROM dispatcher.deliveries d
                 JOIN dispatcher.delivery_life l USING (id) WHERE d.run_id = $1 ORDER BY d.id""",
            run,
        )

    async def said(self, run: int) -> list[str]:
        """What the capture provider was given of it, in order."""
        rows = await self.connection.fetch(
            """SELECT coalesce(m.parts ->> 'body', m.parts ->> 'text') AS body FROM dispatcher.captured_messages m
                 JOIN dispatcher.deliveries d ON d.id = m.delivery_id WHERE d.run_id = $1 ORDER BY m.id""",
            run,
        )
        return [row["body"] for row in rows]

    async def signal(self, run: int, event: str, data: Mapping[str, Any] | None = None) -> str:
        """Send it an event."""
        asked = "SELECT dispatcher.signal_run($1, $2, $3)"
        return str(await self.connection.fetchval(asked, run, event, json.dumps(data or {})))

    async def a_round(self) -> None:
        """Wait until the walker has taken up and finished something that came after all that is there now."""
        await self.put(line("a-round", node("nothing", "join")))
        await self.until_status(await self.trigger("a-round"), "completed")

    async def stop(self, channel: str) -> None:
        """Let nothing out on a channel."""
        await self.connection.execute(
            "SELECT dispatcher.pause_everywhere('channel', $1, 'ann', 'to look at it')", channel
        )
        await until_heeded(self.connection)

    async def go_on(self, channel: str) -> None:
        """Let it out again."""
        await self.connection.execute("SELECT dispatcher.resume_everywhere('channel', $1, 'ann')", channel)


@asynccontextmanager
async def flowing(url: str, **environment: str) -> AsyncIterator[Flows]:
    """A program on a database, and what an application sees of it."""
    program = Program(url)
    connection = await asyncpg.connect(url)
    try:
        await program.start(**BRISK | environment)
        yield Flows(connection, program)
    finally:
        await connection.close()
        program.end()
