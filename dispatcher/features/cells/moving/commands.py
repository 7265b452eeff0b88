"""The `tenants` commands: a tenant is moved from one cell to another."""

import os
from typing import Annotated

import typer

from dispatcher.base import fault_points
from dispatcher.base.directory import Directory
from dispatcher.base.errors import Fault, MoveRefused
from dispatcher.base.values.counts import counted
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import Actor, Yes, confirm, name_given, require_words, who
from dispatcher.cli.session import Session, hush
from dispatcher.cli.terminal.output import tell
from dispatcher.features.cells import store
from dispatcher.features.cells.moving import cell_connections, moves
from dispatcher.features.cells.moving.mover import Mover
from dispatcher.features.cells.moving.plan import Plan, plan_of, require_possible

app = group(help="Move tenants from one cell to another.")
app.callback()(lambda: None)

MEGABYTE = 1_000_000


@command(app, "move")
def move(
    session: Session,
    tenant: Annotated[str, typer.Argument(metavar="NAME", callback=name_given)],
    to: Annotated[int, typer.Option(help="The number of the cell that it goes to.")],
    *,
    plan: Annotated[bool, typer.Option("--plan", help="Show how much there is to copy, and do nothing.")] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Undo a move that has not switched yet.")] = False,
    reason: Annotated[str, typer.Option(help="Why; it is kept.")] = "",
    actor: Actor = None,
    yes: Yes = False,
) -> None:
    """Move a tenant to another cell, with everything that it has; nothing is held, lost or sent twice.

    It works where it is until what no longer changes is copied. Then it stands still for some seconds, and works in the
    other cell from then on. After an interruption the same command goes on with it.
    """
    session.require_local()
    by = who(session, actor)
    if reason:
        require_words("--reason", reason)
    hush()
    fault_points.arm(os.environ)
    directory = store.directory(session.config)
    if directory.cell(to) is None:
        raise MoveRefused([Fault("--to", f"there is no cell {to} in the directory: name one of it")])
    if not cancel:
        found = session.launch(_plan(directory, tenant, to))
        if plan:
            _show(session, found)
            return
        words = f"{counted(found.rows, 'row')} of tenant {tenant} would move from cell {found.source} to cell {to}"
        confirm(
            session.output, yes, found.rows, f"{words}; it sends nothing for about {found.still_seconds:g} s", "rows"
        )
    result = session.launch(_move(session, directory, (tenant, to), None if cancel else (by, reason)))
    what = "is back in" if cancel else f"is in cell {to}, and has left"
    tell(session, result, f"tenant {tenant} {what} cell {result.source}")
    if not cancel:
        session.output.info("write the directory anew with `cells directory`")


async def _plan(directory: Directory, tenant: str, to: int) -> Plan:
    """Return the plan of a move that begins, or of one that goes on."""
    source, target = await moves.places(directory, tenant, to)
    async with cell_connections.connected(source) as here, cell_connections.connected(target) as there:
        is_new = await here.control.fetchrow(moves.FIND, tenant) is None
        await require_possible(here, there, tenant, is_new=is_new)
        return await plan_of(here, there, tenant)


async def _move(
    session: Session, directory: Directory, what: tuple[str, int], by: tuple[str, str] | None
) -> moves.Result:
    """Move a tenant to a cell for an actor with a reason, or cancel its move."""
    tenant, to = what
    source, target = await moves.places(directory, tenant, to)
    async with cell_connections.connected(source) as here, cell_connections.connected(target) as there:
        mover = Mover(here, there, tenant, session.output.info, version=directory.version)
        if by is None:
            return await mover.cancel()
        await mover.open(*by)
        result = await mover.run()
    for words in await moves.tell_others(directory, result):
        session.output.info(words)
    return result


def _show(session: Session, plan: Plan) -> None:
    if session.output.as_json:
        session.output.record(plan)
        return
    rows = ((one.table, f"{one.rows:,}", f"{one.late:,}", f"{one.bytes / MEGABYTE:,.1f}") for one in plan.tables)
    session.output.table(("table", "rows", "while it stands still", "MB"), rows)
    session.output.text(
        f"{counted(plan.rows, 'row')}, {plan.bytes / MEGABYTE:,.1f} MB, from cell {plan.source} to cell {plan.target}: "
        f"about {plan.seconds:g} s, for {plan.still_seconds:g} s of which the tenant sends nothing"
    )
    for words in plan.warnings:
        session.output.info(words)
