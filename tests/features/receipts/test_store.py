"""Receipts in Postgres: found, kept in the order of their rank, heard once, and what they settle and suppress."""

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from channels.shared.mail.message_id import message_identity
from dispatcher.base.metrics import Metrics
from dispatcher.base.values.addresses import Address
from dispatcher.base.workspace import Workspace
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Again, Failed, Held, Resend, Succeeded
from dispatcher.engine.store import held, suppression
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.persons import erasure, rules
from dispatcher.features.receipts import store as receipts
from dispatcher.features.receipts.providers.receipt import KINDS, Candidate, Kind, Receipt
from dispatcher.features.receipts.providers.request import Accepted
from dispatcher.features.receipts.store import Outcome
from dispatcher.features.receipts.worker import Matcher
from dispatcher.features.suppressions import store as suppressions
from tests.support.metering import sample
from tests.support.scene import Connection, Scene
from tests.support.traces import traces
from tests.support.waits import until_blocked

TO = "+4917012345"
UNKNOWN = Held("unknown: no answer")
KEY = Resend("key")


def _identity(one: Candidate) -> str:
    return message_identity(one.tenant_id, one.workspace_id, one.idempotency_key, one.id, one.dated, one.recipient)


async def _accept(scene: Scene, *said: Receipt, event: str = "", kept: float = 60.0) -> list[Outcome]:
    _accept.number += 1  # type: ignore[attr-defined]  # a counter of events
    named = event or f"event-{_accept.number}"  # type: ignore[attr-defined]  # as above
    return await receipts.accept(scene.database, "resend", Accepted(named, said, kept), _identity)


_accept.number = 0  # type: ignore[attr-defined]  # as above


async def _said(scene: Scene, delivery: int) -> list[str]:
    rows = await scene.database.fetch(
        "SELECT kind FROM dispatcher.delivery_receipts WHERE delivery_id = $1 ORDER BY rank", delivery
    )
    return [row["kind"] for row in rows]


async def _current(scene: Scene, delivery: int) -> Any:
    return await scene.value("SELECT kind FROM dispatcher.delivery_receipt WHERE delivery_id = $1", delivery)


async def _sent(scene: Scene, name: str = "abc") -> int:
    (item,) = await scene.marked()
    assert await scene.flush((item, Succeeded(name)), spent=[item.token]) == []
    return item.id


async def _held(scene: Scene, **fields: Any) -> int:
    (item,) = await scene.marked(**fields)
    assert await scene.flush((item, UNKNOWN), spent=[item.token]) == []
    assert await scene.life(item.id) == "held"
    return item.id


async def _sound(scene: Scene) -> None:
    for one in checks.invariants():
        assert await checks.check(scene.database, one) is None, one


# In the order of their rank


@pytest.mark.parametrize("order", [KINDS, tuple(reversed(KINDS)), ("delivered", "sent", "bounced_soft")])
async def test_the_final_status_of_a_delivery_never_reverts(scene: Scene, order: tuple[Kind, ...]) -> None:
    delivery = await _sent(scene)
    highest = ""
    for kind in order:
        assert await _accept(scene, Receipt(kind, delivery_id=delivery)) == ["recorded"]
        highest = max((highest, kind), key=lambda one: KINDS.index(one) if one else -1)
        assert await _current(scene, delivery) == highest
    assert await scene.life(delivery) == "sent"
    found = await deliveries.show(scene.database, delivery)
    assert found is not None
    assert found["receipt"] == highest
    assert [row["kind"] for row in found["receipts"]] == [kind for kind in KINDS if kind in order]
    await _sound(scene)


async def test_a_time_to_come_is_now_and_an_older_one_of_a_kind_changes_nothing(scene: Scene) -> None:
    delivery = await _sent(scene)
    later, sooner = [await scene.value(f"SELECT now() {sign} interval '1 hour'") for sign in "+-"]
    assert await _accept(scene, Receipt("delivered", later, delivery)) == ["recorded"]
    assert await scene.value("SELECT bool_and(said_at <= seen_at) FROM dispatcher.delivery_receipts")
    assert await _accept(scene, Receipt("delivered", sooner, delivery, reason="older")) == ["known"]
    assert await scene.value("SELECT reason FROM dispatcher.delivery_receipts") == ""


