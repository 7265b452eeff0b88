"""The `contacts` commands that erase: a person is taken out of a workspace, or out of all of a tenant's."""

import time
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from dispatcher.base.errors import NoRemoteForm
from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.cli.addresses import OfKind
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, Yes, confirm, deliveries_in_words, require_words, second
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.db.database import Database
from dispatcher.features.persons import endpoints, erasure, rules
from dispatcher.features.persons.commands import OfContact, Whom, whom
from dispatcher.features.persons.models import Erasure, Person
from dispatcher.http.cursors import ID_MAX

# Of an erasure, between two looks at whether somebody wants to stop.
PAGES = 20
# Between two looks at an erasure that a server does.
LOOK_SECONDS = 0.5


def erase(
    caller: Caller,
    reason: Reason,
    texts: Whom = None,
    *,
    contact: OfContact = None,
    kind: OfKind = None,
    all_workspaces: Annotated[bool, typer.Option("--all-workspaces", help="Wherever the tenant has anything.")] = False,
    yes: Yes = False,
) -> None:
    """Erase a person: contact, messages, runs. What they may not be sent, and keys, stay as hashes.

    What is queued for them is skipped, and runs that concern them are cancelled. What is with a provider just now is
    waited for by whoever serves: see `contacts erasures`. Stopped halfway, it is completed there, too.
    """
    named = whom(texts, kind, contact)
    require_words("--reason", reason)
    if all_workspaces and caller.session.address is not None:
        raise NoRemoteForm("a key opens one workspace: erase from each by a key of its own, or on the database")
    here = caller.workspace()
    meant: Person = caller.ask(endpoints.find_person, body=named)
    confirm(caller.output, yes, len(meant.addresses), "this cannot be undone", "addresses")
    body = {"addresses": meant.addresses, "contact": contact, "reason": reason}
    begun: Erasure = caller.ask(endpoints.erase_person, body=body)
    are_done = [_work(caller, here, begun.id)]
    if all_workspaces:
        are_done += [_work(caller, place, number) for place, number in _elsewhere(caller, here, meant, reason)]
    if not all(are_done):
        raise typer.Exit(FAILED)


def _elsewhere(caller: Caller, here: Workspace, meant: Person, reason: str) -> Iterator[tuple[Workspace, int]]:
    """Ask for erasures in the other workspaces of the tenant, which a server's key does not open."""
    who = rules.of(Address(one.kind, one.address) for one in meant.addresses)
    for place in caller.session.run(lambda: erasure.workspaces(caller.database, here.tenant_id)):
        if place != here:
            asked = caller.database, place, who, caller.operator, reason
            yield place, caller.session.run(lambda asked=asked: erasure.ask(*asked))  # type: ignore[misc]  # bound now


def _work(caller: Caller, place: Workspace, number: int) -> bool:
    """Go on until it is done, or waits."""
    try:
        with progress_bar(caller.output, f"erasure {number}", 0) as at:
            while True:
                now = _go_on(caller, place, number)
                at(now.deliveries + now.runs)
                if now.finished_at is not None or now.waits_for:
                    break
    except BaseException:
        said = f"stopped: erasure {number} in {place.workspace_id} has begun, and whoever serves completes it"
        caller.output.note(said, {"stopped": True, "id": number, "workspace": place.workspace_id})
        raise
    finished = now.finished_at is not None
    record = {"id": number, "workspace": place.workspace_id, "deliveries": now.deliveries, "runs": now.runs}
    end = "is done" if finished else f"waits for {deliveries_in_words(now.waits_for)}, and goes on by itself"
    done = f"{now.deliveries:,} deliveries, {now.runs:,} runs"
    words = f"erasure {number} in {place.workspace_id} {end}: {done}"
    tell(caller, record | {"waits_for": now.waits_for, "finished": finished}, words)
    return finished


def _go_on(caller: Caller, place: Workspace, number: int) -> Erasure:
    """Do a part of an erasure on the database, where no dispatcher need be running. A server does it by itself."""
    if caller.session.address is not None:
        time.sleep(LOOK_SECONDS)
        found: Erasure = caller.ask(endpoints.get_erasure, number)
        return found
    return caller.session.run(lambda: _do_part(caller.database, place, number))


async def _do_part(database: Database, place: Workspace, number: int) -> Erasure:
    await erasure.look(database, number, PAGES)
    (row,) = await erasure.listed(database, place, ID_MAX, 1, number)
    return msgspec.convert(row, Erasure)


def erasures(caller: Caller) -> None:
    """List who was erased from a workspace, by hashes: when, by whom and why."""
    columns = ("id", "asked", "by", "done", "deliveries", "runs", "waits for", "why", "addresses")
    show_list(caller, caller.listed(endpoints.list_erasures), columns, _cells, "Nobody was erased here.")


def _cells(one: Erasure) -> tuple[object, ...]:
    done = second(one.finished_at) if one.finished_at else ""
    counts = one.deliveries, one.runs, one.waits_for
    return one.id, second(one.asked_at), one.actor, done, *counts, one.reason, ", ".join(one.subjects)
