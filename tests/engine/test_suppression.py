"""Barring: what was suppressed before a mark began is not marked, and what may have arrived is never called skipped."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from dispatcher.base.values.addresses import Address, address
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Again, Failed, Lane, Resend, Succeeded
from dispatcher.engine.store import suppression
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from dispatcher.features.suppressions import store as suppressions
from dispatcher.features.suppressions.store import Entry
from tests.support.scene import Connection, Scene
from tests.support.waits import until_blocked

PHONE = Address("phone", "+4917012345")
KEYED = Resend("key", None)


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """A second plain connection, for whoever stands in the way."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


async def _suppress(scene: Scene, one: Address = PHONE, **fields: object) -> None:
    entry = Entry(one, fields.pop("source", "operator"), "asked", **fields)  # type: ignore[arg-type]  # of an Entry
    await suppressions.add(scene.database, "default", "ann", [entry])


async def _catch_up(scene: Scene) -> None:
    while await suppression.catch_up(scene.database, 100):
        pass


async def _sound(scene: Scene) -> None:
    assert [found for name in checks.invariants() if (found := await checks.check(scene.database, name))] == []


async def _error(scene: Scene, delivery_id: int) -> str:
    return str((await scene.row(delivery_id))["error"])


@pytest.mark.parametrize("stand", ["waiting", "due", "claimed", "parked"])
async def test_whatever_is_queued_and_not_marked_is_skipped(scene: Scene, stand: str) -> None:
    (delivery,) = await scene.write(1)
    if stand == "waiting":
        await scene.value("SELECT dispatcher.move_delivery($1, now() + interval '1 h', 'me', 'later')", delivery)
    elif stand == "claimed":
        await scene.claim()
    elif stand == "parked":
        await scene.value("SELECT dispatcher.pause_everywhere('tenant', 'default', 'me', 'x')")
        await scene.value("UPDATE dispatcher.delivery_state SET ready = false WHERE id = $1", delivery)
        await scene.value("INSERT INTO dispatcher.parked SELECT $1, id FROM dispatcher.pauses", delivery)
    await _suppress(scene)
    await _catch_up(scene)
    assert await scene.life(delivery) == "skipped"
    assert await _error(scene, delivery) == "suppressed: operator: asked"
    assert await scene.value("SELECT count(*) FROM dispatcher.parked") == 0
    await _sound(scene)


async def test_a_claimed_delivery_that_is_suppressed_is_not_marked(scene: Scene) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    await _suppress(scene)
    await _catch_up(scene)
    assert await scene.mark([item]) == {}
    assert await scene.life(item.id) == "skipped"


