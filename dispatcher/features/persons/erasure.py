"""Erasures: a person is taken out of a workspace page by page, each in its own transaction, by whoever comes by."""

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
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import rules
from dispatcher.features.persons import store as person_store
from dispatcher.features.persons.rules import Person

_SQL = statements(__name__)

# Each is read whole, or as far as its text goes; a page is some 100 ms of a server's time at most.
PAGE = 2_000
# An erasure that waits for what is with a provider is looked at again so much later.
LOOK_SECONDS = 5.0
_REASON = "erased"

_decode = msgspec.json.Decoder(list[Address]).decode


class Erasure(Struct):
    """One under way: whom it takes away from where, and how far it has come."""

    id: int
    here: Workspace
    actor: str
    asked_at: datetime
    who: Person
    deliveries_upto: int
    runs_upto: int
    deliveries: int = 0
    runs: int = 0
    waits_for: int = 0


class Looked(Struct, frozen=True):
    """What one look has come to: what was erased, and what is waited for. It is done, where it is finished."""

    id: int
    deliveries: int
    runs: int
    waits_for: int
    finished: bool


def subject(one: Address) -> str:
    """What stays of an address."""
    return "sha256:" + hashlib.sha256(one.text.encode()).hexdigest()


async def ask(
    database: Database, here: Workspace, who: Person, actor: str, reason: str, contact: str | None = None
) -> int:
    """Write down that a person is to be erased, and delete their contact; answers the number of the erasure."""
    addresses = msgspec.json.encode(who.addresses).decode()
    subjects = [subject(one) for one in who.addresses]
    place = here.tenant_id, here.workspace_id
    number = int(await database.value(_SQL["ask"], *place, actor, reason, subjects, addresses))
    if contact is not None:
        await contacts.delete(database, here, contact)
    return number


async def workspaces(database: Database, tenant_id: str) -> list[Workspace]:
    """Where a tenant has anything."""
    return [Workspace(tenant_id, row[0]) for row in await database.fetch(_SQL["workspaces"], tenant_id)]


async def listed(
    database: Database, here: Workspace, below: int, count: int, number: int | None = None
) -> list[dict[str, Any]]:
    """Erasures of a workspace, the newest first, or one of them."""
    asked = here.tenant_id, here.workspace_id, below, number, count
    return [dict(row) for row in await database.fetch(_SQL["list"], *asked)]


async def look(database: Database, number: int | None = None, pages: int | None = None) -> Looked | None:
    """Go on with one that is open, so many pages far at most; None where there is none to go on with."""
    rows = await database.fetch(_SQL["open"], number, LOOK_SECONDS)
    if not rows:
        return None
    row = rows[0]
    who = rules.of(_decode(row["addresses"]))
    here = Workspace(row["tenant_id"], row["workspace_id"])
    upto = row["deliveries_upto"], row["runs_upto"]
    erasure = Erasure(row["id"], here, row["actor"], row["asked_at"], who, *upto)
    finished = not who.addresses or await _erase(database, erasure, pages)
    counts = erasure.deliveries, erasure.runs
    await database.fetch(
        _SQL["progress"],
        erasure.id,
        *counts,
        erasure.deliveries_upto,
        erasure.runs_upto,
        erasure.waits_for,
        finished,
    )
    return Looked(erasure.id, *counts, erasure.waits_for, finished)


async def _erase(database: Database, erasure: Erasure, pages: int | None) -> bool:
    """Whether there is nothing left, and nothing to wait for."""
    await database.fetch(_SQL["arm"])
    place = erasure.here.tenant_id, erasure.here.workspace_id
    kinds, texts = [one.kind for one in erasure.who.addresses], [one.text for one in erasure.who.addresses]
    await database.fetch(_SQL["contacts"], *place, kinds, texts, erasure.asked_at)
    await database.fetch(_SQL["suppressions"], erasure.here.tenant_id, kinds, texts)
    await _stop(database, erasure)
    # Runs first: their deliveries tell which they are, as long as those say to whom they went.
    for page, after in ((_runs, _sent), (_mentions, None)):
        while await page(database, erasure):
            if pages is not None:
                pages -= 1
                if pages < 0:
                    return False
        if erasure.waits_for:
            return False
        if after is not None:
            await after(database, erasure)
    await database.fetch(_SQL["receipts"], erasure.who.terms, erasure.who.pattern, *place, erasure.who.forms)
    await database.fetch(_SQL["answers"], *place, erasure.who.terms, erasure.who.pattern)
    return True