async def test_receipts_go_with_their_delivery(scene: Scene, connection: Connection) -> None:
    delivery, other = await _sent(scene), await _sent(scene)
    for one in (delivery, other):
        await _accept(scene, Receipt("delivered", delivery_id=one))
    await connection.execute("DELETE FROM dispatcher.deliveries WHERE id = $1", delivery)
    assert (await _said(scene, delivery), await _said(scene, other)) == ([], ["delivered"])


async def test_nothing_is_kept_of_a_delivery_that_is_being_deleted(scene: Scene, connection: Connection) -> None:
    delivery = await _sent(scene)
    async with connection.transaction():
        await connection.execute("DELETE FROM dispatcher.deliveries WHERE id = $1", delivery)
        late = asyncio.create_task(_accept(scene, Receipt("delivered", delivery_id=delivery)))
        await until_blocked(connection)
    assert await late == ["gone"]
    assert await _said(scene, delivery) == []


# Accepted once


async def test_a_repeated_receipt_is_known(scene: Scene) -> None:
    delivery = await _sent(scene)
    assert await _accept(scene, Receipt("sent", delivery_id=delivery), event="e") == ["recorded"]
    assert await _accept(scene, Receipt("complained", delivery_id=delivery), event="e") == ["known"]
    assert await _said(scene, delivery) == ["sent"]
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 0


async def test_of_two_that_hear_the_same_at_once_one_keeps_it(scene: Scene, connection: Connection) -> None:
    delivery = await _sent(scene)
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.delivery_state WHERE id = $1 FOR UPDATE", delivery)
        said = Receipt("delivered", delivery_id=delivery)
        both = [asyncio.create_task(_accept(scene, said, event="e")) for _ in range(2)]
        await until_blocked(connection, 2)
    assert sorted([await one for one in both]) == [["known"], ["recorded"]]


async def test_an_event_with_a_failed_receipt_is_not_remembered(scene: Scene, connection: Connection) -> None:
    """All of it or nothing: its provider says it again."""
    delivery = await _sent(scene)
    said = Receipt("complained", delivery_id=delivery)
    await connection.execute("ALTER TABLE dispatcher.delivery_receipts ADD CONSTRAINT broken CHECK (false) NOT VALID")
    with pytest.raises(asyncpg.CheckViolationError):
        await _accept(scene, said, event="e")
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 0
    await connection.execute("ALTER TABLE dispatcher.delivery_receipts DROP CONSTRAINT broken")
    assert await _accept(scene, said, event="e") == ["recorded"]


async def test_two_that_say_something_of_the_same_ones_wait_for_each_other_in_order(
    scene: Scene, connection: Connection
) -> None:
    both = [await _sent(scene) for _ in range(2)]
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.delivery_state WHERE id = ANY ($1) FOR UPDATE", both)
        orders: tuple[tuple[Kind, list[int]], ...] = (("sent", both), ("delivered", both[::-1]))
        heard = [
            asyncio.create_task(_accept(scene, *(Receipt(kind, delivery_id=one) for one in order)))
            for kind, order in orders
        ]
        await until_blocked(connection, 2)
    assert await asyncio.gather(*heard) == [["recorded"] * 2] * 2


async def test_remembered_events_expire(scene: Scene) -> None:
    await _accept(scene, event="gone", kept=0.0)
    await _accept(scene, event="kept", kept=600.0)
    assert [await receipts.forget(scene.database, 10) for _ in range(2)] == [1, 0]
    assert await scene.value("SELECT string_agg(event, ' ') FROM dispatcher.receipt_events") == "kept"


# Held ones


@pytest.mark.parametrize(("kind", "life"), [(kind, "failed" if kind == "failed" else "sent") for kind in KINDS])
async def test_a_receipt_settles_a_held_delivery(scene: Scene, kind: Kind, life: str) -> None:
    delivery = await _held(scene)
    said = Receipt(kind, delivery_id=delivery, names=("abc",), recipient=TO, reason="so it is")
    assert await _accept(scene, said) == ["settled"]
    row = await scene.row(delivery)
    assert (row["status"], row["held"]) == (life, False)
    assert (row["provider_message_id"] == "abc") is (life == "sent") or life == "failed"
    if life == "failed":
        assert "so it is" in row["error"]
    assert await scene.value("SELECT resolved FROM dispatcher.delivery_evidence WHERE delivery_id = $1", delivery)
    await _sound(scene)


