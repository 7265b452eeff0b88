"""Events where something goes wrong, or where several are at it."""

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.features.rules import store
from tests.support.rules import ALL, LEAD, STEP, by_pair, notify, put_rule, put_template
from tests.support.scene import Connection
from tests.support.waits import until_waits

OTHER = {"tenant_id": "acme", "workspace_id": "default"}


@pytest.fixture(autouse=True)
async def written(connection: Connection) -> None:
    """A template and a rule."""
    await put_template(connection, reads=["lead.name"])
    await put_rule(connection)


@pytest.fixture
async def rival(url: str) -> AsyncIterator[Connection]:
    """Another connection."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def _count(connection: Connection, table: str) -> int:
    count: int = await connection.fetchval(f"SELECT count(*) FROM dispatcher.{table}")
    return count


async def test_a_lock_time_out_in_the_middle_is_raised_and_no_fallback(
    connection: Connection, rival: Connection
) -> None:
    """The rival holds what the INSERT of deliveries has to wait for."""
    await connection.execute("SET lock_timeout = '50ms'")
    async with rival.transaction():
        await rival.execute("LOCK TABLE dispatcher.deliveries IN EXCLUSIVE MODE")
        with pytest.raises(asyncpg.LockNotAvailableError):
            await notify(connection, message_id="one")
    assert await _count(connection, "events") == 0
    assert by_pair(await notify(connection, message_id="one"))["email/lead"] == "scheduled"


@pytest.mark.parametrize("code", ["40001", "40P01", "53100", "55P03", "57014", "P0001", "XX000"])
async def test_what_is_not_about_data_is_raised_and_no_fallback(connection: Connection, code: str) -> None:
    """Only the rule's own message is refused: the built-in one would be written."""
    await connection.execute(f"""
        CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '{code}'; END $$;
        CREATE TRIGGER broken BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW
          WHEN (NEW.template_name IS NOT NULL) EXECUTE FUNCTION broken()""")
    with pytest.raises(asyncpg.PostgresError) as raised:
        await notify(connection, message_id="one")
    assert raised.value.sqlstate == code
    assert await _count(connection, "events") == 0


@pytest.mark.parametrize("code", ["22001", "23514"])
async def test_what_is_about_data_falls_back_and_leaves_nothing(connection: Connection, code: str) -> None:
    """Of two messages the second fails: the first goes with it."""
    to = {"includeLeadContact": True, "customEmails": ["bad@example.org"]}
    await put_rule(connection, "quote_sent/email/lead", STEP | {"recipients": to})
    await connection.execute(f"""
        CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION 'broken' USING ERRCODE = '{code}'; END $$;
        CREATE TRIGGER broken BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW
          WHEN (NEW.recipient = 'bad@example.org') EXECUTE FUNCTION broken()""")
    (mail, _) = await notify(connection)
    assert (mail["decision"], mail["fallback"], mail["reason"]) == ("fallback", "message", "the rule failed: broken")
    assert [row["id"] for row in await connection.fetch(ALL)] == mail["delivery_ids"]


async def test_a_rival_waits_for_the_end_of_the_first_and_goes_on_where_it_rolled_back(
    connection: Connection, rival: Connection, url: str
) -> None:
    watcher = await asyncpg.connect(url)
    try:
        for commits in (False, True):
            transaction = rival.transaction()
            await transaction.start()
            await notify(rival, message_id="one")
            waiting = asyncio.create_task(notify(connection, message_id="one"))
            await until_waits(watcher, connection)
            await (transaction.commit() if commits else transaction.rollback())
            decision = by_pair(await waiting)["email/lead"]
            assert decision == ("duplicate" if commits else "scheduled")
            if not commits:
                await connection.execute("DELETE FROM dispatcher.events")
    finally:
        await watcher.close()
    assert len(await connection.fetch(ALL)) == len(("rolled back", "committed"))


async def test_an_old_look_does_not_answer_for_what_it_cannot_see(connection: Connection, rival: Connection) -> None:
    async with rival.transaction(isolation="repeatable_read"):
        await rival.fetchval("SELECT count(*) FROM dispatcher.events")
        await notify(connection, message_id="one")
        with pytest.raises(asyncpg.SerializationError):
            await notify(rival, message_id="one")
        await rival.execute("ROLLBACK; BEGIN")
    assert by_pair(await notify(rival, message_id="one"))["email/lead"] == "duplicate"


async def test_batches_of_the_same_events_in_another_order_do_not_deadlock(
    connection: Connection, rival: Connection
) -> None:
    events = [{"trigger": "quote_sent", "lead": LEAD, "message_id": f"m{number}"} for number in range(200)]
    call = "SELECT decision FROM dispatcher.notify_events('default', 'default', $1) WHERE channel = 'email'"
    both = await asyncio.gather(connection.fetch(call, json.dumps(events)), rival.fetch(call, json.dumps(events[::-1])))
    decisions = sorted(row["decision"] for rows in both for row in rows)
    assert decisions == ["duplicate"] * 200 + ["scheduled"] * 200
    assert len(await connection.fetch(ALL)) == 200


async def test_a_rule_that_is_disabled_between_two_events_answers_the_first_again(connection: Connection) -> None:
    first = await notify(connection, message_id="one")
    await connection.execute(
        "SELECT dispatcher.switch_rule('default', 'default', 'quote_sent/email/lead', 'disable', 'ann')"
    )
    again = await notify(connection, message_id="one")
    assert (again[0]["decision"], again[0]["first_decision"]) == ("duplicate", "scheduled")
    assert again[0]["delivery_ids"] == first[0]["delivery_ids"]
    assert by_pair(await notify(connection, message_id="two"))["email/lead"] == "suppressed"


