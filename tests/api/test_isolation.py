"""Isolation: the real statements without their conditions on tenant and workspace, and what a foreign key gets then.

Nothing, since Postgres keeps workspaces apart by itself. Without its row security the same requests get a lot.
"""

import json
import re
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar import Litestar
from msgspec import Struct

from dispatcher.api.endpoints import Call, Endpoint
from dispatcher.api.interface import ENDPOINTS, Interface
from dispatcher.config import Channel, Config
from dispatcher.config import Database as Settings
from dispatcher.domain.roles import Role
from dispatcher.store import keys, tenants
from dispatcher.store.database import Database
from dispatcher.store.keys import New
from dispatcher.store.templates import Workspace
from tests.store import flows
from tests.store.scene import Connection

HOME = Workspace()
FOREIGN = (Workspace("acme", "default"), Workspace("default", "other"))
# What only the workspace at home knows.
SECRETS = (b"+4917012345", b"of-home")
ONCE = "once"
# Of these the requests below get something without row security: the test says nothing about others.
LEAKING = {
    "createDelivery",
    "createDeliveries",
    "listDeliveries",
    "getDelivery",
    "cancelDelivery",
    "moveDelivery",
    "cancelDeliveryByKey",
    "moveDeliveryByKey",
    "listHeld",
    "resolveHeld",
    "listDeadRuns",
    "listDeadDeliveries",
    "replayDeadRun",
    "discardDeadRun",
    "replayDeadDelivery",
    "discardDeadDelivery",
    "listWorkflows",
    "getWorkflow",
    "listRuns",
    "getRun",
    "getRunLog",
    "pauseRun",
    "resumeRun",
    "cancelRun",
    "replayRun",
    "signalRun",
    "listWebhooks",
    "createWebhook",
    "getWebhook",
}
# `tenant_id = $1`, and what has the same effect.
CONDITION = re.compile(r"\b(?:\w+\.)?(?:tenant_id|workspace_id) = (\$\d+)")
JOINED = re.compile(r"USING \(tenant_id, workspace_id, ")


class Answer(Struct):
    """What came back."""

    status: int = 0
    body: bytes = b""


class Home(Struct):
    """What there is at home, by the operations that are about it."""

    deliveries: dict[str, int]
    runs: dict[str, int]

    def names(self, operation: str) -> dict[str, str]:
        """What the path of an operation names."""
        return {
            "delivery_id": str(self.deliveries.get(operation, self.deliveries[""])),
            "run_id": str(self.runs.get(operation, self.runs[""])),
            "name": "crm" if operation.endswith(("Webhook", "Webhooks")) else "welcome",
        }


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """The pool that the API uses."""
    database = Database(Settings(pool_max=4), url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API as somebody might have written it who never thought of tenants."""
    store = [module for name, module in sys.modules.items() if name.startswith("dispatcher.store.")]
    for sql in [vars(module)["_SQL"] for module in store if hasattr(module, "_SQL")]:
        for name, text in sql.items():
            without = JOINED.sub("USING (", CONDITION.sub(r"\1::text IS NOT NULL", text))
            monkeypatch.setitem(sql, name, without)
    monkeypatch.setattr(Call, "owns", lambda _, row: row is not None)


async def _delivery(connection: Connection, key: str, state: str = "ready") -> int:
    number: int = await connection.fetchval(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
           VALUES ($1, 'sms', '+4917012345', '{"body": "x"}', '2040-01-01') RETURNING id""",
        key,
    )
    await connection.execute(f"UPDATE dispatcher.delivery_state SET {state} WHERE id = $1", number)
    return number


async def _run(connection: Connection, key: str, done: str = "") -> int:
    run: int = (await flows.trigger(connection, key=key))["execution_id"]
    if done:
        await connection.execute(f"SELECT dispatcher.{done}", run)
    return run


