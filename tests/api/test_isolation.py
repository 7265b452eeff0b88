"""Isolation: the real statements without their conditions on tenant and workspace, and what a foreign key gets then.

Nothing, since Postgres keeps workspaces apart by itself. Without its row security the same requests get a lot. And so
with what only operators may do, where nobody asks whether somebody is one.
"""

import re
import sys
from collections.abc import AsyncIterator
from typing import Any, Self

import msgspec
import pytest
from litestar import Litestar
from msgspec import Struct

from dispatcher.api import operators, serving
from dispatcher.api.endpoints import Call, Endpoint
from dispatcher.api.interface import Interface
from dispatcher.api.serving import BEYOND
from dispatcher.config import Api, Channel, Config
from dispatcher.config import Database as Settings
from dispatcher.domain.roles import Role
from dispatcher.endpoints import ENDPOINTS
from dispatcher.features.keys import store as keys
from dispatcher.features.keys.store import New
from dispatcher.store import tenants
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace
from tests.api.home import FOREIGN, HOME, OF_TENANT, SECRETS, SHARED, Answer, Asked, Home, call, furnish, seen
from tests.store.scene import Connection

# Of these the requests below get nothing even without row security, since they make what is not there, or have it done
# by a function of the owner's that is told the workspace: the test says nothing about them.
SILENT = {
    *("putWorkflow", "triggerWorkflow", "planWorkflow", "workflowEnqueue", "putSchedule", "createContact", "getOwnKey"),
    "getTimeline",
}
# What these name comes to be where it is not there yet, whatever others have.
MAKING = {"putWorkflow", "triggerWorkflow", "putTemplate", "putSchedule", "putContact", "putObject"}
BAD = 400
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


def _place(whose: Workspace) -> str:
    return f"{whose.tenant_id}-{whose.workspace_id}"


def _without(text: str) -> str:
    # Always so, and Postgres still knows what is asked.
    return JOINED.sub("USING (", CONDITION.sub(r"(\1::text IS NULL) IS NOT NULL", text))


