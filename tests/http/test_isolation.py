"""Isolation: the real statements without their conditions on tenant and workspace, and what a foreign key gets then.

Nothing, since Postgres keeps workspaces apart by itself. Without its row security the same requests get a lot. And so
with what only operators may do, where nobody asks whether somebody is one.
"""

import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from typing import Any, Self

import asyncpg
import msgspec
import pytest
from litestar import Litestar
from msgspec import Struct

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Api, Channel, Config
from dispatcher.config.settings import Database as Settings
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.endpoints import ENDPOINTS
from dispatcher.engine.store import backlog
from dispatcher.features.keys import store as keys
from dispatcher.features.runs.trigger_batches import TriggerBatches
from dispatcher.http import operators
from dispatcher.http.endpoints import Call, Endpoint
from dispatcher.http.roles import Role
from dispatcher.http.server import serving
from dispatcher.http.server.routes import ApiRoutes
from dispatcher.http.server.serving import BEYOND
from tests.support.databases import TEMPLATE, name_of, new_database
from tests.support.home import FOREIGN, HOME, OF_TENANT, SECRETS, SHARED, Answer, Asked, Home, call, furnish, seen
from tests.support.scene import Connection

# Of these the requests below get nothing even without row security, since they make what is not there, or have it done
# by a function of the owner's that is told the workspace: the test says nothing about them.
SILENT = {
    *("putWorkflow", "triggerWorkflow", "planWorkflow", "workflowEnqueue", "putSchedule", "createContact", "getOwnKey"),
    *("putSequence", "pauseSequence", "resumeSequence", "deleteSequence", "enrolContact"),
    *("enrolContacts", "changeEnrolments", "pauseEnrolment", "resumeEnrolment", "cancelEnrolment", "previewMove"),
    *("moveEnrolments", "tellContactEvent"),
    *("listContacts", "listDeadDeliveries", "listDeadDeliveryGroups"),
    *("getTimeline", "putCampaign", "deployCampaign", "testCampaign", "noteOutcome", "putRule", "putTrigger"),
    "getCellDirectory",
}
# Only operators may ask, wherever a row is; the others are refused before anything is looked at.
FOR_OPERATORS = {"listCells"}
FOR_ALL = [one for one in ENDPOINTS if one.operation not in FOR_OPERATORS]
# What these name comes to be where it is not there yet, whatever others have.
MAKING = {
    *("putCampaign", "putSequence", "putWorkflow", "triggerWorkflow", "putTemplate", "putSchedule", "putContact"),
    *("putObject", "putTrigger", "putRule", "putQuietHours", "putCap"),
}
BAD = 400
NOT_FOUND = 404
FORBIDDEN = 403
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


class Site(Struct):
    """A furnished database: a connection to look into it, the pool that the API uses, and what is at home there."""

    connection: Connection
    database: Database
    home: Home


@asynccontextmanager
async def _site(url: str, home: Home) -> AsyncIterator[Site]:
    connection = await asyncpg.connect(url)
    database = Database(Settings(pool_max=4), url)
    await database.open()
    try:
        yield Site(connection, database, home)
    finally:
        await database.close()
        await connection.close()


@pytest.fixture(scope="module")
async def furnished(template: str) -> AsyncIterator[tuple[str, Home]]:
    """A database with one of everything that the API shows or changes. Tests clone it."""
    async with new_database(template, TEMPLATE) as url:
        connection = await asyncpg.connect(url)
        home = await furnish(connection)
        await connection.close()
        yield url, home


@pytest.fixture(scope="module")
async def forgetful_template(template: str, furnished: tuple[str, Home]) -> AsyncIterator[str]:
    """The same, with functions as somebody might have written them who never thought of tenants."""
    async with new_database(template, name_of(furnished[0])) as url:
        connection = await asyncpg.connect(url)
        for function in await connection.fetch(FUNCTIONS):
            await connection.execute(_without(function["text"]))
        await connection.close()
        yield url


def _place(workspace: Workspace) -> str:
    return f"{workspace.tenant_id}-{workspace.workspace_id}"


def _without(text: str) -> str:
    # Always so, and Postgres still knows what is asked.
    return JOINED.sub("USING (", CONDITION.sub(r"(\1::text IS NULL) IS NOT NULL", text))


@cache
def _forgetful_statements() -> list[tuple[dict[str, str], str, str]]:
    """The statements with a condition, each with its dictionary and name, and its text without the condition."""
    store = [
        module
        for name, module in sys.modules.items()
        if name.startswith(("dispatcher.engine.store.", "dispatcher.features.", "dispatcher.http.", "dispatcher.db."))
    ]
    named = [(sql, *one) for sql in (getattr(module, "_SQL", {}) for module in store) for one in sql.items()]
    return [(sql, name, _without(text)) for sql, name, text in named if _without(text) != text]


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """The API as somebody might have written it who never thought of tenants."""
    for sql, name, text in _forgetful_statements():
        monkeypatch.setitem(sql, name, text)
    monkeypatch.setattr(Call, "owns", lambda _, row: row is not None)


@pytest.fixture(scope="module")
async def shared(
    request: pytest.FixtureRequest, template: str, forgetful_template: str, furnished: tuple[str, Home]
) -> AsyncIterator[tuple[Site, Workspace]]:
    """The site of those who get nothing from home, and so leave it as it was: each has a workspace like this one."""
    async with new_database(template, name_of(forgetful_template)) as url, _site(url, furnished[1]) as site:
        yield site, request.param


