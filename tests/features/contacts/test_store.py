"""Contacts in the database: one by its key, one behind an address, whoever writes at the same time."""

import asyncio
import json
from typing import Any

import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.contacts import store
from dispatcher.features.contacts.rules import ContactInput, read
from dispatcher.features.contacts.store import Mode, PutResult
from tests.support.explained import explained
from tests.support.scene import Connection
from tests.support.waits import until_blocked

HERE = Workspace("default", "default")
THERE = Workspace("default", "other")


def said(key: str, *, whole: bool = False, **fields: Any) -> ContactInput:
    """The sound fields of a contact."""
    found = read(fields, key=key, whole=whole)
    assert isinstance(found, ContactInput), found
    return found


async def put(
    database: Database, key: str, mode: Mode = "upsert", version: int | None = None, **fields: Any
) -> PutResult:
    """Write one."""
    contact = said(key, whole=mode in ("put", "create"), **fields)
    return (await store.put(database, HERE, [contact], mode, "ann", version))[0]


async def _shown(database: Database, key: str) -> dict[str, Any]:
    found = await store.show(database, HERE, key)
    assert found is not None
    return found


def _mail(*texts: str) -> list[dict[str, str]]:
    return [{"kind": "email", "address": text} for text in texts]


async def test_each_import_mode_has_its_effect(database: Database) -> None:
    assert (await put(database, "a", "update", name="x")).answer == "unknown"
    assert (await put(database, "a", "create", name="Ann", tags=["x"])).answer == "created"
    assert (await put(database, "a", "create")).answer == "exists"
    assert (await put(database, "a", "upsert", name="Ann")) == PutResult("same", (await _shown(database, "a"))["id"], 1)
    changed = await put(database, "a", "update", company="Lee", attributes={"plan": "gold", "old": 1})
    assert (changed.answer, changed.version) == ("changed", 2)
    await put(database, "a", "upsert", attributes={"old": None, "new": {"deep": None}})
    row = await _shown(database, "a")
    assert (row["name"], row["company"], row["tags"], row["status"]) == ("Ann", "Lee", ["x"], "active")
    assert bytes(row["attributes"]) == b'{"new": {"deep": null}, "plan": "gold"}'
    assert (await put(database, "a", "put", company="Lee")).answer == "changed"
    row = await _shown(database, "a")
    assert (row["name"], row["company"], row["tags"], bytes(row["attributes"])) == (None, "Lee", [], b"{}")
    assert row["updated_by"] == "ann"


async def test_another_version_than_the_one_that_was_seen_changes_nothing(database: Database) -> None:
    await put(database, "a", name="Ann")
    assert (await put(database, "a", "put", 7, name="Bob")).answer == "stale"
    assert (await put(database, "b", "put", 1, name="Bob")).answer == "unknown"
    assert (await put(database, "a", "put", 1, name="Bob")).version == 2
    assert await store.delete(database, HERE, "a", 1) == "stale"
    assert await store.delete(database, HERE, "a", 2) is None
    assert await store.delete(database, HERE, "a") == "unknown"


async def test_an_address_leads_to_one_contact_of_a_workspace(database: Database) -> None:
    await put(database, "a", name="Ann", addresses=_mail("ann@example.org", "ann@work.example"))
    refused = await put(database, "b", name="Bob", addresses=_mail("bob@example.org", "ANN@Example.org"))
    assert (refused.answer, refused.taken) == ("taken", "email ann@example.org")
    assert await store.show(database, HERE, "b") is None
    await put(database, "b", name="Bob", addresses=_mail("bob@example.org"))
    refused = await put(database, "b", name="Bo", addresses=_mail("bo@example.org", "ann@example.org"))
    assert refused.answer == "taken"
    row = await _shown(database, "b")
    assert (row["name"], row["version"], bytes(row["addresses"])) == (
        "Bob",
        1,
        b'[{"kind": "email", "address": "bob@example.org"}]',
    )
    assert await store.by_address(database, HERE, Address("email", "bo@example.org")) is None
    # In another workspace it is anybody's; and here again, once it is free.
    (elsewhere,) = await store.put(database, THERE, [said("a", addresses=_mail("ann@example.org"))], "upsert", "ann")
    assert elsewhere.answer == "created"
    await put(database, "a", addresses=_mail("ann@work.example"))
    assert (await put(database, "b", addresses=_mail("ann@example.org"))).answer == "changed"


async def test_the_order_of_addresses_and_how_they_are_written_are_kept(database: Database) -> None:
    await put(database, "a", addresses=_mail("one@example.org", "two@example.org"))
    assert (await put(database, "a", addresses=_mail("Two@example.org", "one@example.org"))).answer == "changed"
    assert bytes((await _shown(database, "a"))["addresses"]) == (
        b'[{"kind": "email", "address": "Two@example.org"}, {"kind": "email", "address": "one@example.org"}]'
    )
    assert (await put(database, "a", addresses=_mail("Two@example.org", "one@example.org"))).answer == "same"


