"""Stored contacts: writing, finding and deleting them."""

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault
from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.refusals import faults
from dispatcher.db.statements import statements
from dispatcher.features.contacts.models import AudienceMember
from dispatcher.features.contacts.rules import ContactInput, contact_address

_SQL = statements(__name__)

# A filter looks at so many contacts before it answers with what it has found so far.
LOOKED_MAX = 5_000

# create: there must be none with the key; update: there must be one; put: fields that are not given become empty.
Mode = Literal["create", "update", "upsert", "put"]
Answer = Literal["created", "changed", "same", "exists", "unknown", "stale", "taken", "large"]

_WORDS = {
    "exists": "there is a contact with this key",
    "unknown": "there is no contact with this key",
    "stale": "it has been changed meanwhile",
    "large": "its attributes would be too large: Postgres writes them with over 32768 bytes",
}


class PutResult(Struct, frozen=True):
    """The result of writing a contact; `taken` is the address that belongs to another contact."""

    answer: Answer
    id: int | None
    version: int | None
    taken: str | None = None

    @property
    def fault(self) -> Fault | None:
        """Why nothing was written, or None."""
        if self.taken:
            return Fault("$.addresses", f"the address {self.taken} is another contact's")
        words = _WORDS.get(self.answer)
        return None if words is None else Fault("$.attributes" if self.answer == "large" else "$", words)


async def put(
    database: Database,
    here: Workspace,
    contacts: Sequence[ContactInput],
    mode: Mode,
    actor: str,
    version: int | None = None,
) -> list[PutResult]:
    """Write contacts, each by itself; returns the result of each."""
    # In one order, so that two writers of the same contacts do not deadlock.
    order = sorted(range(len(contacts)), key=lambda number: contacts[number].key)
    rows = await database.fetch(
        _SQL["put"],
        here.tenant_id,
        here.workspace_id,
        [contacts[number].key for number in order],
        [json.dumps(contacts[number].fields, ensure_ascii=False) for number in order],
        mode,
        version,
        actor,
    )
    results = {number: PutResult(*row[1:5]) for number, row in zip(order, rows, strict=True)}
    return [results[number] for number in range(len(contacts))]


async def show(database: Database, here: Workspace, key: str) -> dict[str, Any] | None:
    """Return a contact by its key, or None."""
    rows = await database.fetch(_SQL["show"], here.tenant_id, here.workspace_id, key)
    return _shown(rows[0]) if rows else None


async def listed(
    database: Database,
    here: Workspace,
    behind: str,
    count: int,
    *,
    name: str | None = None,
    company: str | None = None,
    status: str | None = None,
    tag: str | None = None,
) -> tuple[list[dict[str, Any]], str | None]:
    """Return contacts in the order of their keys, after a key.

    With a key behind which the search goes on, where it has looked at as many as it may.
    """
    looked = max(LOOKED_MAX if any((name, company, status, tag)) else count, count)
    asked = behind, name, company, status, tag, count, looked
    rows = await database.fetch(_SQL["search"], here.tenant_id, here.workspace_id, *asked)
    ids = [row["id"] for row in rows if row["matches"]]
    ends = [row["key"] for row in rows if not row["matches"]]
    found = await database.fetch(_SQL["list"], here.tenant_id, here.workspace_id, behind, ids, None, None, None)
    return [_shown(row) for row in found], ends[0] if ends and len(ids) < count else None


async def reached(
    database: Database,
    here: Workspace,
    address: Address,
    *,
    behind: str = "",
    company: str | None = None,
    status: str | None = None,
    tag: str | None = None,
) -> list[dict[str, Any]]:
    """Return the contact with an address, if it matches."""
    contact_id = await by_address(database, here, address)
    ids = [] if contact_id is None else [contact_id]
    asked = here.tenant_id, here.workspace_id, behind, ids, company, status, tag
    return [_shown(row) for row in await database.fetch(_SQL["list"], *asked)]


async def by_address(database: Database, here: Workspace, address: Address) -> int | None:
    """Return the id of the contact with an address."""
    kinds = ["push", "chat", "social"] if address.kind == "other" else [address.kind]
    found = await database.value(_SQL["by_address"], here.tenant_id, here.workspace_id, kinds, address.text)
    return None if found is None else int(found)


def addresses(shown: dict[str, Any]) -> list[Address]:
    """Return the addresses of a contact, as they are compared."""
    found: list[dict[str, Any]] = msgspec.json.decode(shown["addresses"])
    return [contact_address(one["kind"], one["address"])[0] for one in found]


async def delete(database: Database, here: Workspace, key: str, version: int | None = None) -> Answer | None:
    """Delete a contact; None where that is done. Deliveries to it stay."""
    rows = await database.fetch(_SQL["delete"], here.tenant_id, here.workspace_id, key, version)
    if not rows:
        return "unknown"
    return None if rows[0]["gone"] else "stale"


async def audience_faults(database: Database, here: Workspace, path: str, said: str) -> list[Fault]:
    """Return the faults of an audience (JSON) that stands at a path: of its form, or contacts that do not exist."""
    return faults(await database.value(_SQL["audience_faults"], here.tenant_id, here.workspace_id, path, said))


async def audience_counts(database: Database, here: Workspace, said: Sequence[str], most: int) -> list[int]:
    """Return how many contacts each of these audiences has, counted up to `most`."""
    rows = await database.fetch(_SQL["audience_counts"], here.tenant_id, here.workspace_id, said, most)
    return [row["count"] for row in rows]


async def audience_sample(database: Database, here: Workspace, said: str, count: int) -> list[AudienceMember]:
    """Return some contacts of an audience."""
    rows = await database.fetch(_SQL["audience_sample"], here.tenant_id, here.workspace_id, said, count)
    return [AudienceMember(*row) for row in rows]


def _shown(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    raw = {name: msgspec.Raw(row[name].encode()) for name in ("attributes", "addresses")}
    return {**row, **raw}
