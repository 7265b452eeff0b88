"""The `cells` commands: what cells there are, what is wrong among them, and in which one a new tenant is."""

from typing import Annotated

import msgspec
import typer

from dispatcher.base.directory import Directory
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session, hush
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.features.cells import endpoints, rules, store
from dispatcher.features.cells.models import Cells, CellState

app = group(help="Look at the cells of an installation, and place tenants in them.")


@command(app, "list", spans=True)
def list_(caller: Caller) -> None:
    """List the cells of the directory, each as it answers within two seconds."""
    found: Cells = caller.ask(endpoints.list_cells)
    columns = ("cell", "url", "version", "tenants", "waiting", "held", "faults")
    show_list(caller, list(found.cells), columns, _cells, "There are no cells.")


@command(app, "check", spans=True)
def check(caller: Caller) -> None:
    """Compare the directory with every cell, and name all that is wrong; exit with 1 where anything is."""
    found: Cells = caller.ask(endpoints.list_cells)
    words = [f"{fault}" for fault in found.faults] or [f"{len(found.cells)} cells agree with the directory."]
    tell(caller, {"faults": list(found.faults), "directory_version": found.directory_version}, *words)
    if found.faults:
        raise typer.Exit(FAILED)


@command(app, "directory")
def directory(session: Session) -> None:
    """Print the directory anew, with what cells know better than the file: for another file, or for `--json`."""
    found = _newest(session)
    if session.output.as_json:
        session.output.record(found)
    else:
        session.output.content(msgspec.json.format(msgspec.json.encode(found)).decode())


@command(app, "place")
def place(
    session: Session,
    tenant: Annotated[str, typer.Argument(metavar="TENANT")],
    cell: Annotated[int, typer.Option(help="The number of its cell.")],
) -> None:
    """Say in which cell a new tenant is. One that has anything in another cell is moved instead."""
    session.require_local()
    hush()
    found = store.directory(session.config)
    version = session.launch(store.place(found, tenant, cell))
    said = {"tenant_id": tenant, "cell": cell, "version": version}
    tell(session, said, f"tenant {tenant} is in cell {cell} (version {version})")


def _newest(session: Session) -> Directory:
    session.require_local()
    hush()
    found = store.directory(session.config)
    return rules.newest(found, session.launch(store.look(found)))


def _cells(row: CellState) -> tuple[object, ...]:
    return row.number, row.url, row.version, *map(_count, (row.tenants, row.waiting, row.held)), "; ".join(row.faults)


def _count(number: int | None) -> str:
    return "?" if number is None else f"{number:,}" + ("+" if number == store.COUNTED_MAX else "")
