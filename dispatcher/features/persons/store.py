"""Persons: everything that is known of the one behind an address or a contact, and why it was sent."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.base.values.addresses import Address, address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.contacts import store as contacts
from dispatcher.features.persons import rules
from dispatcher.features.persons.rules import Person
from dispatcher.features.suppressions import store as suppressions

_SQL = statements(__name__)

# No time of ours comes behind it, and no number.
END = (datetime(9999, 1, 1, tzinfo=UTC), 2**62)
# A page ends behind the one that makes it longer than this.
PAGE_BYTES = 8 * 1024 * 1024
# Runs are looked through by their content, which no index has.
RUNS_AT_ONCE = 5_000
_NO_FACTS = ("upto", "mentions", "sent_to", "found")
PREFERENCES_MAX = 1_000
_FIRST = ("", "", "")

BEGIN = (0, 0)

Place = tuple[datetime, int]


class Page(Struct, frozen=True):
    """A part of a timeline, the newest first, and where the next one begins."""

    entries: Sequence[dict[str, Any]]
    behind: Place | None


async def timeline(database: Database, here: Workspace, meant: Address, before: Place, count: int) -> Page:
    """What was sent to an address, and said about it, before a place in it."""
    whose = here.tenant_id, here.workspace_id
    found = await database.fetch(_SQL["deliveries"], *whose, rules.of([meant]).forms, *before, count + 1)
    said = await database.fetch(_SQL["said"], here.tenant_id, meant.kind, meant.text, *before, count + 1)
    rows = [_delivery(row) for row in found] + [{"kind": row["action"], **row} for row in said]
    rows.sort(key=lambda row: (row["at"], row["place"]), reverse=True)
    page = rows[:count]
    more = (page[-1]["at"], page[-1]["place"]) if len(rows) > count else None
    shown = [row for row in page if row["kind"] != "delivery" or address(row["channel"], row["recipient"]) == meant]
    return Page([{name: value for name, value in row.items() if name != "place"} for row in shown], more)


def _delivery(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    raw = {name: msgspec.Raw(row[name].encode()) for name in ("attempts", "receipts", "actions")}
    return {"kind": "delivery", **row, **raw, "reason": _why(row)}


def _why(row: Any) -> str:  # noqa: ANN401 - as above
    """Who or what has ordered a delivery."""
    if row["run_id"] is None:
        return f"an application wrote it with the key {row['idempotency_key']}"
    if row["workflow"] is None:
        return f"run {row['run_id']}"
    run = f"run {row['run_id']} of the workflow {row['workflow']}"
    return f"node {row['node']} of {run}, triggered by {row['triggered_by']}"


async def find(database: Database, here: Workspace, addresses: Sequence[Address], contact: str | None) -> Person | None:
    """Whoever is behind addresses and a contact, with all that they have. None where there is no such contact."""
    found: list[dict[str, Any]] = []
    if contact is not None:
        named = await contacts.show(database, here, contact)
        if named is None:
            return None
        found.append(named)
    for one in addresses:
        found += await contacts.listed(database, here, "", 1, address=one)
    return rules.of([*addresses, *(one for row in found for one in contacts.addresses(row))])


async def facts(database: Database, here: Workspace, who: Person) -> list[dict[str, Any]]:
    """What is known of somebody but for what was sent to them: contacts, what stands on lists, and what was said."""
    found: list[dict[str, Any]] = []
    for one in who.addresses:
        shown = await contacts.listed(database, here, "", 2, address=one)
        found += [{"record": "contact", **row} for row in shown]
        what = {"kind": one.kind, "address": one.text}
        entries = await suppressions.entries(database, here.tenant_id, one)
        found += [{"record": "suppression", **what, **row} for row in entries]
        preferences = await suppressions.preferences(database, here.tenant_id, _FIRST, PREFERENCES_MAX, of=one)
        found += [{"record": "preference", **row} for row in preferences]
        said = await database.fetch(_SQL["said"], here.tenant_id, one.kind, one.text, *END, PREFERENCES_MAX)
        found += [{"record": "said", **what, **row} for row in said]
    return list({msgspec.json.encode(row): row for row in found}.values())


async def deliveries(
    database: Database, here: Workspace, who: Person, behind: int, count: int
) -> tuple[list[dict[str, Any]], int | None]:
    """What was sent to somebody, behind a number; and the number that the next ones are behind."""
    asked = here.tenant_id, here.workspace_id, who.forms, behind, count, PAGE_BYTES
    rows = await database.fetch(_SQL["written"], *asked)
    meant = [row for row in rows if address(row["channel"], row["recipient"]) in who.addresses]
    found = [
        {
            "record": "delivery",
            **{name: value for name, value in row.items() if name not in _NO_FACTS},
            **{n: msgspec.Raw(row[n].encode()) for n in ("template", "variables", "options") if row[n] is not None},
            **{n: [dict(one) for one in await database.fetch(_TRACE[n], row["id"])] for n in _TRACE},
        }
        for row in meant
    ]
    more = len(rows) > 0 and (rows[0]["found"] > len(rows) or rows[0]["found"] == count)
    return found, rows[-1]["id"] if more else None


_OF_DELIVERIES = statements("dispatcher.features.deliveries.store")
_TRACE = {name: _OF_DELIVERIES[name] for name in ("attempts", "evidence", "receipts", "actions", "captured")}


def _ordered(run: Any, who: Person) -> bool:  # noqa: ANN401 - asyncpg's record
    """Whether a run has ordered a delivery to somebody."""
    sent: list[tuple[str, str]] = msgspec.json.decode(run["sent_to"])
    return any(address(channel, recipient) in who.addresses for channel, recipient in sent)


async def runs(
    database: Database, here: Workspace, who: Person, behind: int, count: int = RUNS_AT_ONCE
) -> tuple[list[dict[str, Any]], int | None]:
    """The runs that concern somebody, of the next so many; and the number that the next ones are behind."""
    asked = here.tenant_id, here.workspace_id, who.forms, who.terms, who.pattern, behind, count, PAGE_BYTES
    rows = await database.fetch(_SQL["runs"], *asked)
    found = [
        {"record": "run", **{name: value for name, value in row.items() if name not in _NO_FACTS}}
        | {name: msgspec.Raw(row[name].encode()) for name in ("input", "state")}
        for row in rows
        if row["id"] is not None and (row["mentions"] or _ordered(row, who))
    ]
    if not rows:
        return found, None
    # The others of the page are behind it yet.
    return found, rows[-1]["id"] if rows[0]["found"] > len(rows) else rows[0]["upto"]


async def export(
    database: Database, here: Workspace, who: Person, where: tuple[int, int], count: int
) -> tuple[list[dict[str, Any]], tuple[int, int] | None]:
    """A page of everything that there is about somebody, and where the next one is; the first one is BEGIN."""
    section, behind = where
    match section:
        case 0:
            return await facts(database, here, who), (1, 0)
        case 1:
            found, last = await deliveries(database, here, who, behind, count)
            return found, (2, 0) if last is None else (1, last)
        case _:
            found, last = await runs(database, here, who, behind)
            return found, None if last is None else (2, last)