@pytest.fixture
async def own(template: str, forgetful_template: str, furnished: tuple[str, Home]) -> AsyncIterator[Site]:
    """The site of one who takes something from home, or changes it."""
    async with new_database(template, name_of(forgetful_template)) as url, _site(url, furnished[1]) as site:
        yield site


@pytest.fixture
async def trusting(template: str, furnished: tuple[str, Home], monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Site]:
    """The API as somebody might have written it who takes everybody for an operator."""
    monkeypatch.setattr(operators, "is_operator", lambda _: True)
    monkeypatch.setattr(Call, "owns", lambda _, row: row is not None)
    async with new_database(template, name_of(furnished[0])) as url, _site(url, furnished[1]) as site:
        yield site


class Application:
    """The API. Its routes take longer to make than a test to run: they are made once."""

    def __init__(self) -> None:
        self.config = Config()
        self.database: Database
        interface = ApiRoutes(
            ENDPOINTS,
            lambda: self.config,
            lambda: self.database,
            backlog.ages,
            TriggerBatches(lambda: self.database).start,
        )
        self.asgi = Litestar(interface.handlers(), openapi_config=None, logging_config=None)

    def on(self, database: Database, operators: str) -> Litestar:
        """On this database, for these operators."""
        channels = dict.fromkeys(("sms", "email", "webhook"), Channel(provider="capture"))
        self.config, self.database = Config(channels=channels, api=Api(operators=operators)), database
        return self.asgi


application = cache(Application)


class Thief(Struct):
    """A key of another workspace, and what it gets from home."""

    app: Litestar
    key: str
    workspace: Workspace
    connection: Connection

    @classmethod
    async def of(cls, workspace: Workspace, site: Site, operators: str = "default/default") -> Self:
        """One that may do everything where it belongs."""
        made = await keys.create(site.database, workspace, "thief", Role.SYSTEM_ADMIN, None, by=("test", "test"))
        assert made is not None
        return cls(application().on(site.database, operators), made.text, workspace, site.connection)

    async def tries(self, asked: Asked) -> tuple[str | None, Answer]:
        """What a request shows of home, or changes there; and how it is answered."""
        before = await seen(self.connection)
        answer = await call(self.app, self.key, asked)
        assert answer.status not in (401, 403), answer
        after = await seen(self.connection)
        shared = SHARED if self.workspace.tenant_id == HOME.tenant_id else set[str]()
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


_numbers = count(1)


def _fresh(workspace: Workspace) -> Workspace:
    """Another workspace like this one: of the tenant at home, or of none that is known."""
    if workspace.tenant_id == HOME.tenant_id:
        return Workspace(workspace.tenant_id, f"{workspace.workspace_id}-{next(_numbers)}")
    return Workspace(f"{workspace.tenant_id}-{next(_numbers)}", workspace.workspace_id)


# A database for each: what workspaces of a tenant share is at home as well.
@pytest.mark.parametrize("shared", FOREIGN, ids=_place, indirect=True)
@pytest.mark.parametrize("one", FOR_ALL, ids=lambda one: one.operation)
@pytest.mark.usefixtures("forgetful")
async def test_a_forgotten_condition_leaks_nothing(one: Endpoint, shared: tuple[Site, Workspace]) -> None:
    site, workspace = shared
    assert await _leak(await Thief.of(_fresh(workspace), site), one, site.home) is None


@pytest.mark.parametrize("one", FOR_ALL, ids=lambda one: one.operation)
@pytest.mark.usefixtures("forgetful")
async def test_without_row_security_it_would_have(one: Endpoint, own: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "_settings", lambda *_: "")
    leaked = await _leak(await Thief.of(FOREIGN[0], own), one, own.home)
    assert (leaked is None) == (one.operation in SILENT), leaked


@pytest.mark.parametrize("shared", FOREIGN[:1], ids=_place, indirect=True)
@pytest.mark.parametrize("one", [one for one in ENDPOINTS if one.right not in BEYOND], ids=lambda one: one.operation)
@pytest.mark.usefixtures("forgetful")
async def test_operators_reach_nothing_but_keys_and_pauses(one: Endpoint, shared: tuple[Site, Workspace]) -> None:
    site, workspace = shared[0], _fresh(shared[1])
    operator = await Thief.of(workspace, site, f"{workspace.tenant_id}/{workspace.workspace_id}")
    assert await _leak(operator, one, site.home) is None


def _beyond() -> list[Asked]:
    """The requests that only operators may make."""
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
        *(Asked("POST", f"/pauses/{scope}/resume", why) for scope in ("template", "tenant", "provider")),
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


@pytest.mark.parametrize("workspace", FOREIGN, ids=_place)
@pytest.mark.parametrize("asked", _beyond(), ids=str)
async def test_a_forged_operator_reaches_nothing(asked: Asked, workspace: Workspace, trusting: Site) -> None:
    assert await _reaches(await Thief.of(workspace, trusting), asked) is None


@pytest.mark.parametrize(
    "one", [one for one in ENDPOINTS if one.operation in FOR_OPERATORS], ids=lambda one: one.operation
)
async def test_what_is_for_operators_is_refused_to_others(one: Endpoint, own: Site) -> None:
    thief = await Thief.of(FOREIGN[0], own)
    answer = await call(thief.app, thief.key, own.home.ask(one))
    assert answer.status == FORBIDDEN


@pytest.mark.parametrize("asked", _beyond(), ids=str)
async def test_operators_would_have(asked: Asked, trusting: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "is_operator", lambda _: True)
    assert await _reaches(await Thief.of(FOREIGN[0], trusting), asked) is not None
