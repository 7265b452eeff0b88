"""Stored templates: versions that never change, and deliveries that are frozen to one as they are inserted."""

import asyncio
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.base.errors import TemplateRefused
from dispatcher.base.values.locales import nearest
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.templates import store as templates
from dispatcher.liquid.template import Sources
from tests.features.templates.support import HERE, draft, save, version
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

NAMED = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name)
           VALUES ($1, $2, '+4917012345', $3)"""
GERMAN = {"en": {"body": "Hello"}, "de": {"body": "Hallo"}, "pt-BR": {"body": "Oi"}}


async def _row(connection: Connection, key: str) -> Any:
    (row,) = await connection.fetch("SELECT * FROM dispatcher.channel_outbox WHERE idempotency_key = $1", key)
    return row


async def test_a_changed_save_makes_a_version_and_an_equal_one_does_not(database: Database) -> None:
    first = await save(database, draft(), publish=False)
    again = await save(database, draft(), publish=False)
    other = await save(database, draft(body="Good day {{ title }}"), publish=False)
    back = await save(database, draft(), publish=False)
    assert [(one.number, one.created) for one in (first, again, other, back)] == [
        (1, True),
        (1, False),
        (2, True),
        (3, True),
    ]
    found = (await templates.find(database, HERE, ["welcome"], "2"))["welcome"]
    assert (found.version, found.latest, found.published, found.author) == (2, 3, None, "ann")
    assert found.variables == ("title",)
    assert found.draft == draft(body="Good day {{ title }}")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE dispatcher.template_versions SET author = 'x'",
        "UPDATE dispatcher.template_versions SET sources = sources",
        "DELETE FROM dispatcher.template_versions",
        "TRUNCATE dispatcher.template_versions CASCADE",
        "UPDATE dispatcher.templates SET name = 'x'",
        "UPDATE dispatcher.templates SET channel = 'email'",
        "UPDATE dispatcher.templates SET tenant_id = 'x'",
    ],
)
async def test_the_content_of_a_version_never_changes(database: Database, connection: Connection, change: str) -> None:
    await save(database, draft())
    with pytest.raises(asyncpg.ObjectNotInPrerequisiteStateError, match="immutable"):
        await connection.execute(change)


async def test_a_template_with_versions_cannot_be_deleted(database: Database, connection: Connection) -> None:
    await save(database, draft())
    with pytest.raises(asyncpg.ForeignKeyViolationError):
        await connection.execute("DELETE FROM dispatcher.templates")


async def test_a_name_keeps_its_channel_and_what_is_refused_is_refused_whole(database: Database) -> None:
    await save(database, draft("b"))
    both = [draft("a"), draft("b", channel="push")]
    with pytest.raises(TemplateRefused, match="'b' is for sms, and stays that"):
        await templates.put(database, HERE, [(one, await version(database, one)) for one in both], "ann", publish=True)
    assert await templates.names(database, HERE) == ["b"]


async def test_two_saves_at_once_are_two_versions(database: Database) -> None:
    texts = [f"number {n}" for n in range(8)]
    saved = await asyncio.gather(*(save(database, draft(body=text), publish=False) for text in texts))
    assert sorted(one.number for one in saved) == list(range(1, 9))
    found = [(await templates.find(database, HERE, ["welcome"], str(n)))["welcome"].draft for n in range(1, 9)]
    assert sorted(one.locales["default"]["body"] for one in found) == texts


async def test_folders_that_are_saved_at_once_in_another_order_do_not_lock_each_other_out(database: Database) -> None:
    async def put(names: list[str], body: str) -> None:
        drafts = [draft(name, body=body) for name in names]
        pairs = [(one, await version(database, one)) for one in drafts]
        await templates.put(database, HERE, pairs, "ann", publish=True)

    await asyncio.gather(*(put(sorted("abcdef", reverse=n % 2 == 0), f"body {n}") for n in range(10)))
    found = await templates.find(database, HERE, list("abcdef"))
    assert {one.version for one in found.values()} == {10}
    assert len({one.draft.locales["default"]["body"] for one in found.values()}) == 1


async def test_of_two_that_publish_at_once_the_later_one_stands(database: Database, connection: Connection) -> None:
    first = await save(database, draft(), publish=False)
    await save(database, draft(body="two"), publish=False)
    async with connection.transaction():
        await connection.fetch("SELECT * FROM dispatcher.publish_template('default', 'default', 'welcome', 2, 'bob')")
        other = asyncio.create_task(templates.publish(database, HERE, "welcome", 1, "ann"))
        await until_blocked(connection)
    published = await other
    assert published is not None
    assert tuple(published.values()) == (first.version_id, 1, 2)
    assert [row["number"] for row in await templates.history(database, HERE, "welcome", 10, below=9)] == [2, 1]
    kept = await connection.fetch("SELECT actor FROM dispatcher.template_publications ORDER BY id")
    assert [row["actor"] for row in kept] == ["bob", "ann"]
    assert (await templates.find(database, HERE, ["welcome"], "published"))["welcome"].version == 1


async def test_publishing_what_is_not_there_says_so(database: Database) -> None:
    assert await templates.publish(database, HERE, "welcome", None, "ann") is None
    await save(database, draft(), publish=False)
    assert await templates.publish(database, HERE, "welcome", 2, "ann") is None
    assert await templates.publish(database, Workspace("other"), "welcome", 1, "ann") is None


async def test_each_workspace_has_its_own(database: Database) -> None:
    for place in (HERE, Workspace("default", "two"), Workspace("two")):
        assert (await save(database, draft(body=repr(place)), workspace=place)).number == 1
        assert await templates.names(database, place) == ["welcome"]


async def test_a_version_keeps_the_partials_that_were_published_when_it_was_saved(database: Database) -> None:
    footer = draft("footer", None, body="v1 {% render 'logo' %}")
    await save(database, draft("logo", None, "en", {"en": {"body": "EN"}, "de": {"body": "DE"}}))
    await save(database, footer)
    said = {"en": {"body": "Hi {% render 'footer' %}"}, "de": {"body": "Hallo {% render 'footer' %}"}}
    saved = await save(database, draft(default_locale="en", locales=said))
    await save(database, draft("footer", None, body="v2"))
    loaded = await templates.load(
        database, [key := f"v:{saved.version_id}:de", f"v:{saved.version_id}:fr", "v:99:de", "v:"]
    )
    partials = {"footer": "v1 {% render 'logo' %}", "logo": "DE"}
    assert loaded == {key: Sources({"body": "Hallo {% render 'footer' %}"}, partials, frozenset())}
    assert (await save(database, draft(default_locale="en", locales=said))).number == 2


async def test_a_delivery_is_frozen_to_what_is_published_when_it_is_inserted(
    database: Database, scene: Scene, connection: Connection
) -> None:
    one = await save(database, draft())
    await connection.execute(NAMED, "a", "sms", "welcome")
    two = await save(database, draft(body="Good day {{ name }}"))
    await connection.execute(NAMED, "b", "sms", "welcome")
    rows = [await _row(connection, key) for key in "ab"]
    assert [(row["template_version"], row["locale"], row["status"]) for row in rows] == [
        (one.version_id, "default", "queued"),
        (two.version_id, "default", "queued"),
    ]
    claimed = await scene.claim()
    assert [(item.template, item.template_name) for item in claimed] == [
        (f"v:{one.version_id}:default", "welcome"),
        (f"v:{two.version_id}:default", "welcome"),
    ]


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        (None, "en"),
        ("de", "de"),
        ("de-AT", "de"),
        ("DE_at", "de"),
        ("pt-br", "pt-BR"),
        ("pt", "en"),
        ("fr", "en"),
        ("de_DE.UTF-8", "de"),
        ("x" * 100, "en"),
    ],
)
async def test_the_locale_that_comes_nearest(
    database: Database, connection: Connection, asked: str | None, given: str
) -> None:
    await save(database, draft(default_locale="en", locales=GERMAN))
    found = await connection.fetchval(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template_name, locale)
           VALUES ('k', 'sms', '+4917012345', 'welcome', $1) RETURNING locale""",
        asked,
    )
    assert found == given