async def test_a_held_mail_is_found_by_its_message_id(scene: Scene) -> None:
    """As SES has it: nothing of ours comes back but the header, and the address."""
    (delivery, other) = [await _held(scene) for _ in range(2)]
    rows = await scene.database.fetch(receipts._SQL["by_name"], delivery, None, None, None)
    name = f"{_identity(Candidate(*rows[0]))}@mail.example.org"
    assert await _accept(scene, Receipt("delivered", names=("0102-ses", name), recipient=TO)) == ["settled"]
    assert await scene.lives([delivery, other]) == ["sent", "held"]


async def test_a_receipt_that_came_before_its_delivery_was_held_settles_it_later(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await _accept(scene, Receipt("delivered", delivery_id=item.id, names=("abc",))) == ["recorded"]
    assert await scene.life(item.id) == "sending"
    assert await receipts.settle_held(scene.database, 10) == 0
    await scene.die()
    assert await scene.life(item.id) == "held"
    assert await receipts.settle_held(scene.database, 10) == 1
    assert (await scene.row(item.id))["status"] == "sent"
    await _sound(scene)


async def test_of_several_that_came_before_it_was_held_the_highest_settles_it(scene: Scene) -> None:
    (item,) = await scene.marked()
    kinds: tuple[Kind, ...] = ("failed", "delivered")
    for kind in kinds:
        assert await _accept(scene, Receipt(kind, delivery_id=item.id)) == ["recorded"]
    await scene.die()
    assert await receipts.settle_held(scene.database, 10) == 1
    assert (await scene.row(item.id))["status"] == "sent"


@pytest.mark.parametrize(("channel", "status"), [("voice", "called"), ("social", "posted"), ("email", "sent")])
async def test_a_settled_delivery_has_the_success_status_of_its_channel(
    scene: Scene, channel: str, status: str
) -> None:
    await scene.write(1, channel)
    (item,) = await scene.claim(channel=channel)
    await scene.mark([item])
    await scene.flush((item, Held("unknown: no answer")))
    assert await _accept(scene, Receipt("delivered", delivery_id=item.id)) == ["settled"]
    assert (await scene.row(item.id))["status"] == status
    await _sound(scene)


async def test_a_retry_is_dropped_when_a_receipt_says_that_it_arrived(scene: Scene) -> None:
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, Again(0.0, "unknown: no answer", KEY)), spent=[item.token])
    assert await _accept(scene, Receipt("delivered", delivery_id=item.id)) == ["settled"]
    assert await scene.claim() == []
    await _sound(scene)


async def test_a_delivery_that_was_never_called_is_not_settled_by_receipts(scene: Scene) -> None:
    (delivery,) = await scene.write()
    assert await _accept(scene, Receipt("delivered", delivery_id=delivery)) == ["recorded"]
    assert await scene.life(delivery) == "pending"


async def test_a_failure_says_nothing_of_another_attempt_that_is_unknown(scene: Scene) -> None:
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, Again(0.0, "unknown: no answer", KEY)), spent=[item.token])
    (again,) = await scene.claim(resend=KEY)
    await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    assert await _accept(scene, Receipt("failed", delivery_id=item.id, reason="x")) == ["recorded"]
    assert await scene.life(item.id) == "held"
    assert await receipts.settle_held(scene.database, 10) == 0


async def test_receipts_that_settle_nothing_do_not_block_others(scene: Scene) -> None:
    """There may be more of it than are looked at together."""
    (sent,) = await scene.marked()
    await scene.flush((sent, Succeeded("abc")), spent=[sent.token])
    await _accept(scene, Receipt("delivered", delivery_id=sent.id))
    (item,) = await scene.marked(resend=KEY)
    await scene.flush((item, Again(0.0, "unknown: no answer", KEY)), spent=[item.token])
    (again,) = await scene.claim(resend=KEY)
    await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    await _accept(scene, Receipt("failed", delivery_id=item.id, reason="x"))
    (other,) = await scene.marked()
    await _accept(scene, Receipt("delivered", delivery_id=other.id))
    await scene.die()
    assert await receipts.settle_held(scene.database, 1) == 1
    assert await scene.lives([sent.id, item.id, other.id]) == ["sent", "held", "sent"]


async def test_receipts_of_an_earlier_life_settle_nothing(scene: Scene) -> None:
    """It had failed, somebody sent it again, and now nobody knows: what was said before is about the first time."""
    (item,) = await scene.marked()
    await scene.flush((item, Failed("busy")), spent=[item.token])
    await _accept(scene, Receipt("failed", delivery_id=item.id, reason="busy"))
    assert await deliveries.reopen(scene.database, item.id, "ann", "again") == "reopened"
    (again,) = await scene.claim()
    await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    assert await receipts.settle_held(scene.database, 10) == 0
    assert await scene.life(item.id) == "held"
    assert await _accept(scene, Receipt("failed", delivery_id=item.id, reason="busy again")) == ["settled"]
    assert await scene.life(item.id) == "failed"