async def test_of_two_that_have_seen_the_same_version_the_second_changes_nothing(
    database: Database, connection: Connection
) -> None:
    first = await put(database, "ann", name="Ann")
    change = """SELECT answer FROM dispatcher.put_contact(
                    'default', 'default', 'ann', '{"name": "Anna"}', 'update', $1, 'bob')"""
    async with connection.transaction():
        assert await connection.fetchval(change, first.version) == "changed"
        rival = asyncio.create_task(put(database, "ann", "update", first.version, name="Anne"))
        await until_blocked(connection)
    assert (await rival).answer == "stale"
    assert (await _shown(database, "ann"))["name"] == "Anna"


async def test_where_one_address_is_taken_none_of_the_others_is_written(database: Database) -> None:
    await put(database, "bob", addresses=_mail("bob@example.org"))
    await put(database, "ann", addresses=_mail("ann@example.org"))
    assert (await put(database, "ann", addresses=_mail("ada@example.org", "bob@example.org"))).answer == "taken"
    assert json.loads(bytes((await _shown(database, "ann"))["addresses"])) == _mail("ann@example.org")
    assert await store.by_address(database, HERE, Address("email", "ada@example.org")) is None


async def test_a_contact_deleted_in_one_workspace_stays_in_another(database: Database) -> None:
    for place in (HERE, THERE):
        await store.put(database, place, [said("ann")], "put", "bob")
    assert await store.delete(database, HERE, "ann") is None
    assert await store.show(database, HERE, "ann") is None
    assert await store.show(database, THERE, "ann") is not None


async def test_attributes_that_postgres_would_write_too_long_are_refused(database: Database) -> None:
    long = {"x": [1e300] * 200}
    assert (await put(database, "a", attributes=long)).answer == "large"
    await put(database, "a", name="Ann")
    assert (await put(database, "a", addresses=_mail("ann@example.org"), attributes=long)).answer == "large"
    assert bytes((await _shown(database, "a"))["addresses"]) == b"[]"


async def test_of_two_that_write_the_same_at_once_one_creates_it(database: Database) -> None:
    batch = [said(f"k{n}", addresses=_mail(f"{n}@example.org")) for n in range(50)]
    writing = (store.put(database, HERE, one, "upsert", "ann") for one in (batch, batch[::-1]))
    first, second = await asyncio.gather(*writing)
    answers = [sorted((a.answer, b.answer)) for a, b in zip(first, reversed(second), strict=True)]
    assert answers == [["created", "same"]] * 50


async def test_lists_are_filtered_and_paged_by_key(database: Database) -> None:
    batch = [
        said(f"c{n:02}", company="Lee" if n % 2 else "Poe", status="lead" if n % 3 else "customer", tags=[f"t{n % 5}"])
        for n in range(20)
    ]
    await store.put(database, HERE, batch, "upsert", "ann")
    await put(database, "x", addresses=[{"kind": "push", "address": "token-1"}])
    rows, end = await store.listed(database, HERE, "c03", 3)
    assert ([row["key"] for row in rows], end) == (["c04", "c05", "c06"], None)
    leads, end = await store.listed(database, HERE, "", 50, company="Lee", status="lead", tag="t1")
    assert ([row["key"] for row in leads], end) == (["c01", "c11"], None)
    assert [row["key"] for row in await store.reached(database, HERE, Address("other", "token-1"))] == ["x"]
    assert await store.reached(database, HERE, Address("email", "no@example.org")) == []
    assert await store.listed(database, THERE, "", 50) == ([], None)


async def test_a_name_is_found_by_its_words_among_those_of_its_workspace(database: Database) -> None:
    names = {"c1": "Ann-Marie Larsen", "c2": "Ann Lee", "c3": "Larsen", "c4": None}
    await store.put(database, HERE, [said(key, name=name) for key, name in names.items()], "upsert", "ann")
    await store.put(database, THERE, [said("other", name="Ann Larsen")], "upsert", "ann")

    async def keys(name: str) -> list[str]:
        return [row["key"] for row in (await store.listed(database, HERE, "", 50, name=name))[0]]

    assert await keys("lars") == ["c1", "c3"]
    assert await keys("LARSEN ann") == ["c1"]
    assert await keys("ann") == ["c1", "c2"]
    assert await keys("'); --") == []


async def test_a_filter_that_matches_many_looks_at_some_and_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LOOKED_MAX", 4)
    batch = [said(f"c{n:02}", status="lead" if n == 9 else "active", tags=["all"]) for n in range(12)]
    await store.put(database, HERE, batch, "upsert", "ann")
    found, behind, ends = list[str](), "", list[str]()
    for _ in range(4):
        rows, end = await store.listed(database, HERE, behind, 4, status="lead", tag="all")
        found += [row["key"] for row in rows]
        if end is None:
            break
        ends.append(end)
        behind = end
    assert (found, ends) == (["c09"], ["c03", "c07", "c11"])


@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("company = $1", "contacts_company"),
        ("status = $1", "contacts_status"),
        ("tags @> ARRAY[$1::text]", "contacts_tags"),
    ],
)
async def test_filters_have_their_indexes(connection: Connection, where: str, index: str) -> None:
    await connection.execute("SET enable_seqscan = off")
    whose = "tenant_id = 'a' AND workspace_id = 'b'" if index != "contacts_tags" else "true"
    found = await explained(connection, (f"SELECT id FROM dispatcher.contacts WHERE {whose} AND {where}", ("x",)))
    assert index in found
