"""The `contacts` commands that erase a person from a workspace, or from all workspaces of a tenant."""

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
from dispatcher.features.persons.commands import OfContact, PersonAddresses, selector
from dispatcher.features.persons.models import Erasure, Person
from dispatcher.http.cursors import ID_MAX

# Of an erasure at once: between them the command can be stopped.
PAGES = 20
# Between two requests for the state of an erasure that a server does.
POLL_SECONDS = 0.5


def erase(
    caller: Caller,
    reason: Reason,
    texts: PersonAddresses = None,
    *,
    contact: OfContact = None,
    kind: OfKind = None,
    all_workspaces: Annotated[bool, typer.Option("--all-workspaces", help="Wherever the tenant has anything.")] = False,
    yes: Yes = False,
) -> None:
    """Erase a person: contact, messages, runs. Suppressions and idempotency keys stay as hashes.

    Queued deliveries to them are skipped, and runs that concern them are cancelled. Running dispatchers wait for what
    is with a provider, and complete an erasure that is stopped halfway: see `contacts erasures`.
    """
    named = selector(texts, kind, contact)
    require_words("--reason", reason)
    if all_workspaces and caller.session.address is not None:
        raise NoRemoteForm("a key opens one workspace: erase from each by a key of its own, or on the database")
    here = caller.workspace()
    person: Person = caller.ask(endpoints.find_person, body=named)
    confirm(caller.voice, yes, len(person.addresses), "this cannot be undone", "addresses")
    body = {"addresses": person.addresses, "contact": contact, "reason": reason}
    begun: Erasure = caller.ask(endpoints.erase_person, body=body)
    are_done = [_work(caller, here, begun.id)]
    if all_workspaces:
        are_done += [_work(caller, place, number) for place, number in _elsewhere(caller, here, person, reason)]
    if not all(are_done):
        raise typer.Exit(FAILED)


def _elsewhere(caller: Caller, here: Workspace, named: Person, reason: str) -> Iterator[tuple[Workspace, int]]:
    """Request erasures in the other workspaces of the tenant, which a server's key does not open."""
    person = rules.person_of(Address(one.kind, one.address) for one in named.addresses)
    for place in caller.session.run(lambda: erasure.workspaces(caller.database, here.tenant_id)):
        if place != here:
            asked = caller.database, place, person, caller.operator, reason
            yield place, caller.session.run(lambda asked=asked: erasure.request(*asked))  # type: ignore[misc]  # bound now


def _work(caller: Caller, place: Workspace, number: int) -> bool:
    """Continue an erasure until it is finished or waits; whether it is finished."""
    try:
        with progress_bar(caller.voice, f"erasure {number}", 0) as at:
            while True:
                now = _go_on(caller, place, number)
                at(now.deliveries + now.runs)
                if now.finished_at is not None or now.waits_for:
                    break
    except BaseException:
        said = f"stopped: erasure {number} in {place.workspace_id} has begun, and a running dispatcher completes it"
        caller.voice.note(said, {"stopped": True, "id": number, "workspace": place.workspace_id})
        raise
    finished = now.finished_at is not None
    record = {"id": number, "workspace": place.workspace_id, "deliveries": now.deliveries, "runs": now.runs}
    end = "is done" if finished else f"waits for {deliveries_in_words(now.waits_for)}, and goes on by itself"
    done = f"{now.deliveries:,} deliveries, {now.runs:,} runs"
    words = f"erasure {number} in {place.workspace_id} {end}: {done}"
    tell(caller, record | {"waits_for": now.waits_for, "finished": finished}, words)
    return finished


def _go_on(caller: Caller, place: Workspace, number: int) -> Erasure:
    """Do a part of an erasure on the database, which needs no running dispatcher; a server does it by itself."""
    if caller.session.address is not None:
        time.sleep(POLL_SECONDS)
        found: Erasure = caller.ask(endpoints.get_erasure, number)
        return found
    return caller.session.run(lambda: _do_part(caller.database, place, number))


async def _do_part(database: Database, place: Workspace, number: int) -> Erasure:
    await erasure.advance(database, number, PAGES)
    (row,) = await erasure.listed(database, place, ID_MAX, 1, number)
    return msgspec.convert(row, Erasure)


def erasures(caller: Caller) -> None:
    """List the erasures of a workspace, by hashes of addresses: when, by whom and why."""
    columns = ("id", "asked", "by", "done", "deliveries", "runs", "waits for", "why", "addresses")
    show_list(caller, caller.listed(endpoints.list_erasures), columns, _cells, "Nobody was erased here.")


def _cells(one: Erasure) -> tuple[object, ...]:
    done = second(one.finished_at) if one.finished_at else ""
    counts = one.deliveries, one.runs, one.waits_for
    return one.id, second(one.asked_at), one.actor, done, *counts, one.reason, ", ".join(one.subjects)