async def test_the_rank_of_an_earlier_life_counts_for_nothing_in_the_next(scene: Scene) -> None:
    (item,) = await scene.marked()
    await scene.flush((item, Failed("busy")), spent=[item.token])
    await _accept(scene, Receipt("failed", delivery_id=item.id, reason="busy"))
    await deliveries.reopen(scene.database, item.id, "ann", "again")
    (again,) = await scene.claim()
    await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    assert await _accept(scene, Receipt("sent", delivery_id=item.id)) == ["settled"]
    assert await scene.life(item.id) == "sent"


async def test_a_temporary_refusal_is_retried_whatever_its_words(scene: Scene) -> None:
    """No attempt of it is unknown: no receipt can be about one."""
    (item,) = await scene.marked()
    await scene.flush((item, Again(0.0, "busy")), spent=[item.token])
    assert await _accept(scene, Receipt("delivered", delivery_id=item.id)) == ["recorded"]
    assert await scene.life(item.id) == "pending"


async def test_a_settlement_by_an_operator_is_final(scene: Scene) -> None:
    delivery = await _held(scene)
    assert await held.settle(scene.database, delivery, "failed", "ann", "looked it up") == "settled"
    assert await _accept(scene, Receipt("delivered", delivery_id=delivery)) == ["recorded"]
    assert await scene.life(delivery) == "failed"


# Which delivery


async def test_a_receipt_that_comes_before_the_flush_waits_for_it(scene: Scene) -> None:
    (item,) = await scene.marked()
    assert await _accept(scene, Receipt("delivered", names=("abc",), recipient=TO)) == ["waiting"]
    await scene.flush((item, Succeeded("abc")), spent=[item.token])
    metrics = Metrics()
    matcher = Matcher(scene.database, _identity, metrics)
    await matcher.run_once()
    assert (await _said(scene, item.id), sample(metrics.receipts_waiting)) == ([], 1)
    await _due(scene)
    await matcher.run_once()
    assert (await _said(scene, item.id), sample(metrics.receipts_waiting)) == (["delivered"], 0)
    assert sample(metrics.receipts.labels("resend", "recorded")) == 1


async def _due(scene: Scene) -> None:
    await scene.database.fetch("UPDATE dispatcher.waiting_receipts SET look_at = now()")


async def test_a_receipt_that_could_not_be_stored_is_matched_again(scene: Scene, connection: Connection) -> None:
    (item,) = await scene.marked()
    assert await _accept(scene, Receipt("delivered", names=("abc",), recipient=TO)) == ["waiting"]
    await scene.flush((item, Succeeded("abc")), spent=[item.token])
    await _due(scene)
    await connection.execute("ALTER TABLE dispatcher.delivery_receipts ADD CONSTRAINT broken CHECK (false) NOT VALID")
    with pytest.raises(asyncpg.CheckViolationError):
        await receipts.match_waiting(scene.database, 10, _identity)
    await connection.execute("ALTER TABLE dispatcher.delivery_receipts DROP CONSTRAINT broken")
    assert await receipts.match_waiting(scene.database, 10, _identity) == [("resend", "recorded")]
    assert await receipts.waiting(scene.database) == 0


async def test_an_unmatched_receipt_is_retried_with_backoff_and_dropped(scene: Scene) -> None:
    await _accept(scene, Receipt("delivered", names=("abc",), recipient="nobody@example.org"))
    waits = []
    while await receipts.waiting(scene.database):
        await _due(scene)
        assert await receipts.match_waiting(scene.database, 10, _identity) == []
        waits.append(
            await scene.value("SELECT extract(epoch FROM look_at - now())::float8 FROM dispatcher.waiting_receipts")
        )
    assert waits[-1] is None
    assert [round(wait) for wait in waits[:3]] == [10, 20, 40]
    assert len(waits) < 20


async def test_no_more_are_looked_for_together_than_there_may(scene: Scene) -> None:
    for name in ("abc", "abd", "abe"):
        await _accept(scene, Receipt("delivered", names=(name,), recipient="nobody@example.org"))
    await _due(scene)
    await receipts.match_waiting(scene.database, 2, _identity)
    assert await scene.value("SELECT sum(looks) FROM dispatcher.waiting_receipts") == 2