async def test_rules_templates_and_message_ids_are_a_workspaces_own(connection: Connection) -> None:
    await notify(connection, message_id="one")
    elsewhere = await notify(connection, message_id="one", **OTHER)
    assert by_pair(elsewhere)["email/lead"] == "fallback"
    rows = await connection.fetch(ALL)
    assert [(row["tenant_id"], row["template_name"]) for row in rows] == [("default", "quote/sent"), ("acme", None)]
    note = "SELECT dispatcher.note_fallback($1, 'email', 'lead', 'done', NULL, 'acme', 'default')"
    mine = await notify(connection, "lead_welcome")
    assert await connection.fetchval(note, mine[0]["event_id"]) == "unknown"
    async with connection.transaction():
        await connection.execute(
            "SET LOCAL ROLE dispatcher_tenant; SET LOCAL dispatcher.tenant = 'acme';"
            " SET LOCAL dispatcher.workspace = 'default'"
        )
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await notify(connection)


async def test_the_same_person_as_lead_and_custom_address_gets_one_message(connection: Connection) -> None:
    to = {"includeLeadContact": True, "includePartner": True, "customEmails": ["Ann Lee <ANN@example.org>"]}
    await put_rule(connection, "quote_sent/email/lead", STEP | {"recipients": to})
    await notify(connection, partner={"email": "Ann@Example.org"})
    assert [row["recipient"] for row in await connection.fetch(ALL)] == ["ann@example.org"]


async def test_a_step_may_have_a_thousand_recipients_and_no_more(connection: Connection) -> None:
    many = [f"person{number}@example.org" for number in range(1_000)]
    await put_rule(connection, "quote_sent/email/lead", STEP | {"recipients": {"customEmails": many}})
    (mail, _) = await notify(connection)
    assert len(set(mail["delivery_ids"])) == len(await connection.fetch(ALL)) == len(many)
    with pytest.raises(asyncpg.InvalidParameterValueError, match="has 1001 items, over 1000"):
        await put_rule(
            connection, "quote_sent/email/lead", STEP | {"recipients": {"customEmails": [*many, "x@example.org"]}}
        )


async def test_faulty_events_are_refused_with_every_fault(connection: Connection) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError) as refused:
        await notify(connection, message_id="x" * 300, source="", lead='["Ann"]', variables='"x"')
    faults = {one["path"] for one in json.loads(str(refused.value.as_dict()["detail"]))}
    assert faults == {"$.message_id", "$.source", "$.lead", "$.variables"}


async def test_an_invalid_address_of_the_lead_falls_back_or_is_refused_by_name(connection: Connection) -> None:
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"lead\.email is not an e-mail address"):
        await notify(connection, lead={"name": "Ann", "email": "nobody"})
    await connection.execute(
        "SELECT dispatcher.put_event_trigger('default', 'default', 'quote_sent', $1, 'ann')",
        json.dumps({"variables": ["lead"], "pairs": {"email/lead": "caller"}}),
    )
    (mail,) = await notify(connection, lead={"name": "Ann", "email": "nobody"})
    assert (mail["decision"], mail["fallback"]) == ("fallback", "caller")


async def test_what_is_checked_is_what_is_sent(connection: Connection) -> None:
    """The version that was checked is frozen, and the locale of the person is taken."""
    (mail, _) = await notify(connection, lead=LEAD | {"locale": "en-GB"})
    row = await connection.fetchrow("SELECT * FROM dispatcher.deliveries WHERE id = ANY ($1)", mail["delivery_ids"])
    assert row is not None
    assert (row["locale"], row["template_version"] is not None) == ("en", True)
    assert json.loads(row["variables"])["event"]["trigger"] == "quote_sent"


async def test_an_erased_message_id_stays_a_duplicate(connection: Connection, rival: Connection, url: str) -> None:
    """Also where the event comes again while its id is being erased."""
    erase = "UPDATE dispatcher.events SET message_id = dispatcher.erased(message_id)"
    first = await notify(connection, message_id="ann@example.org")
    transaction = rival.transaction()
    await transaction.start()
    await rival.execute(erase)
    waiting = asyncio.create_task(notify(connection, message_id="ann@example.org"))
    watcher = await asyncpg.connect(url)
    try:
        await until_waits(watcher, connection)
    finally:
        await watcher.close()
    await transaction.commit()
    for answer in (await waiting, await notify(connection, message_id="ann@example.org")):
        assert (answer[0]["decision"], answer[0]["event_id"]) == ("duplicate", first[0]["event_id"])
    assert len(await connection.fetch(ALL)) == 1
    assert await _count(connection, "events") == 1


async def test_old_events_are_forgotten_and_their_deliveries_stay(connection: Connection, database: Database) -> None:
    for name in ("old", "new"):
        await notify(connection, message_id=name)
    await connection.execute(
        "UPDATE dispatcher.events SET created_at = now() - interval '91 days' WHERE message_id = 'old'"
    )
    assert await store.forget(database, 10) == 1
    assert await store.forget(database, 10) == 0
    assert await connection.fetchval("SELECT message_id FROM dispatcher.events") == "new"
    assert len(await connection.fetch(ALL)) == 2
    assert await _count(connection, "event_decisions") == 2