PIECES = st.lists(st.sampled_from(["de", "DE", "zh", "Hant", "TW", "1", ""]), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(asked=st.builds("-".join, PIECES), have=st.lists(st.builds("-".join, PIECES), max_size=4, unique_by=str.lower))
async def test_the_program_and_the_schema_agree_about_locales(
    connection: Connection, asked: str, have: list[str]
) -> None:
    found = await connection.fetchval("SELECT dispatcher.nearest_locale($1, $2, 'none')", asked, have)
    assert nearest(asked, have, "none") == found


@pytest.mark.parametrize(
    ("name", "channel", "words"),
    [
        ("nobody", "sms", "template_name: there is no template 'nobody'"),
        ("draft", "sms", "template_name: 'draft' has no published version"),
        ("welcome", "push", "template_name: 'welcome' is for sms, not for push"),
        ("footer", "sms", "template_name: 'footer' is a partial, which is not sent by itself"),
    ],
)
async def test_without_its_template_a_delivery_has_failed_at_once_and_the_others_go_out(
    database: Database, scene: Scene, connection: Connection, name: str, channel: str, words: str
) -> None:
    await save(database, draft())
    await save(database, draft("draft"), publish=False)
    await save(database, draft("footer", None, body="x"))
    await connection.copy_records_to_table(
        "deliveries",
        schema_name="dispatcher",
        columns=["idempotency_key", "channel", "recipient", "template_name"],
        records=[
            ("good", "sms", "+4917012345", "welcome"),
            ("bad", channel, "+4917012345", name),
            ("fine", "sms", "+4917012345", "welcome"),
        ],
    )
    row = await _row(connection, "bad")
    assert (row["status"], row["error"], row["attempts"]) == ("failed", words, 0)
    assert row["finished_at"] is not None
    assert {item.idempotency_key for item in await scene.claim()} == {"good", "fine"}
    (fault,) = await templates.faults(database, [("default", "default", name, channel)])
    assert words == f"template_name: {fault}"


async def test_through_the_view_the_answer_says_that_it_has_failed(connection: Connection) -> None:
    (row,) = await connection.fetch(
        """INSERT INTO dispatcher.channel_outbox (idempotency_key, channel, recipient, template_name, run_at)
           VALUES ('k', 'sms', '+4917012345', 'nobody', '2040-01-01T00:00Z') RETURNING *"""
    )
    assert (row["status"], row["error"]) == ("failed", "template_name: there is no template 'nobody'")
    assert await connection.fetchval("SELECT life FROM dispatcher.delivery_life") == "failed"


async def test_a_key_that_exists_makes_nothing_even_of_a_template_that_does_not(connection: Connection) -> None:
    again = f"{NAMED} ON CONFLICT (tenant_id, workspace_id, idempotency_key) DO NOTHING"
    for _ in range(2):
        await connection.execute(again, "k", "sms", "nobody")
    assert await connection.fetchval("SELECT count(*) FROM dispatcher.delivery_state") == 1


async def test_one_that_is_tried_again_without_a_template_fails_again(scene: Scene, connection: Connection) -> None:
    await connection.execute(NAMED, "k", "sms", "nobody")
    row = await _row(connection, "k")
    assert await connection.fetchval("SELECT dispatcher.reopen_delivery($1, 'ann', 'why not')", row["id"]) == "reopened"
    assert [item.template for item in await scene.claim()] == ["v:"]


@pytest.mark.parametrize("version", [None, 99])
async def test_a_restored_dump_keeps_its_delivery_states(connection: Connection, version: int | None) -> None:
    """Also where the templates come after the deliveries."""
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (id, idempotency_key, channel, recipient, template_name, template_version,
                                              locale, created_at)
           VALUES (7, 'k', 'sms', '+4917012345', 'welcome', $1, 'de', now() - interval '1 day')""",
        version,
    )
    await connection.execute(
        """INSERT INTO dispatcher.delivery_state (id, run_at, lane, ready, channel, status, finished_at, error)
           VALUES (7, now(), 1, false, 'sms', 'failed', now(), 'template_name: as it was')"""
    )
    row = await _row(connection, "k")
    assert (row["status"], row["error"]) == ("failed", "template_name: as it was")
    assert (row["template_version"], row["locale"]) == (version, "de")


async def test_a_version_that_was_frozen_before_is_kept_and_anothers_is_refused(
    database: Database, connection: Connection
) -> None:
    one = await save(database, draft())
    await save(database, draft(body="newer"))
    other = await save(database, draft("other"))
    pinned = """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template_name, template_version)
                VALUES ($1, 'sms', '+4917012345', 'welcome', $2)"""
    await connection.execute(pinned, "a", one.version_id)
    assert (await _row(connection, "a"))["template_version"] == one.version_id
    for wrong in (other.version_id, 999):
        with pytest.raises(asyncpg.ForeignKeyViolationError, match=f"template_version {wrong} is none of"):
            await connection.execute(pinned, "b", wrong)


@pytest.mark.parametrize(
    "columns",
    [
        "template_name, template_version, template) VALUES ('k', 'sms', '+4917012345', 'x', 1, '{\"body\": \"x\"}'",
        "locale) VALUES ('k', 'sms', '+4917012345', 'de'",
    ],
)
async def test_a_delivery_has_exactly_one_content(connection: Connection, columns: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError, match="deliveries_say_something"):
        await connection.execute(f"INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, {columns})")


async def test_a_delivery_with_its_own_template_may_name_it(connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, template_name)
           VALUES ('k', 'sms', '+4917012345', '{"body": "x"}', 'nobody')"""
    )
    assert (await _row(connection, "k"))["status"] == "queued"