async def test_no_more_wait_than_there_may(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts, "WAITING_MAX", 3)
    became = [(await _accept(scene, Receipt("sent", names=(f"n{n}",), recipient=TO)))[0] for n in range(6)]
    assert became == ["waiting"] * 4 + ["dropped"] * 2
    await scene.database.fetch("DELETE FROM dispatcher.waiting_receipts")
    assert await _accept(scene, Receipt("sent", names=("n",), recipient=TO)) == ["waiting"]


async def test_a_number_of_another_database_s_is_not_ours(scene: Scene) -> None:
    delivery = await _sent(scene)
    said = Receipt("complained", delivery_id=delivery, names=("xyz",), recipient="bob@example.org")
    assert await _accept(scene, said) == ["waiting"]
    assert await scene.value("SELECT count(*) FROM dispatcher.suppressions") == 0


async def test_a_name_means_something_only_together_with_the_address(scene: Scene) -> None:
    """Providers are of one mind about names only by chance."""
    delivery = await _sent(scene, "abc")
    for number in range(6):
        assert await _accept(scene, Receipt("complained", names=("abc",), recipient=f"+491701230{number}")) == [
            "waiting"
        ]
    assert await _said(scene, delivery) == []


async def test_a_key_names_a_delivery_of_its_own_workspace_only(scene: Scene) -> None:
    delivery = await _sent(scene)
    key = await scene.value("SELECT idempotency_key FROM dispatcher.deliveries WHERE id = $1", delivery)
    for place in (("other", "default"), ("default", "other")):
        assert await _accept(scene, Receipt("sent", key=(*place, key))) == ["waiting"]
    assert await _accept(scene, Receipt("sent", key=("default", "default", key))) == ["recorded"]


async def test_the_newest_of_many_to_one_address_is_found_by_the_index_alone(
    scene: Scene, connection: Connection
) -> None:
    await connection.execute(
        """INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template)
           SELECT 'old-' || n, 'fax', $1, '{"body": "x"}' FROM generate_series(1, 5000) AS n""",
        TO,
    )
    delivery = await _sent(scene)
    assert await _accept(scene, Receipt("delivered", names=("abc",), recipient="+49 170 12345")) == ["recorded"]
    assert await _said(scene, delivery) == ["delivered"]
    async with scene.database.connection() as session, session.transaction():
        await session.fetch(receipts._SQL["in_order"])
        plan = await session.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {receipts._SQL['by_address']}", [TO], 500)
    (scan,) = [one for one in _nodes(json.loads(plan)[0]["Plan"]) if one.get("Index Name") == "deliveries_address"]
    assert (scan["Scan Direction"], scan["Actual Rows"]) == ("Backward", 500)


def _nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(inner for one in plan.get("Plans", ()) for inner in _nodes(one))]


# What it suppresses


@pytest.mark.parametrize(
    ("kind", "entry"),
    [
        ("bounced_hard", ("phone", TO, "sms", "bounce")),
        ("complained", ("phone", TO, "", "complaint")),
        *((kind, None) for kind in KINDS if kind not in ("bounced_hard", "complained")),
    ],
)
async def test_a_hard_bounce_and_a_complaint_suppress_and_nothing_else_does(
    scene: Scene, kind: Kind, entry: tuple[str, ...] | None
) -> None:
    delivery = await _sent(scene)
    await _accept(scene, Receipt(kind, delivery_id=delivery, reason="why"))
    rows = await scene.database.fetch("SELECT kind, address, channel, source, reason FROM dispatcher.suppressions")
    assert [tuple(row) for row in rows] == ([(*entry, f"delivery {delivery}: why")] if entry else [])


async def test_a_missing_mailbox_is_suppressed_once_for_every_channel(scene: Scene) -> None:
    written = await deliveries.insert(
        scene.database,
        [
            deliveries.New(
                idempotency_key="k", channel="email", recipient="Ann <Ann@Example.org>", template='{"text": "x"}'
            )
        ],
    )
    for _ in range(3):
        await _accept(scene, Receipt("bounced_hard", delivery_id=written[0].id, recipient="ann@example.org"))
    rows = await scene.database.fetch("SELECT kind, address, channel, source FROM dispatcher.suppressions")
    assert [tuple(row) for row in rows] == [("email", "ann@example.org", "", "bounce")]
    assert await scene.value("SELECT count(*) FROM dispatcher.suppression_log") == 1


