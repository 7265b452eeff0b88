"""Persons: the timeline of an address, and everything there is about somebody, wherever it stands."""

import json
from typing import Any

import msgspec
import pytest

from dispatcher.base.values.addresses import Address
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.db.tenants import Transaction
from dispatcher.engine.store import suppression
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from dispatcher.features.persons import rules, store
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.features.contacts.test_store import HERE, THERE, put
from tests.support import flows
from tests.support.scene import Connection, Scene

ANN = Address("email", "ann@example.org")
MAIL = '{"subject": "Hello {{ name }}", "text": "Hi"}'


async def write(database: Database, key: str, recipient: str = "Ann@Example.org", **fields: Any) -> int:
    """A mail."""
    new = New(idempotency_key=key, channel="email", recipient=recipient, template=MAIL, **fields)
    return (await deliveries.insert(database, [new]))[0].id


async def entries(database: Database, count: int = 2) -> list[dict[str, Any]]:
    """The whole timeline, page by page."""
    found: list[dict[str, Any]] = []
    before: store.Place | None = store.END
    while before is not None:
        entries, before = await store.timeline(database, HERE, ANN, before, count)
        found += entries
    return found


async def export(database: Database, who: rules.Person) -> list[dict[str, Any]]:
    """All that there is, as JSON says it."""
    found: list[dict[str, Any]] = []
    where: tuple[int, int] | None = store.BEGIN
    while where is not None:
        page, where = await store.export(database, HERE, who, where, 1)
        found += page
    decoded: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(found))
    return decoded


async def test_a_timeline_has_every_message_and_what_was_said_in_the_order_of_time(scene: Scene) -> None:
    database = scene.database
    written = [await write(database, f"k{number}") for number in range(3)]
    # They only look alike: the index does not know of dots.
    await write(database, "other", "an.n@example.org")
    await write(database, "elsewhere", workspace_id="other")
    await suppressions.add(database, "default", "bob", [Entry(ANN, "operator", "asked")])
    # What another tenant was told is its own.
    await suppressions.add(database, "acme", "bob", [Entry(ANN, "operator", "asked there")])
    while await suppression.catch_up(database, 100):
        pass
    await suppressions.release(database, "default", [ANN], "bob", "asked again")
    last = await write(database, "k3", "<ann@example.org>")
    found = await entries(database)
    assert [(one["kind"], one["id"]) for one in found if one["kind"] == "delivery"] == [
        ("delivery", number) for number in [last, *reversed(written)]
    ]
    assert [one["kind"] for one in found] == ["delivery", "release", "suppress", *["delivery"] * 3]
    assert (found[3]["life"], found[3]["error"]) == ("skipped", "suppressed: operator: asked")
    assert found[0]["reason"] == "an application wrote it with the key k3"
    assert found[1]["actor"] == "bob"
    assert await entries(database, 500) == found


async def test_a_timeline_says_what_a_repaired_delivery_stands_for(scene: Scene) -> None:
    number = await write(scene.database, "lacking")
    await deliveries.cancel(scene.database, number, "bob", "it had no name")
    await deliveries.repair(scene.database, number, b'{"name": "Ann"}', "bob", "it had no name")
    new, origin = await entries(scene.database)
    assert (new["retry_of"], new["reason"]) == (number, f"an operator wrote it in place of delivery {number}")
    assert (origin["id"], origin["retry_of"]) == (number, None)


async def test_an_export_has_everything_of_one_person_and_nothing_of_another(scene: Scene) -> None:
    database = scene.database
    await put(database, "alf", addresses=[{"address": "an.n@example.org"}])
    await put(database, "ann", name="Ann Lee", addresses=[{"address": "ann@example.org"}, {"address": "+4917012345"}])
    await write(database, "mail", variables='{"name": "Ann"}')
    await write(database, "other", "an.n@example.org")
    await scene.write(1)
    for tenant in ("default", "acme"):
        await suppressions.add(database, tenant, "bob", [Entry(ANN, "unsubscribe", f"by a link of {tenant}")])
    await suppressions.prefer(database, "acme", [ANN], "news", False, "bob", "x")
    mentions, _ = [
        await database.value(
            """INSERT INTO dispatcher.runs
                      (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, input)
               VALUES (1, 1, 'default', 'default', 'w', 'me', $1) RETURNING id""",
            input_,
        )
        for input_ in ('{"mail": "ANN@example.org"}', '{"mail": "joann@example.org", "x": "ann@example.org.uk"}')
    ]
    who = await store.find(database, HERE, [], "ann")
    assert who is not None
    found = await export(database, who)
    kinds = [one["record"] for one in found]
    assert kinds == ["contact", "suppression", "said", "delivery", "delivery", "run"]
    assert [one["variables"] for one in found if one["record"] == "delivery"] == [{"name": "Ann"}, {}]
    assert [one["id"] for one in found if one["record"] == "run"] == [mentions]
    assert [one["key"] for one in found if one["record"] == "contact"] == ["ann"]
    assert await store.find(database, THERE, [], "ann") is None