async def _runs(database: Database, erasure: Erasure) -> bool:
    """Erase the runs of a page, with all that they have ordered. False behind the last, or where one goes on."""
    found, last = await person_store.runs(database, erasure.here, erasure.who, erasure.runs_upto, PAGE)
    before = await database.fetch(_SQL["before"], [one["id"] for one in found], erasure.asked_at)
    ids = [row["id"] for row in before]
    if ids:
        await database.fetch(_SQL["cancel_run"], ids, erasure.actor)
        rows = await database.fetch(_SQL["of_runs"], ids)
        await _end(database, rows, erasure.actor)
        rows = await database.fetch(_SQL["of_runs"], ids)
        unfinished = {row["run_id"] for row in rows if row["status"] == "queued"}
        done = [one for one in ids if one not in unfinished]
        theirs: list[int] = []
        others: list[int] = []
        for row in rows:
            if row["run_id"] not in unfinished:
                (theirs if _is_theirs(erasure, row) else others).append(row["id"])
        erased = (await database.fetch(_SQL["erase_runs"], done, theirs, others))[0]
        erasure.runs += erased["runs"]
        erasure.deliveries += erased["deliveries"]
        erasure.waits_for += sum(row["status"] == "queued" for row in rows)
    if last is None or erasure.waits_for:
        return False
    erasure.runs_upto = last
    return True


async def _theirs(database: Database, erasure: Erasure) -> AsyncIterator[list[Any]]:
    """What was sent to them, page by page. What is erased is not found again."""
    place = erasure.here.tenant_id, erasure.here.workspace_id
    behind: int | None = 0
    while behind is not None:
        rows = await database.fetch(_SQL["sent"], *place, erasure.who.forms, behind, erasure.asked_at, PAGE)
        yield [row for row in rows if _is_theirs(erasure, row)]
        behind = rows[-1]["id"] if len(rows) == PAGE else None


async def _stop(database: Database, erasure: Erasure) -> None:
    """Let nothing more go out to them: their runs first, which would order something else in its place."""
    async for rows in _theirs(database, erasure):
        runs = {row["run_id"] for row in rows if row["run_id"] is not None and row["status"] == "queued"}
        if runs:
            await database.fetch(_SQL["cancel_run"], sorted(runs), erasure.actor)
        await _end(database, rows, erasure.actor)


async def _sent(database: Database, erasure: Erasure) -> None:
    """Erase what was sent to them, and what is to be told of it: what was told is a delivery, and comes next."""
    async for rows in _theirs(database, erasure):
        erased = int(await database.value(_SQL["erase_deliveries"], [row["id"] for row in rows], False))
        erasure.deliveries += erased
        erasure.waits_for += len(rows) - erased
    await database.fetch(_SQL["untold"], erasure.here.tenant_id, erasure.here.workspace_id)


async def _mentions(database: Database, erasure: Erasure) -> bool:
    """Erase what others were told of them, once it is finished. False behind the last."""
    asked = erasure.who.terms, erasure.deliveries_upto, PAGE, erasure.who.pattern, erasure.asked_at
    rows = await database.fetch(_SQL["mentioned"], erasure.here.tenant_id, erasure.here.workspace_id, *asked)
    ids = [row["id"] for row in rows if row["id"] is not None]
    if ids:
        erased = int(await database.value(_SQL["erase_deliveries"], ids, True))
        erasure.deliveries += erased
        erasure.waits_for += len(ids) - erased
    if not rows or erasure.waits_for:
        return False
    erasure.deliveries_upto = rows[0]["upto"]
    return True


def _is_theirs(erasure: Erasure, row: Any) -> bool:  # noqa: ANN401 - asyncpg's record
    return address(row["channel"], row["recipient"]) in erasure.who.addresses


async def _end(database: Database, rows: Sequence[Any], actor: str) -> None:
    """Let nothing more of these go out. What is with its provider just now is left to end by itself."""
    waiting = [row["id"] for row in rows if row["status"] == "queued" and not row["marked"] and not row["held"]]
    became = await suppression.skip(database, dict.fromkeys(waiting, _REASON))
    held = [row["id"] for row in rows if row["held"]] + [one for one, life in became.items() if life == "held"]
    for one in held:
        await database.fetch(_SQL["settle"], one, actor)