async def test_a_complaint_after_an_erasure_suppresses_by_hash_alone(scene: Scene, connection: Connection) -> None:
    delivery = await _sent(scene, "sid-of-ann")
    who = rules.person_of([Address("phone", TO)])
    looked = await erasure.advance(
        scene.database, await erasure.request(scene.database, Workspace(), who, "bob", "by letter")
    )
    assert looked is not None
    assert looked.finished
    said: dict[str, Any] = {"delivery_id": delivery, "recipient": TO, "reason": f"no {TO}"}
    # It may be another database's.
    assert await _accept(scene, Receipt("complained", names=("xyz",), **said)) == ["waiting"]
    await scene.database.fetch("DELETE FROM dispatcher.waiting_receipts")
    assert await _accept(scene, Receipt("opened", names=("sid-of-ann",), **said)) == ["recorded"]
    assert await _accept(scene, Receipt("complained", names=("sid-of-ann",), **said)) == ["recorded"]
    assert await _current(scene, delivery) == "complained"
    assert await traces(connection, TO, "sid-of-ann") == []
    await scene.write(1)
    why = await suppression.reasons(scene.database, await scene.claim())
    assert list(why.values()) == ["suppressed: complaint: erased"]
    # Released since, it is not taken back by who says it again.
    await suppressions.release(scene.database, "default", [Address("phone", TO)], "bob", "asked again")
    again = Receipt("complained", at=datetime(2020, 1, 1, tzinfo=UTC), names=("sid-of-ann",), **said)
    assert await _accept(scene, again) == ["known"]
    assert await suppressions.entries(scene.database, "default", Address("phone", TO)) == []


async def test_a_bounce_makes_a_temporary_suppression_permanent(scene: Scene) -> None:
    first, second = [await _sent(scene, name) for name in ("abc", "abd")]
    await _accept(scene, Receipt("bounced_hard", delivery_id=first, reason="gone"))
    await scene.value("UPDATE dispatcher.suppressions SET expires_at = now() + interval '1 hour'")
    await _accept(scene, Receipt("bounced_hard", delivery_id=second, reason="gone again"))
    (row,) = await scene.database.fetch("SELECT expires_at, reason FROM dispatcher.suppressions")
    assert tuple(row) == (None, f"delivery {second}: gone again")


async def test_a_bounce_after_an_erasure_makes_a_temporary_suppression_permanent(scene: Scene) -> None:
    first, second = [await _sent(scene, name) for name in ("abc", "abd")]
    who = rules.person_of([Address("phone", TO)])
    await erasure.advance(scene.database, await erasure.request(scene.database, Workspace(), who, "bob", "by letter"))
    await _accept(scene, Receipt("bounced_hard", delivery_id=first, names=("abc",), recipient=TO))
    await scene.value("UPDATE dispatcher.erased_suppressions SET expires_at = now() + interval '1 hour'")
    await _accept(scene, Receipt("bounced_hard", delivery_id=second, names=("abd",), recipient=TO))
    rows = await scene.database.fetch("SELECT source, channel, expires_at FROM dispatcher.erased_suppressions")
    assert [tuple(row) for row in rows] == [("bounce", "sms", None)]


async def test_a_complaint_without_address_after_an_erasure_suppresses_no_address(scene: Scene) -> None:
    delivery = await _sent(scene, "abc")
    who = rules.person_of([Address("phone", TO)])
    await erasure.advance(scene.database, await erasure.request(scene.database, Workspace(), who, "bob", "by letter"))
    assert await _accept(scene, Receipt("complained", delivery_id=delivery, names=("abc",))) == ["recorded"]
    for relation in ("suppressions", "erased_suppressions"):
        assert await scene.value(f"SELECT count(*) FROM dispatcher.{relation}") == 0


async def test_the_failure_of_one_providers_message_says_nothing_of_anothers(scene: Scene) -> None:
    """An operator has sent it again, by another provider, and now nobody knows of that one either."""
    scene.provider = "first"
    delivery = await _held(scene)
    assert await held.settle(scene.database, delivery, "requeue", "ann", "it never came") == "settled"
    scene.provider = "second"
    (again,) = await scene.claim()
    await scene.mark([again])
    await scene.flush((again, UNKNOWN), spent=[again.token])
    assert await _accept(scene, Receipt("failed", delivery_id=delivery, reason="x")) == ["recorded"]
    assert await receipts.settle_held(scene.database, 10) == 0
    assert await scene.life(delivery) == "held"
    assert await _accept(scene, Receipt("delivered", delivery_id=delivery)) == ["settled"]
    await _sound(scene)