@pytest.fixture
async def home(connection: Connection) -> Home:
    """Of everything that the API shows or changes one."""
    await flows.put(connection, author="of-home")
    waits = await _delivery(connection, "of-home", "ready = ready")
    lost = await _delivery(
        connection, "of-home-held", "ready = false, marked = true, held = true, token = 1, held_at = now(), error = 'x'"
    )
    failed = await _delivery(
        connection, "of-home-dead", "ready = false, status = 'failed', finished_at = now(), error = 'of-home'"
    )
    goes = await _run(connection, "of-home")
    rests = await _run(connection, "of-home-paused", "pause_run_v1($1)")
    buried = await _run(connection, "of-home-dead", "bury_run_v1($1, 'of-home', 'of-home')")
    await connection.execute(
        """SELECT dispatcher.create_webhook_v1('default', 'default', 'crm', 'https://of-home.example', '{run.failed}',
                                               true, 'whsec_' || repeat('a', 32), 9, 'of-home', 'of-home')"""
    )
    await connection.execute(
        "INSERT INTO dispatcher.api_answers (tenant_id, workspace_id, key, asked, status, answer)"
        " VALUES ('default', 'default', $1, '', 200, 'of-home')",
        ONCE,
    )
    return Home(
        {"": waits, "resolveHeld": lost, "replayDeadDelivery": failed, "discardDeadDelivery": failed},
        {"": goes, "resumeRun": rests, "replayRun": buried, "replayDeadRun": buried, "discardDeadRun": buried},
    )


async def _seen(connection: Connection) -> dict[str, list[str]]:
    """All rows of the workspace at home, by table."""
    async with connection.transaction():
        await connection.execute(
            "SET LOCAL ROLE dispatcher_tenant; SET LOCAL dispatcher.tenant = 'default';"
            " SET LOCAL dispatcher.workspace = 'default'"
        )
        tables = await connection.fetch(
            "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'dispatcher'::regnamespace"
            " AND relkind = 'r' AND has_table_privilege('dispatcher_tenant', oid, 'SELECT')"
        )
        return {
            name: [row[0] for row in await connection.fetch(f"SELECT t::text FROM {name} t ORDER BY 1")]
            for (name,) in tables
        }


async def _call(app: Litestar, key: str, one: Endpoint, names: dict[str, str]) -> Answer:
    """A request, as a server hands it over."""
    path = re.sub(r"\{(\w+)\}", lambda match: names.get(match[1], "of-home"), one.path)
    own = {"idempotency_key": "of-home"} if one.operation.endswith("ByKey") else {}
    body = b"" if one.example is None else json.dumps(dict(one.example) | own).encode()
    sent = {"authorization": f"Bearer {key}", "content-type": "application/json", "idempotency-key": ONCE}
    answer = Answer()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.status = message.get("status", answer.status)
        answer.body += message.get("body", b"")

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": one.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)  # type: ignore[arg-type]  # as a server has them
    return answer


async def _leak(database: Database, connection: Connection, one: Endpoint, home: Home, whose: Workspace) -> str | None:
    """What somebody else's key gets from home, or changes there."""
    made = await keys.create(database, New(whose, "thief", Role.SYSTEM_ADMIN, None), "test", "test")
    assert made is not None
    config = Config(channels=dict.fromkeys(("sms", "email", "webhook"), Channel(provider="capture")))
    interface = Interface(lambda: config, lambda: database)
    app = Litestar(interface.handlers(), openapi_config=None, logging_config=None)
    before = await _seen(connection)
    answer = await _call(app, made.text, one, home.names(one.operation))
    assert answer.status not in (401, 403), answer
    after = await _seen(connection)
    if after != before:
        return f"changed {[name for name, rows in after.items() if rows != before[name]]}"
    if any(secret in answer.body for secret in SECRETS):
        return f"showed {answer.body!r}"
    named = one.names and one.operation not in ("putWorkflow", "triggerWorkflow")
    return f"was answered {answer.body!r}" if named and answer.status != 404 else None


@pytest.mark.parametrize("whose", FOREIGN, ids=lambda one: f"{one.tenant_id}-{one.workspace_id}")
@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
@pytest.mark.usefixtures("forgetful")
async def test_a_forgotten_condition_leaks_nothing(
    one: Endpoint, whose: Workspace, database: Database, connection: Connection, home: Home
) -> None:
    assert await _leak(database, connection, one, home, whose) is None


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
@pytest.mark.usefixtures("forgetful")
async def test_without_row_security_it_would_have(
    one: Endpoint, database: Database, connection: Connection, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_opening", lambda _, operators: "BEGIN")
    leaked = await _leak(database, connection, one, home, FOREIGN[0])
    assert (leaked is not None) == (one.operation in LEAKING), leaked
