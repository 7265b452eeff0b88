"""Erasures: a person is removed from a workspace page by page, each page in its own transaction."""

import hashlib
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.values.addresses import Address, address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.store import suppression
from dispatcher.features.caps import store as caps
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import rules
from dispatcher.features.persons import store as person_store
from dispatcher.features.persons.rules import Person

_SQL = statements(__name__)

# A page takes some 100 ms of a server's time at most.
PAGE = 2_000
# An erasure that waits for what is with a provider is tried again after this.
RETRY_SECONDS = 5.0
_REASON = "erased"

_decode = msgspec.json.Decoder(list[Address]).decode


class Erasure(Struct):
    """An open erasure: the person and the workspace, and how far it has come."""

    id: int
    workspace: Workspace
    actor: str
    asked_at: datetime
    person: Person
    deliveries_upto: int
    runs_upto: int
    contacts: list[int]
    deliveries: int = 0
    runs: int = 0
    waits_for: int = 0
    finished: bool = False


def subject(one: Address) -> str:
    """The hash that stays of an address."""
    return "sha256:" + hashlib.sha256(one.text.encode()).hexdigest()


async def request(
    database: Database, workspace: Workspace, person: Person, actor: str, reason: str, contact: str | None = None
) -> int:
    """Request the erasure of a person and delete their contact; returns the id of the erasure."""
    addresses = msgspec.json.encode(person.addresses).decode()
    subjects = [subject(one) for one in person.addresses]
    place = workspace.tenant_id, workspace.workspace_id
    number = int(await database.value(_SQL["request"], *place, actor, reason, subjects, addresses, contact))
    if contact is not None:
        await contacts.delete(database, workspace, contact)
    return number


async def workspaces(database: Database, tenant_id: str) -> list[Workspace]:
    """Return the workspaces of a tenant that have any data."""
    return [Workspace(tenant_id, row[0]) for row in await database.fetch(_SQL["workspaces"], tenant_id)]


async def listed(
    database: Database, workspace: Workspace, below: int, count: int, number: int | None = None
) -> list[dict[str, Any]]:
    """Return erasures of a workspace, newest first, or the one with this id."""
    arguments = workspace.tenant_id, workspace.workspace_id, below, number, count
    return [dict(row) for row in await database.fetch(_SQL["list"], *arguments)]


async def advance(database: Database, number: int | None = None, pages: int | None = None) -> Erasure | None:
    """Continue an open erasure for at most so many pages; None if there is none to continue."""
    rows = await database.fetch(_SQL["open"], number, RETRY_SECONDS)
    if not rows:
        return None
    row = rows[0]
    person = rules.person_of(_decode(row["addresses"]))
    workspace = Workspace(row["tenant_id"], row["workspace_id"])
    upto = row["deliveries_upto"], row["runs_upto"]
    now = Erasure(row["id"], workspace, row["actor"], row["asked_at"], person, *upto, row["contacts"])
    now.finished = not person.addresses or await _erase(database, now, pages)
    progress = now.deliveries, now.runs, now.deliveries_upto, now.runs_upto, now.waits_for, now.finished
    await database.fetch(_SQL["progress"], now.id, *progress)
    return now


async def _erase(database: Database, erasure: Erasure, pages: int | None) -> bool:
    """Erase so many pages; whether nothing is left and nothing is waited for."""
    await database.fetch(_SQL["arm"])
    place = erasure.workspace.tenant_id, erasure.workspace.workspace_id
    kinds, texts = [one.kind for one in erasure.person.addresses], [one.text for one in erasure.person.addresses]
    erasure.contacts = await database.value(_SQL["contacts"], *place, kinds, texts, erasure.asked_at, erasure.id)
    await _erase_from_campaigns(database, erasure)
    # Behind both: an expansion that begins now finds nothing, and what others have written is seen below.
    await database.fetch(_SQL["expansions"], *place)
    await database.fetch(_SQL["suppressions"], erasure.workspace.tenant_id, kinds, texts)
    await _cancel_queued(database, erasure)
    # Runs first: they are found by the recipients of their deliveries.
    for page, after in ((_erase_runs, _erase_sent), (_erase_mentions, None)):
        while await page(database, erasure):
            if pages is not None:
                pages -= 1
                if pages < 0:
                    return False
        if erasure.waits_for:
            return False
        if after is not None:
            await after(database, erasure)
    # Again: what was cancelled and what has failed meanwhile has left its reasons there.
    await _erase_from_campaigns(database, erasure)
    await database.fetch(_SQL["receipts"], erasure.person.terms, erasure.person.pattern, *place, erasure.person.forms)
    await database.fetch(_SQL["answers"], *place, erasure.person.terms, erasure.person.pattern)
    await database.fetch(_SQL["events"], *place, erasure.person.terms, erasure.person.pattern)
    await caps.erase(database, erasure.workspace, erasure.contacts, kinds, texts)
    return True


