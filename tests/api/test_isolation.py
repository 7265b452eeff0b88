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
# by a function of the owner's that is told the workspace: the test says nothing about them.
SILENT = {"putWorkflow", "triggerWorkflow", "workflowEnqueue", "putSchedule", "createContact", "getOwnKey"}
# What these name comes to be where it is not there yet, whatever others have.
MAKING = {"putWorkflow", "triggerWorkflow", "putTemplate", "putSchedule", "putContact", "putObject"}
NOT_FOUND = 404
BROKEN = 500
# `tenant_id = $1`, and what has the same effect: in statements, and in functions that run with their caller's rights.
CONDITION = re.compile(
    r"(?:\b(?:\w+\.)?(?:tenant_id|workspace_id)|\b\w+\.said ->> '(?:tenant_id|workspace_id)')"
    r" (?:=|IS NOT DISTINCT FROM) (\$\d+|p_\w+(?:\.\w+)?|draft\.\w+)"
)
JOINED = re.compile(r"USING \(tenant_id, workspace_id, ")
FUNCTIONS = """
    SELECT pg_get_functiondef(oid) AS text FROM pg_proc
     WHERE pronamespace = 'dispatcher'::regnamespace AND NOT prosecdef AND prosrc ~ '(tenant|workspace)_id (=|IS NOT D)'
       AND has_function_privilege('dispatcher_tenant', oid, 'EXECUTE')
"""


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """The pool that the API uses."""
    database = Database(Settings(pool_max=4), url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


def _without(text: str) -> str:
    # Always so, and Postgres still knows what is asked.
    return JOINED.sub("USING (", CONDITION.sub(r"(\1::text IS NULL) IS NOT NULL", text))


@pytest.fixture
async def forgetful(home: Home, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The API as somebody might have written it who never thought of tenants; and what is at home."""
    store = [module for name, module in sys.modules.items() if name.startswith("dispatcher.store.")]
    for sql in [vars(module)["_SQL"] for module in store if hasattr(module, "_SQL")]:
        for name, text in sql.items():
            monkeypatch.setitem(sql, name, _without(text))
    for function in await connection.fetch(FUNCTIONS):
        await connection.execute(_without(function["text"]))
    monkeypatch.setattr(Call, "owns", lambda _, row: row is not None)
    return home


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
async def test_a_forgotten_condition_leaks_nothing(
    one: Endpoint, whose: Workspace, database: Database, connection: Connection, forgetful: Home
) -> None:
    assert await _leak(database, connection, one, forgetful, whose) is None


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_without_row_security_it_would_have(
    one: Endpoint, database: Database, connection: Connection, forgetful: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_opening", lambda _, operators: "BEGIN")
    leaked = await _leak(database, connection, one, forgetful, FOREIGN[0])
    assert (leaked is None) == (one.operation in SILENT), leaked
