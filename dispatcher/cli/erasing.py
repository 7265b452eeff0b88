"""The `contacts` commands that erase: a person is taken out of a workspace, or out of all of a tenant's."""

from functools import partial
from typing import Annotated

import typer

from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, Yes, confirm, deliveries_in_words, require_words, second, who
from dispatcher.cli.persons import OfContact, Whom, person
from dispatcher.cli.session import Session
from dispatcher.cli.suppressions import OfKind
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.store import erasures as store
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace

# Pages between two looks at whether somebody wants to stop.
PAGES = 20
NUMBER_MAX = 2**62


def erase(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    reason: Reason,
    texts: Whom = None,
    *,
    contact: OfContact = None,
    kind: OfKind = None,
    all_workspaces: Annotated[bool, typer.Option("--all-workspaces", help="Wherever the tenant has anything.")] = False,
    yes: Yes = False,
    actor: Actor = None,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """Erase a person: contact, messages, runs. What they may not be sent, and keys, stay as hashes.

    What is queued for them is skipped, and runs that concern them are cancelled. What is with a provider just now is
    waited for by whoever serves: see `contacts erasures`. Stopped halfway, it is completed there, too.
    """
    here, by = place(tenant, workspace).workspace, who(session, actor)
    require_words("--reason", reason)
    with session.database() as database:
        meant = person(session, database, here, (texts or [], kind, contact))
        confirm(session.voice, yes, len(meant.addresses), "this cannot be undone", "addresses")
        places = session.run(lambda: store.workspaces(database, here.tenant_id)) if all_workspaces else [here]
        open_ = 0
        for one in dict.fromkeys([here, *places]):
            of_contact = contact if one == here else None
            number = session.run(partial(store.ask, database, one, meant, by, reason, of_contact))
            open_ += not _work(session, database, one, number)
    if open_:
        raise typer.Exit(FAILED)


def _work(session: Session, database: Database, here: Workspace, number: int) -> bool:
    """Go on until it is done, or waits. Somebody who serves may be at it as well."""
    deliveries = runs = waits = 0
    finished = False
    while looked := session.run(partial(store.look, database, number, PAGES)):
        deliveries, runs = deliveries + looked.deliveries, runs + looked.runs
        waits, finished = looked.waits_for, looked.finished
        if finished or waits:
            break
    else:
        # Whoever serves has come to its end.
        (row,) = session.run(partial(store.listed, database, here, NUMBER_MAX, 1, number))
        finished, waits = row["finished_at"] is not None, row["waits_for"]
        deliveries, runs = row["deliveries"], row["runs"]
    if session.voice.as_json:
        record = {"id": number, "workspace": here.workspace_id, "deliveries": deliveries, "runs": runs}
        session.voice.record(record | {"waits_for": waits, "finished": finished})
    else:
        end = "is done" if finished else f"waits for {deliveries_in_words(waits)}, and goes on by itself"
        session.voice.text(f"erasure {number} in {here.workspace_id} {end}: {deliveries:,} deliveries, {runs:,} runs")
    return finished


def erasures(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = "default",
    workspace: InWorkspace = "default",
) -> None:
    """List who was erased from a workspace, by hashes: when, by whom and why."""
    here = place(tenant, workspace).workspace
    with session.database() as database:
        found = session.run(lambda: store.listed(database, here, NUMBER_MAX, limit))
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
    elif found:
        columns = ("id", "asked", "by", "done", "deliveries", "runs", "waits for", "why", "addresses")
        session.voice.table(
            columns,
            (
                (
                    row["id"],
                    second(row["asked_at"]),
                    row["actor"],
                    second(row["finished_at"]) if row["finished_at"] else "",
                    row["deliveries"],
                    row["runs"],
                    row["waits_for"],
                    row["reason"],
                    ", ".join(row["subjects"]),
                )
                for row in found
            ),
        )
    else:
        session.voice.text("Nobody was erased here.")