async def test_a_mark_that_waited_for_a_suppression_sees_it(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    """The address is on the list, committed; the row is being settled when the mark comes."""
    await scene.write(1)
    (item,) = await scene.claim()
    await _suppress(scene)
    why = await suppression.reasons(scene.database, [item])
    transaction = other.transaction()
    await transaction.start()
    await other.execute("SELECT dispatcher.bar($1, $2)", list(why), list(why.values()))
    marking = asyncio.create_task(scene.mark([item]))
    await until_blocked(connection)
    await transaction.commit()
    assert await marking == {}
    assert await scene.life(item.id) == "skipped"


async def test_a_suppression_that_comes_to_a_mark_under_way_leaves_it_alone(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    await scene.write(1)
    (item,) = await scene.claim()
    transaction = other.transaction()
    await transaction.start()
    # A mark whose commit is under way.
    await other.execute("UPDATE dispatcher.delivery_state SET marked = true, attempt = 1 WHERE id = $1", item.id)
    await _suppress(scene)
    catching_up = asyncio.create_task(_catch_up(scene))
    await until_blocked(connection)
    await transaction.commit()
    await catching_up
    assert await scene.life(item.id) == "sending"
    assert await scene.flush((item, Succeeded("m-1"))) == []
    assert await scene.life(item.id) == "sent"


async def test_a_claim_that_is_under_way_is_settled_when_it_has_committed(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    (delivery,) = await scene.write(1)
    transaction = other.transaction()
    await transaction.start()
    # A claim whose snapshot is older than the suppression, and whose commit comes later than the look.
    await other.execute("UPDATE dispatcher.delivery_state SET ready = false, token = 7 WHERE id = $1", delivery)
    await _suppress(scene)
    catching_up = asyncio.create_task(_catch_up(scene))
    await until_blocked(connection)
    await transaction.commit()
    await catching_up
    assert await scene.life(delivery) == "skipped"


async def test_a_later_insert_to_a_suppressed_address_is_found_at_its_claim(scene: Scene) -> None:
    await scene.write(1)
    (before,) = await scene.claim()
    assert before.watched is False
    await _suppress(scene)
    await _catch_up(scene)
    await scene.write(1)
    (item,) = await scene.claim()
    assert item.watched is True
    assert await suppression.reasons(scene.database, [item]) == {item.id: "suppressed: operator: asked"}


async def test_a_delivery_that_may_have_arrived_is_held_and_not_skipped(scene: Scene) -> None:
    """An unknown attempt that may be repeated with the provider's key: nobody knows that it was not sent."""
    (item,) = await scene.marked(resend=KEYED)
    await scene.flush((item, Again(0.0, "unknown: no answer", KEYED)))
    await _suppress(scene)
    await _catch_up(scene)
    assert await scene.life(item.id) == "held"
    row = await scene.row(item.id)
    assert row["error"] == "unknown: an earlier attempt may have arrived; suppressed: operator: asked"
    assert await scene.claim() == []
    await _sound(scene)
    settled = "SELECT dispatcher.settle_held($1, 'failed', 'me', 'it is not there')"
    assert await scene.value(settled, item.id) == "settled"


async def test_an_unknown_attempt_that_is_written_while_it_is_waited_for_is_seen(
    scene: Scene, connection: Connection, other: Connection
) -> None:
    """The look found it unmarked; by the time its lock is free it was marked, called, and is unknown."""
    (delivery,) = await scene.write(1)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE dispatcher.delivery_state SET attempt = 1 WHERE id = $1", delivery)
    await other.execute(
        """INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, reason, resent_by)
           VALUES ($1, 7, 1, 'unknown', 'no answer', 'key')""",
        delivery,
    )
    await _suppress(scene)
    catching_up = asyncio.create_task(_catch_up(scene))
    await until_blocked(connection)
    await transaction.commit()
    await catching_up
    assert await scene.life(delivery) == "held"


async def test_an_attempt_that_failed_is_no_reason_to_hold(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "busy")))
    await _suppress(scene)
    await _catch_up(scene)
    assert await scene.life(item.id) == "skipped"


async def test_an_interrupted_erasure_is_completed_by_the_next_worker(scene: Scene) -> None:
    (delivery,) = await scene.write(1)
    await _suppress(scene)
    assert await scene.life(delivery) == "pending"
    assert await scene.value("SELECT count(*) FROM dispatcher.suppression_work") == 1
    await _catch_up(scene)
    assert await scene.life(delivery) == "skipped"
    assert await scene.value("SELECT count(*) FROM dispatcher.suppression_work") == 0


@pytest.mark.parametrize("written", ["+49 170 12345", "004917012345", "+49/170-12345", "tel:+4917012345"])
async def test_queued_deliveries_are_found_in_any_form_of_their_address(scene: Scene, written: str) -> None:
    (delivery,) = await _write(scene, "voice", written)
    await _suppress(scene)
    await _catch_up(scene)
    assert await scene.life(delivery) == "skipped"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("Ann <ANN@Example.org>", "ann@example.org"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("ann@xn--bcher-kva.example", "ann@bücher.example"),
    ],
)
async def test_mail_is_found_however_its_address_is_written(scene: Scene, written: str, meant: str) -> None:
    (delivery,) = await _write(scene, "email", written)
    await _suppress(scene, address("email", meant))
    await _catch_up(scene)
    assert await scene.life(delivery) == "skipped"


async def _write(scene: Scene, channel: str, recipient: str, **fields: object) -> list[int]:
    key = f"{channel}-{len(recipient)}"
    new = New(idempotency_key=key, channel=channel, recipient=recipient, template='{"body": "x"}', **fields)  # type: ignore[arg-type]  # of a New
    return [one.id for one in await deliveries.insert(scene.database, [new])]


async def test_another_tenants_list_is_not_ours(scene: Scene) -> None:
    await suppressions.add(scene.database, "other", "ann", [Entry(PHONE, "operator", "asked")])
    (delivery,) = await scene.write(1)
    await _catch_up(scene)
    assert await scene.life(delivery) == "pending"


async def test_expired_suppressions_do_not_count(scene: Scene) -> None:
    await _suppress(scene)
    await scene.database.fetch("UPDATE dispatcher.suppressions SET expires_at = now() - interval '1 s'")
    (delivery,) = await scene.write(1)
    await _catch_up(scene)
    (item,) = await scene.claim()
    assert await suppression.reasons(scene.database, [item]) == {}
    assert item.id == delivery
    assert await suppression.drop_expired(scene.database, 10) == 1
    assert [row["action"] for row in await suppressions.log(scene.database, "default", PHONE)] == [
        "expire",
        "suppress",
        "suppress",
    ]