async def _erase_from_campaigns(database: Database, erasure: Erasure) -> None:
    place = erasure.workspace.tenant_id, erasure.workspace.workspace_id
    await database.fetch(_SQL["campaigns"], *place, erasure.person.terms, erasure.person.pattern)


async def _erase_runs(database: Database, erasure: Erasure) -> bool:
    """Erase the runs of a page with their deliveries; False after the last page, or if a run is unfinished."""
    found, last = await person_store.runs(database, erasure.workspace, erasure.person, erasure.runs_upto, PAGE)
    before = await database.fetch(_SQL["before"], [one["id"] for one in found], erasure.asked_at)
    ids = [row["id"] for row in before]
    if ids:
        await database.fetch(_SQL["cancel_run"], ids, erasure.actor)
        rows = await database.fetch(_SQL["of_runs"], ids)
        await _cancel(database, rows, erasure.actor)
        rows = await database.fetch(_SQL["of_runs"], ids)
        unfinished = {row["run_id"] for row in rows if row["status"] == "queued"}
        done = [one for one in ids if one not in unfinished]
        own: list[int] = []
        others: list[int] = []
        for row in rows:
            if row["run_id"] not in unfinished:
                (own if _is_to_person(erasure, row) else others).append(row["id"])
        erased = (await database.fetch(_SQL["erase_runs"], done, own, others))[0]
        erasure.runs += erased["runs"]
        erasure.deliveries += erased["deliveries"]
        erasure.waits_for += sum(row["status"] == "queued" for row in rows)
    if last is None or erasure.waits_for:
        return False
    erasure.runs_upto = last
    return True


async def _deliveries_to_person(database: Database, erasure: Erasure) -> AsyncIterator[list[Any]]:
    """Yield pages of the deliveries to the person. Erased ones are not found again."""
    place = erasure.workspace.tenant_id, erasure.workspace.workspace_id
    behind: int | None = 0
    while behind is not None:
        rows = await database.fetch(_SQL["sent"], *place, erasure.person.forms, behind, erasure.asked_at, PAGE)
        yield [row for row in rows if _is_to_person(erasure, row)]
        behind = rows[-1]["id"] if len(rows) == PAGE else None


async def _cancel_queued(database: Database, erasure: Erasure) -> None:
    """Cancel what is queued for the person, runs first: they would order other deliveries instead."""
    async for rows in _deliveries_to_person(database, erasure):
        runs = {row["run_id"] for row in rows if row["run_id"] is not None and row["status"] == "queued"}
        if runs:
            await database.fetch(_SQL["cancel_run"], sorted(runs), erasure.actor)
        await _cancel(database, rows, erasure.actor)


async def _erase_sent(database: Database, erasure: Erasure) -> None:
    """Erase the deliveries to the person, and their events that are not sent yet. Sent events are deliveries."""
    async for rows in _deliveries_to_person(database, erasure):
        erased = int(await database.value(_SQL["erase_deliveries"], [row["id"] for row in rows], False))
        erasure.deliveries += erased
        erasure.waits_for += len(rows) - erased
    await database.fetch(_SQL["unsent_events"], erasure.workspace.tenant_id, erasure.workspace.workspace_id)


async def _erase_mentions(database: Database, erasure: Erasure) -> bool:
    """Erase finished deliveries to others that mention the person, or that a campaign has written for their contact.

    False after the last page.
    """
    place = erasure.workspace.tenant_id, erasure.workspace.workspace_id
    asked = erasure.person.terms, erasure.deliveries_upto, PAGE, erasure.person.pattern, erasure.asked_at
    rows = await database.fetch(_SQL["mentioned"], *place, *asked, erasure.contacts)
    ids = [row["id"] for row in rows if row["id"] is not None]
    if ids:
        await _cancel(database, [row for row in rows if row["for_them"]], erasure.actor)
        erased = int(await database.value(_SQL["erase_deliveries"], ids, True))
        erasure.deliveries += erased
        erasure.waits_for += len(ids) - erased
    if not rows or erasure.waits_for:
        return False
    erasure.deliveries_upto = rows[0]["upto"]
    return True


def _is_to_person(erasure: Erasure, row: Any) -> bool:  # noqa: ANN401 - asyncpg's record
    return address(row["channel"], row["recipient"]) in erasure.person.addresses


async def _cancel(database: Database, rows: Sequence[Any], actor: str) -> None:
    """Cancel deliveries. What is with its provider at the moment ends by itself."""
    waiting = [row["id"] for row in rows if row["status"] == "queued" and not row["marked"] and not row["held"]]
    became = await suppression.skip(database, dict.fromkeys(waiting, _REASON))
    held = [row["id"] for row in rows if row["held"]] + [one for one, life in became.items() if life == "held"]
    for one in held:
        await database.fetch(_SQL["settle"], one, actor)
