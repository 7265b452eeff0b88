"""The `serve` and `migrate` commands: the process itself, and the schema that it needs."""

import asyncio
import gc
import os
from typing import Annotated

import typer

from dispatcher.base import fault_points
from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session, hush, patiently
from dispatcher.cli.terminal.output import tell
from dispatcher.config import logs
from dispatcher.config.settings import Config
from dispatcher.db import cells, embedded, pooler
from dispatcher.db.schema import migrator

MigrateOption = Annotated[bool, typer.Option("--migrate", help="Bring the schema up to date first.")]
CheckOption = Annotated[bool, typer.Option("--check", help="Apply nothing; exit with 1 when something is missing.")]


def serve(session: Session, migrate: MigrateOption = False) -> None:
    """Run the dispatcher until it is told to stop.

    SIGTERM and Ctrl-C let it finish what is in flight; a second one ends it at once. SIGHUP reads the configuration
    again.
    """
    from dispatcher.app import App  # noqa: PLC0415 - it brings the whole program with it: 0.2 s

    config = session.config
    logs.configure(config.log, config.cell.number)
    fault_points.arm(os.environ)

    async def run() -> None:
        app = App(config, session.read, migrator.migrate if migrate else None)
        # What is there by now stays. Looking through all of it for garbage took 40 ms each time, three times a second
        # under load: an eighth of what the API can do, and of each hundred requests one waited for it.
        gc.freeze()
        # What is new is looked through after 10,000 objects in place of 700: 3 % less work for a message by HTTP.
        gc.set_threshold(10_000)
        await app.serve()

    session.launch(run())


def migrate(session: Session, check: CheckOption = False) -> None:
    """Bring the database's schema up to date."""
    session.require_local()
    config = session.config
    hush()
    found = session.launch(patiently(lambda: _migrate(config, check), config.database.url))
    names = [f"{migration.version:04}_{migration.name}" for migration in found]
    state = "pending" if check else "applied"
    tell(session, {state: names}, *([f"{state} {name}" for name in names] or ["The schema is up to date."]))
    if check and names:
        raise typer.Exit(FAILED)


async def _migrate(config: Config, check: bool) -> list[migrator.Migration]:
    """Apply what is missing, or with `check` only say what that is."""
    settings = config.database
    url, server = await asyncio.to_thread(embedded.start_unless_configured, settings)
    try:
        applied = [] if check else await migrator.migrate(pooler.url_of(settings, url))
        connection = await pooler.connect(
            pooler.url_of(settings, url), pooler.MIGRATION, connect_seconds_max=settings.connect_seconds_max
        )
        try:
            if not check:
                await cells.join(connection, config.cell)
                return applied
            return migrator.pending(await migrator.applied(connection))
        finally:
            await connection.close()
    finally:
        if server is not None:
            await asyncio.to_thread(server.cleanup)
