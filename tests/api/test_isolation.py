"""Isolation: the real statements without their conditions on tenant and workspace, and what a foreign key gets then.

Nothing, since Postgres keeps workspaces apart by itself. Without its row security the same requests get a lot.
"""

import re
import sys
from collections.abc import AsyncIterator

import pytest
from litestar import Litestar

from dispatcher.api.endpoints import Call, Endpoint
from dispatcher.api.interface import ENDPOINTS, Interface
from dispatcher.config import Channel, Config
from dispatcher.config import Database as Settings
from dispatcher.domain.roles import Role
from dispatcher.store import keys, tenants
from dispatcher.store.database import Database
from dispatcher.store.keys import New
from dispatcher.store.templates import Workspace
from tests.api.home import FOREIGN, HOME, OF_TENANT, SECRETS, SHARED, Home, ask, furnish, seen
from tests.store.scene import Connection

# Of these the requests below get nothing even without row security, since they make what is not there, or have it done
# by a function that is told the workspace: the test says nothing about them.
SILENT = {
    "putWorkflow",
    "deleteWorkflow",
    "activateWorkflow",
    "deactivateWorkflow",
    "putTemplate",
    "publishTemplate",
    "triggerWorkflow",
    "workflowEnqueue",
    "putSchedule",
    "activateSchedule",
    "deactivateSchedule",
    "deleteSchedule",
    "putContact",
    "patchContact",
    "changeWebhook",
    "rotateWebhook",
    "deleteWebhook",
    "rotateKey",
    "revokeKey",
    "deleteObject",
    "getOwnKey",
}
# What these name comes to be where it is not there yet, whatever others have.
MAKING = {"putWorkflow", "triggerWorkflow", "putTemplate", "putSchedule", "putContact", "putObject"}
NOT_FOUND = 404
BROKEN = 500
# `tenant_id = $1`, and what has the same effect.
CONDITION = re.compile(
    r"(?:\b(?:\w+\.)?(?:tenant_id|workspace_id)|\b\w+\.said ->> '(?:tenant_id|workspace_id)') = (\$\d+)"
)
JOINED = re.compile(r"USING \(tenant_id, workspace_id, ")


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


@pytest.fixture
async def home(connection: Connection) -> Home:
    """Of everything that the API shows or changes one."""
    return await furnish(connection)


async def _leak(database: Database, connection: Connection, one: Endpoint, home: Home, whose: Workspace) -> str | None:
    """What somebody else's key gets from home, or changes there."""
    made = await keys.create(database, New(whose, "thief", Role.SYSTEM_ADMIN, None), "test", "test")
    assert made is not None
    config = Config(channels=dict.fromkeys(("sms", "email", "webhook"), Channel(provider="capture")))
    interface = Interface(lambda: config, lambda: database)
    app = Litestar(interface.handlers(), openapi_config=None, logging_config=None)
    before = await seen(connection)
    answer = await ask(app, made.text, one, home)
    assert answer.status not in (401, 403), answer
    after = await seen(connection)
    shared = SHARED if whose.tenant_id == HOME.tenant_id else set[str]()
    changed = [name for name, rows in after.items() if rows != before[name] and name not in shared]
    if changed:
        return f"changed {changed}"
    secrets = SECRETS if shared else (*SECRETS, OF_TENANT)
    if any(secret in answer.body for secret in secrets):
        return f"showed {answer.body!r}"
    named = one.names and one.operation not in MAKING
    wrong = answer.status != NOT_FOUND if named else answer.status >= BROKEN
    return f"was answered {answer.body!r}" if wrong else None


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
    assert (leaked is None) == (one.operation in SILENT), leaked