async def test_a_page_of_an_export_ends_when_it_is_full(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    database = scene.database
    monkeypatch.setattr(store, "PAGE_BYTES", 1_500)
    said = json.dumps({"mail": "ann@example.org", "x": "x" * 1_000})
    for number in range(5):
        await write(database, f"k{number}", variables=said)
        await database.value(
            """INSERT INTO dispatcher.runs
                      (workflow_id, version_id, tenant_id, workspace_id, workflow, triggered_by, input)
               VALUES (1, 1, 'default', 'default', $1, 'me', $2) RETURNING id""",
            f"w{number}",
            said,
        )
    where: tuple[int, int] | None = store.BEGIN
    pages: list[list[str]] = []
    while where is not None:
        page, where = await store.export(database, HERE, rules.person_of([ANN]), where, 4)
        pages.append([one.get("idempotency_key") or one["workflow"] for one in page])
    keys, runs = ([f"{letter}{number}" for number in range(5)] for letter in "kw")
    assert pages == [[], keys[:2], keys[2:4], keys[4:], runs[:2], runs[2:4], runs[4:], []]


class Explaining(Transaction):
    """Counts the pages that its statements read."""

    pages = 0

    async def fetch(self, query: str, *arguments: object) -> Any:
        (found,) = await super().fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", *arguments)
        plan = json.loads(found[0])[0]["Plan"]
        self.pages += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        return await super().fetch(query, *arguments)


async def test_the_timeline_of_a_person_uses_the_index(scene: Scene) -> None:
    database = scene.database
    await database.value(
        """WITH others AS (
               INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
               SELECT 'f' || n, 'email', n || '@example.org', '{"text": "x"}' FROM generate_series(1, 30000) AS n
               RETURNING id)
           SELECT count(*) FROM others"""
    )
    await database.fetch("ANALYZE dispatcher.deliveries")
    written = [await write(database, f"k{number}") for number in range(3)]
    async with tenants.transaction(database, HERE) as inside, inside.connection() as connection:
        request = Explaining(connection)
        entries, _ = await store.timeline(request, HERE, ANN, store.END, 10)
        assert [one["id"] for one in entries] == written[::-1]
        found, _ = await store.deliveries(request, HERE, rules.person_of([ANN]), 0, 10)
        assert [one["id"] for one in found] == written
        assert request.pages < 300


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ('{"a": "ann@example.org"}', True),
        ("to ann@example.org, and", True),
        ("ann@example.org.", True),
        (r"a\nann@example.org", True),
        ("joann@example.org", False),
        ("an.ann@example.org", False),
        ("ann@example.org.uk", False),
        ("ann@example.orgs", False),
    ],
)
async def test_a_text_that_has_the_address_in_another_one_does_not_speak_of_it(
    database: Database, text: str, speaks: bool
) -> None:
    assert await database.value("SELECT $1 ~ $2", text, rules.person_of([ANN]).pattern) is speaks


@pytest.mark.parametrize(
    ("text", "speaks"),
    [
        ("+4917012345", True),
        ("004917012345", True),
        ('{"phone": "+49 170 123-45"}', True),
        ("call +49 (0) 170/12345, please", True),
        ("tel:+49.170\u00a012345.", True),
        ("0049 170 12345", True),
        ("+49 170 12345 67", False),
        ("+49 170 123456", False),
        ("+49 171 12345", False),
        ("1+49 170 12345", False),
    ],
)
async def test_a_text_speaks_of_a_number_however_that_is_written(
    database: Database, connection: Connection, text: str, speaks: bool
) -> None:
    who = rules.person_of([Address("phone", "+4917012345")])
    assert await database.value("SELECT $1 ~ $2", text, who.pattern) is speaks
    await flows.put(connection)
    run = (await flows.trigger(connection, {"said": text}))["execution_id"]
    found, _ = await store.runs(database, HERE, who, 0)
    assert [one["id"] for one in found] == ([run] if speaks else [])
