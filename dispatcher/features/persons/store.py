"""Stored data of persons: what an address or a contact was sent and why, and all other records of it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dispatcher.base.values.addresses import Address, address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import rules
from dispatcher.features.persons.rules import Person
from dispatcher.features.suppressions import store as suppressions

_SQL = statements(__name__)

# After every time and id.
END = (datetime(9999, 1, 1, tzinfo=UTC), 2**62)
# A page ends with the record that makes it longer than this.
PAGE_BYTES = 8 * 1024 * 1024
# Runs are searched by their content, which no index has.
RUNS_AT_ONCE = 5_000
_NO_FACTS = ("upto", "mentions", "sent_to", "found")
PREFERENCES_MAX = 1_000
_FIRST = ("", "", "")

BEGIN = (0, 0)

Place = tuple[datetime, int]


async def timeline(
    database: Database, workspace: Workspace, one: Address, before: Place, count: int
) -> tuple[list[dict[str, Any]], Place | None]:
    """Return deliveries to an address and list entries about it, newest first, and where the next page begins."""
    place = workspace.tenant_id, workspace.workspace_id
    sent = await database.fetch(_SQL["deliveries"], *place, rules.person_of([one]).forms, *before, count + 1)
    said = await database.fetch(_SQL["said"], workspace.tenant_id, one.kind, one.text, *before, count + 1)
    rows = [_delivery(row) for row in sent] + [{"kind": row["action"], **row} for row in said]
    rows.sort(key=lambda row: (row["at"], row["place"]), reverse=True)
    page = rows[:count]
    more = (page[-1]["at"], page[-1]["place"]) if len(rows) > count else None
    shown = [row for row in page if row["kind"] != "delivery" or address(row["channel"], row["recipient"]) == one]
    return [{name: value for name, value in row.items() if name != "place"} for row in shown], more


def _delivery(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    raw = {name: msgspec.Raw((row[name] or "null").encode()) for name in ("attempts", "receipts", "actions", "moved")}
    return {"kind": "delivery", **row, **raw, "reason": _reason(row)}


def _reason(row: Any) -> str:  # noqa: ANN401 - as above
    """Why a delivery was sent."""
    if row["retry_of"] is not None:
        return f"an operator wrote it in place of delivery {row['retry_of']}"
    if row["run_id"] is None:
        return f"an application wrote it with the key {row['idempotency_key']}"
    if row["campaign"] is not None:
        return f"run {row['run_id']} of the campaign {row['campaign']}, deployed by {row['deployed_by']}"
    if row["workflow"] is None:
        return f"run {row['run_id']}"
    run = f"run {row['run_id']} of the workflow {row['workflow']}"
    return f"node {row['node']} of {run}, triggered by {row['triggered_by']}"


async def find(
    database: Database, workspace: Workspace, addresses: Sequence[Address], contact: str | None
) -> Person | None:
    """Return the person with these addresses and those of their contacts; None if there is no such contact."""
    found: list[dict[str, Any]] = []
    if contact is not None:
        named = await contacts.show(database, workspace, contact)
        if named is None:
            return None
        found.append(named)
    for one in addresses:
        found += await contacts.reached(database, workspace, one)
    return rules.person_of([*addresses, *(one for row in found for one in contacts.addresses(row))])


async def facts(database: Database, workspace: Workspace, person: Person) -> list[dict[str, Any]]:
    """Return all records of a person except deliveries and runs: contacts, list entries, and changes of those."""
    found: list[dict[str, Any]] = []
    tenant = workspace.tenant_id
    for one in person.addresses:
        what = {"kind": one.kind, "address": one.text}
        shown = await contacts.reached(database, workspace, one)
        entries = await suppressions.entries(database, tenant, one)
        preferences = await suppressions.preferences(database, tenant, _FIRST, PREFERENCES_MAX, of=one)
        said = await database.fetch(_SQL["said"], tenant, one.kind, one.text, *END, PREFERENCES_MAX)
        found += [{"record": "contact", **row} for row in shown]
        found += [{"record": "suppression", **what, **row} for row in entries]
        found += [{"record": "preference", **row} for row in preferences]
        found += [{"record": "said", **what, **row} for row in said]
    return list({msgspec.json.encode(row): row for row in found}.values())


async def deliveries(
    database: Database, workspace: Workspace, person: Person, after: int, count: int
) -> tuple[list[dict[str, Any]], int | None]:
    """Return deliveries to a person after an id, and the id after which the next page begins."""
    arguments = workspace.tenant_id, workspace.workspace_id, person.forms, after, count, PAGE_BYTES
    rows = await database.fetch(_SQL["written"], *arguments)
    found = [
        {
            "record": "delivery",
            **{name: value for name, value in row.items() if name not in _NO_FACTS},
            **{n: msgspec.Raw(row[n].encode()) for n in ("template", "variables", "options") if row[n] is not None},
            **{n: [dict(one) for one in await database.fetch(_TRACE[n], row["id"])] for n in _TRACE},
        }
        for row in rows
        if address(row["channel"], row["recipient"]) in person.addresses
    ]
    more = len(rows) > 0 and (rows[0]["found"] > len(rows) or rows[0]["found"] == count)
    return found, rows[-1]["id"] if more else None


_OF_DELIVERIES = statements("dispatcher.features.deliveries.store")
_TRACE = {name: _OF_DELIVERIES[name] for name in ("attempts", "evidence", "receipts", "actions", "captured")}


def _sent_to(run: Any, person: Person) -> bool:  # noqa: ANN401 - asyncpg's record
    """Whether a run has sent a delivery to a person."""
    sent: list[tuple[str, str]] = msgspec.json.decode(run["sent_to"])
    return any(address(channel, recipient) in person.addresses for channel, recipient in sent)


async def runs(
    database: Database, workspace: Workspace, person: Person, after: int, count: int = RUNS_AT_ONCE
) -> tuple[list[dict[str, Any]], int | None]:
    """Return the runs about a person among the next so many, and the id after which the next page begins."""
    place, search = (workspace.tenant_id, workspace.workspace_id), (person.forms, person.terms, person.pattern)
    rows = await database.fetch(_SQL["runs"], *place, *search, after, count, PAGE_BYTES)
    found = [
        {"record": "run", **{name: value for name, value in row.items() if name not in _NO_FACTS}}
        | {name: msgspec.Raw(row[name].encode()) for name in ("input", "state")}
        for row in rows
        if row["id"] is not None and (row["mentions"] or _sent_to(row, person))
    ]
    if not rows:
        return found, None
    return found, rows[-1]["id"] if rows[0]["found"] > len(rows) else rows[0]["upto"]


async def export(
    database: Database, workspace: Workspace, person: Person, place: tuple[int, int], count: int
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """Return a page of all records of a person, and the place of the next page; the first page is at BEGIN."""
    section, after = place
    if section == 0:
        return await facts(database, workspace, person), (1, 0)
    if section == 1:
        found, last = await deliveries(database, workspace, person, after, count)
        return found, (2, 0) if last is None else (1, last)
    found, last = await runs(database, workspace, person, after)
    return found, None if last is None else (2, last)