@pytest.fixture
async def forgetful(home: Home, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The API as somebody might have written it who never thought of tenants; and what is at home."""
    rooms = ("dispatcher.store.", "dispatcher.features.")
    store = [module for name, module in sys.modules.items() if name.startswith(rooms)]
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


class Thief(Struct):
    """A key of another workspace, and what it gets from home."""

    app: Litestar
    key: str
    whose: Workspace
    connection: Connection

    @classmethod
    async def of(
        cls, whose: Workspace, database: Database, connection: Connection, operators: str = "default/default"
    ) -> Self:
        """One that may do everything where it belongs."""
        made = await keys.create(database, New(whose, "thief", Role.SYSTEM_ADMIN, None), "test", "test")
        assert made is not None
        channels = dict.fromkeys(("sms", "email", "webhook"), Channel(provider="capture"))
        config = Config(channels=channels, api=Api(operators=operators))
        interface = Interface(ENDPOINTS, lambda: config, lambda: database)
        return cls(
            Litestar(interface.handlers(), openapi_config=None, logging_config=None), made.text, whose, connection
        )

    async def tries(self, asked: Asked) -> tuple[str | None, Answer]:
        """What a request shows of home, or changes there; and how it is answered."""
        before = await seen(self.connection)
        answer = await call(self.app, self.key, asked)
        assert answer.status not in (401, 403), answer
        after = await seen(self.connection)
        shared = SHARED if self.whose.tenant_id == HOME.tenant_id else set[str]()
        changed = [name for name, rows in after.items() if rows != before[name] and name not in shared]
        if changed:
            return f"changed {changed}", answer
        secrets = SECRETS if shared else (*SECRETS, OF_TENANT)
        shown = any(secret in answer.body for secret in secrets)
        return f"showed {answer.body!r}" if shown else None, answer


async def _leak(thief: Thief, one: Endpoint, home: Home) -> str | None:
    leaked, answer = await thief.tries(home.ask(one))
    named = one.names and one.operation not in MAKING
    wrong = answer.status != NOT_FOUND if named else answer.status >= BROKEN
    return leaked or (f"was answered {answer.body!r}" if wrong else None)


@pytest.mark.parametrize("whose", FOREIGN, ids=_place)
@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_a_forgotten_condition_leaks_nothing(
    one: Endpoint, whose: Workspace, database: Database, connection: Connection, forgetful: Home
) -> None:
    assert await _leak(await Thief.of(whose, database, connection), one, forgetful) is None


@pytest.mark.parametrize("one", ENDPOINTS, ids=lambda one: one.operation)
async def test_without_row_security_it_would_have(
    one: Endpoint, database: Database, connection: Connection, forgetful: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tenants, "_bounds", lambda *_: "")
    leaked = await _leak(await Thief.of(FOREIGN[0], database, connection), one, forgetful)
    assert (leaked is None) == (one.operation in SILENT), leaked


@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.right not in BEYOND], ids=lambda one: one.operation)
async def test_operators_reach_nothing_but_keys_and_pauses(
    one: Endpoint, database: Database, connection: Connection, forgetful: Home
) -> None:
    whose = FOREIGN[0]
    operator = await Thief.of(whose, database, connection, f"{whose.tenant_id}/{whose.workspace_id}")
    assert await _leak(operator, one, forgetful) is None


@pytest.fixture
def trusting(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """The API as somebody might have written it who takes everybody for an operator; and what is at home."""
    monkeypatch.setattr(operators, "is_operators", lambda _: True)
    monkeypatch.setattr(Call, "owns", lambda _, row: row is not None)
    return home


def _beyond() -> list[Asked]:
    """What operators may ask, and nobody else."""
    there = {"tenant_id": HOME.tenant_id, "workspace_id": HOME.workspace_id}
    why = {"reason": "a test"}
    stops: list[dict[str, Any]] = [
        {"scope": "tenant", "name": "default"},
        {"scope": "tenant", "name": "acme"},
        {"scope": "provider", "name": "capture"},
        {"scope": "channel", "name": "sms", "everywhere": True},
        {"scope": "template", "name": "welcome"} | there,
        {"scope": "template", "name": "promotion"} | there,
        {"scope": "workspace"} | there,
    ]
    return [
        *(Asked("POST", "/pauses", one | why) for one in stops),
        *(Asked("POST", f"/pauses/{scope}/resume") for scope in ("template", "tenant", "provider")),
        *(Asked("GET", f"/pauses/{scope}") for scope in ("template", "tenant")),
        Asked("GET", "/pauses", query=there),
        Asked("GET", "/keys", query=there),
        Asked("GET", "/keys/shop/log", query=there),
        Asked("POST", "/keys", {"name": "mine", "role": "systemAdmin"} | why | there),
        Asked("POST", "/keys/shop/rotate", why | there),
        Asked("POST", "/keys/shop/revoke", why | there),
    ]


async def _reaches(thief: Thief, asked: Asked) -> str | None:
    """What somebody gets who asks for pauses by their ids."""
    pauses = await thief.connection.fetch("SELECT scope, id FROM dispatcher.pauses WHERE scope <> 'run'")
    for scope, number in pauses:
        asked = msgspec.structs.replace(asked, path=asked.path.replace(f"/{scope}", f"/{number}"))
    leaked, answer = await thief.tries(asked)
    return leaked or (f"was answered {answer.body!r}" if asked.method != "GET" and answer.status < BAD else None)


@pytest.mark.parametrize("whose", FOREIGN, ids=_place)
@pytest.mark.parametrize("asked", _beyond(), ids=str)
@pytest.mark.usefixtures("trusting")
async def test_who_is_taken_for_an_operator_reaches_nothing(
    asked: Asked, whose: Workspace, database: Database, connection: Connection
) -> None:
    assert await _reaches(await Thief.of(whose, database, connection), asked) is None


@pytest.mark.parametrize("asked", _beyond(), ids=str)
@pytest.mark.usefixtures("trusting")
async def test_operators_would_have(
    asked: Asked, database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "is_operators", lambda _: True)
    assert await _reaches(await Thief.of(FOREIGN[0], database, connection), asked) is not None
