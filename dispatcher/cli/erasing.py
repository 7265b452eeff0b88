"""The `contacts` commands that erase: a person is taken out of a workspace, or out of all of a tenant's."""

from functools import partial
from typing import Annotated

import typer

from dispatcher.cli.deliveries import LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, Reason, Yes, confirm, deliveries_in_words, require_words, second, who
from dispatcher.cli.persons import OfContact, Whom, person, whom
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.session import Session
from dispatcher.cli.suppressions import OfKind
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.doors.persons import Persons
from dispatcher.store.templates import Workspace


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
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Erase a person: contact, messages, runs. What they may not be sent, and keys, stay as hashes.

    What is queued for them is skipped, and runs that concern them are cancelled. What is with a provider just now is
    waited for by whoever serves: see `contacts erasures`. Stopped halfway, it is completed there, too.
    """
    here, by, named = place(tenant, workspace), who(session, actor), whom(texts, kind, contact)
    require_words("--reason", reason)
    with session.doors() as doors:
        noun = doors.persons
        places = session.run(lambda: noun.places(here, everywhere=all_workspaces))
        meant = person(session, noun, here, named)
        confirm(session.voice, yes, len(meant.addresses), "this cannot be undone", "addresses")
        open_ = 0
        for one in places:
            of_contact = contact if one == places[0] else None
            number = session.run(partial(noun.erase, one, meant, of_contact, by, reason))
            open_ += not _work(session, noun, one, number)
    if open_:
        raise typer.Exit(FAILED)


def _work(session: Session, noun: Persons, place: Workspace, number: int) -> bool:
    """Go on until it is done, or waits."""
    try:
        with progress_bar(session.voice, f"erasure {number}", 0) as at:
            while True:
                now = session.run(lambda: noun.go_on(place, number))
                at(now.deliveries + now.runs)
                if now.finished or now.waits_for:
                    break
    except BaseException:
        said = f"stopped: erasure {number} in {place.workspace_id} has begun, and whoever serves completes it"
        session.voice.note(said, {"stopped": True, "id": number, "workspace": place.workspace_id})
        raise
    if session.voice.as_json:
        record = {"id": number, "workspace": place.workspace_id, "deliveries": now.deliveries, "runs": now.runs}
        session.voice.record(record | {"waits_for": now.waits_for, "finished": now.finished})
    else:
        end = "is done" if now.finished else f"waits for {deliveries_in_words(now.waits_for)}, and goes on by itself"
        done = f"{now.deliveries:,} deliveries, {now.runs:,} runs"
        session.voice.text(f"erasure {number} in {place.workspace_id} {end}: {done}")
    return now.finished


def erasures(
    session: Session,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 100,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """List who was erased from a workspace, by hashes: when, by whom and why."""
    here = place(tenant, workspace)
    with session.doors() as doors:
        found = session.run(lambda: doors.persons.erasures(here, limit))
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