async def test_a_dead_address_is_suppressed_by_its_result(scene: Scene) -> None:
    (item,) = await scene.marked()
    (later,) = await scene.write(1)
    await scene.flush((item, Failed("5.1.1: no such number", suppresses=True)))
    assert await scene.life(item.id) == "failed"
    (entry,) = await suppressions.entries(scene.database, "default", PHONE)
    assert (entry["source"], entry["channel"], entry["actor"]) == ("bounce", "sms", "dispatcher")
    assert entry["reason"] == f"delivery {item.id}: 5.1.1: no such number"
    await _catch_up(scene)
    assert await _error(scene, later) == f"suppressed: bounce: delivery {item.id}: 5.1.1: no such number"


async def test_a_refusal_by_policy_does_not_suppress(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed("5.7.1: not from you")))
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 0


async def test_a_dead_address_is_suppressed_whichever_instance_has_the_claim(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert (await scene.die()).held == 1
    assert len(await scene.flush((item, Failed("gone", suppresses=True)))) == 1
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 1


async def test_the_same_dead_address_in_many_results_is_one_entry(scene: Scene) -> None:
    items = await scene.marked(3)
    results = [(item, Failed("gone", suppresses=True)) for item in items]
    assert await scene.flush(*results) == []
    await scene.flush(*results)
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 1
    assert await scene.value("SELECT count(*) FROM dispatcher.suppression_log") == 1


@pytest.mark.parametrize("recipient", ["", "  ", "x" * 3_000, "\u2028@\u2028", "a@b@c", "+1", "ann@ex ample"])
@pytest.mark.parametrize("channel", ["sms", "email", "push", "pager"])
async def test_no_recipient_keeps_a_flush_from_being_written(scene: Scene, channel: str, recipient: str) -> None:
    await _write(scene, channel, recipient)
    items = await scene.claim(channel=channel)
    await scene.mark(items)
    assert await scene.flush(*((item, Failed("gone", suppresses=True)) for item in items)) == []
    assert await scene.lives([item.id for item in items]) == ["failed"]


async def test_topics_stop_their_own_and_nothing_else(scene: Scene) -> None:
    (news,) = await scene.write(1, topic="news")
    (offers,) = await scene.write(1, topic="offers", lane=Lane.TRANSACTIONAL)
    (plain,) = await scene.write(1)
    await suppressions.prefer(scene.database, "default", [PHONE], "news", False, "ann", "no more")
    await _catch_up(scene)
    assert await scene.lives([news, offers, plain]) == ["skipped", "pending", "pending"]
    assert await _error(scene, news) == "unsubscribed: from news"
    await suppressions.prefer(scene.database, "default", [PHONE], "news", True, "ann", "again")
    (more,) = await scene.write(1, topic="news")
    await _catch_up(scene)
    assert await suppression.reasons(scene.database, await scene.claim()) == {}
    assert await scene.life(more) == "claimed"


async def test_every_change_has_an_actor_and_a_reason(scene: Scene) -> None:
    await _suppress(scene)
    await suppressions.release(scene.database, "default", [PHONE], "bob", "they called")
    await suppressions.prefer(scene.database, "default", [PHONE], "news", False, "eve", "page")
    await suppressions.prefer(scene.database, "default", [PHONE], "news", False, "eve", "page")
    said = await suppressions.log(scene.database, "default", PHONE)
    assert [(row["actor"], row["action"], row["reason"]) for row in said] == [
        ("eve", "unsubscribe", "page"),
        ("bob", "release", "they called"),
        ("ann", "suppress", "asked"),
    ]


async def test_a_plain_insert_counts_and_is_noted_too(scene: Scene, connection: Connection) -> None:
    """Through SQL, in a transaction of an application's own."""
    (delivery,) = await scene.write(1)
    await connection.execute("INSERT INTO dispatcher.suppressions (kind, address) VALUES ('phone', '+4917012345')")
    await _catch_up(scene)
    assert await scene.life(delivery) == "skipped"
    (noted,) = await suppressions.log(scene.database, "default", PHONE)
    assert noted["actor"] == await connection.fetchval("SELECT session_user")


@pytest.mark.parametrize("text", ["Ann@example.org", "ann@bücher.example", "ann"])
async def test_the_table_takes_no_other_form(connection: Connection, text: str) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute("INSERT INTO dispatcher.suppressions (kind, address) VALUES ('email', $1)", text)


async def test_candidates_are_found_by_an_index(scene: Scene, connection: Connection) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
           SELECT 'f' || n, 'sms', '+49' || n, '{"body": "x"}' FROM generate_series(1, 20000) AS n"""
    )
    await connection.execute("ANALYZE dispatcher.deliveries")
    query = suppression._SQL["candidates"].replace("$1", "'{default}'").replace("$2", "'{+4917012345}'")
    async with connection.transaction():
        await connection.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off")
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN {query}"))
    assert "deliveries_address" in plan, plan
    assert "Seq Scan" not in plan, plan
