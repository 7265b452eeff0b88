"""The `contacts` commands about a person: the messages to them and why, the export of their records, erasing them."""

import time
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.base.errors import NoRemoteForm
from dispatcher.base.values.addresses import Address
from dispatcher.base.values.counts import counted
from dispatcher.base.workspace import Workspace
from dispatcher.cli.addresses import OfKind, addresses
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, Yes, confirm, deliveries_in_words, require_text, require_words, second
from dispatcher.cli.terminal.output import show_list, tell
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.db.database import Database
from dispatcher.features.persons import endpoints, erasure
from dispatcher.features.persons.models import Erasure, Person
from dispatcher.features.persons.rules import ADDRESSES_MAX, person_of
from dispatcher.http.cursors import ID_MAX

# Each record takes the server several statements; a page has to be ready within its time limit.
EXPORT_PAGE = 100
# Of an erasure at once: between them the command can be stopped.
PAGES = 20
# Between two requests for the state of an erasure that a server does.
POLL_SECONDS = 0.5

PersonAddresses = Annotated[list[str] | None, typer.Argument(metavar="ADDRESS...", help="The addresses of one person.")]
OfContact = Annotated[str | None, typer.Option("--contact", metavar="KEY", help="And those of this contact.")]


def timeline(caller: Caller, text: Annotated[str, typer.Argument(metavar="ADDRESS")], *, kind: OfKind = None) -> None:
    """Show every message to an address and why it was sent, with list entries about the address, newest first.

    --limit limits the table; --json prints all.
    """
    (named,) = addresses([text], kind)
    limit = caller.given.limit
    body = {"address": named.text, "kind": named.kind}
    entries = caller.every(endpoints.look_up_timeline, body=body, size=min(PAGE_MAX, limit))
    if caller.output.as_json:
        for one in entries:
            caller.output.record(one)
        return
    found = [msgspec.json.decode(one) for one in islice(entries, limit)]
    nothing = f"Nothing was sent to {named.text} here, and nothing was said about it."
    show_list(caller, found, ("at", "id", "channel", "what", "became", "why"), _cells, nothing)
    if len(found) == limit:
        caller.output.info("there may be more: see --limit, or --json for all")


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    at = second(datetime.fromisoformat(row["at"]))
    if row["kind"] == "delivery":
        result = row["life"] + (f": {row['error']}" if row.get("error") else "")
        return at, row["id"], row["channel"], row.get("subject") or row.get("template_name"), result, row["reason"]
    what = f"{row['kind']} {row.get('topic') or row.get('source') or ''}".strip()
    return at, "", row["channel"], what, "", f"{row['actor']}: {row['reason']}"


def export_person(
    caller: Caller, texts: PersonAddresses = None, *, contact: OfContact = None, kind: OfKind = None
) -> None:
    """Print all records of a person as JSON, one a line.

    The contact, each delivery with its content and result, each run that concerns the person, and list entries.
    """
    body = selector(texts, kind, contact)
    with progress_bar(caller.output, "exporting", 0) as at:
        records = caller.every(endpoints.look_up_person, body=body, size=EXPORT_PAGE)
        for done, record in enumerate(records, 1):
            caller.output.record(record)
            at(done)


def selector(texts: list[str] | None, kind: str | None, contact: str | None) -> dict[str, object]:
    """The person that the command line names, as the body of a request."""
    require_text("--contact", contact)
    named = addresses(texts or [], kind)
    if not named and contact is None:
        raise typer.BadParameter("name an address, or a contact by --contact", param_hint="ADDRESS")
    if len(named) > ADDRESSES_MAX:
        words = f"{len(named)} addresses are more than {ADDRESSES_MAX}: split them over several commands"
        raise typer.BadParameter(words, param_hint="ADDRESS")
    return {"addresses": [{"address": one.text, "kind": one.kind} for one in named], "contact": contact}


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
    confirm(caller.output, yes, len(person.addresses), "this cannot be undone", "addresses")
    body = {"addresses": person.addresses, "contact": contact, "reason": reason}
    begun: Erasure = caller.ask(endpoints.erase_person, body=body)
    are_done = [_work(caller, here, begun.id)]
    if all_workspaces:
        are_done += [_work(caller, place, number) for place, number in _elsewhere(caller, here, person, reason)]
    if not all(are_done):
        raise typer.Exit(FAILED)


def _elsewhere(caller: Caller, here: Workspace, named: Person, reason: str) -> Iterator[tuple[Workspace, int]]:
    """Request erasures in the other workspaces of the tenant, which a server's key does not open."""
    person = person_of(Address(one.kind, one.address) for one in named.addresses)
    for place in caller.session.run(lambda: erasure.workspaces(caller.database, here.tenant_id)):
        if place != here:
            asked = caller.database, place, person, caller.operator, reason
            yield place, caller.session.run(lambda asked=asked: erasure.request(*asked))  # type: ignore[misc]  # bound now


def _work(caller: Caller, place: Workspace, number: int) -> bool:
    """Continue an erasure until it is finished or waits; whether it is finished."""
    try:
        with progress_bar(caller.output, f"erasure {number}", 0) as at:
            while True:
                now = _go_on(caller, place, number)
                at(now.deliveries + now.runs)
                if now.finished_at is not None or now.waits_for:
                    break
    except BaseException:
        said = f"stopped: erasure {number} in {place.workspace_id} has begun, and a running dispatcher completes it"
        caller.output.note(said, {"stopped": True, "id": number, "workspace": place.workspace_id})
        raise
    finished = now.finished_at is not None
    record = {"id": number, "workspace": place.workspace_id, "deliveries": now.deliveries, "runs": now.runs}
    end = "is done" if finished else f"waits for {deliveries_in_words(now.waits_for)}, and goes on by itself"
    done = f"{deliveries_in_words(now.deliveries)}, {counted(now.runs, 'run')}"
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
    show_list(caller, caller.listed(endpoints.list_erasures), columns, _erasure_cells, "Nobody was erased here.")


def _erasure_cells(one: Erasure) -> tuple[object, ...]:
    done = second(one.finished_at) if one.finished_at else ""
    counts = one.deliveries, one.runs, one.waits_for
    return one.id, second(one.asked_at), one.actor, done, *counts, one.reason, ", ".join(one.subjects)
