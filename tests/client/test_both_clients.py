"""Both clients: each does the same, answers the same and refuses the same, against the real program."""

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from itertools import pairwise
from typing import Any
from uuid import uuid4

import pytest

from dispatcher.client import (
    AnyClient,
    Client,
    ClientError,
    Conflict,
    Fault,
    Message,
    NotFound,
    Refused,
    Run,
    TransactionClient,
    WaitTimedOut,
)
from tests.conformance.runs import Running, sms, steps
from tests.support.waits import until_heeded

LATER = datetime(2040, 1, 1, tzinfo=UTC)
WEST, EAST = (timezone(timedelta(hours=hours)) for hours in (-5, 5))
WHY = "a test"


def _key() -> str:
    return uuid4().hex


def _message(name: str, **fields: Any) -> Message:
    return Message(**{"key": name, "channel": "sms", "to": "+4917012345", "body": "Hello", **fields})


def _paths(error: ClientError) -> set[str]:
    return {fault.path for fault in error.faults}


async def _waits(client: AnyClient, run: int) -> Run:
    """The run, once it waits for its event."""
    found: list[Run] = []

    class _ThereError(Exception):
        pass

    def look(state: Run) -> None:
        if state.status == "waiting":
            found.append(state)
            raise _ThereError

    with pytest.raises(_ThereError):
        await client.wait(run, on_progress=look, timeout=30, poll=0.02)
    return found[0]


async def test_a_trigger_answers_its_run_and_its_key_the_same_run_by_the_other_client(
    client: AnyClient, other: AnyClient
) -> None:
    key = _key()
    first = await client.trigger("greeting", {"price": Decimal("1.1250")}, key=key)
    assert (first.workflow, first.version, first.total_steps, first.duplicate) == ("greeting", 1, 1, False)
    for one in (other, client):
        again = await one.trigger("greeting", {"something": "else"}, key=key)
        assert (again.id, again.duplicate) == (first.id, True)
    assert (await client.status(first.id)).key == key
    separate = [await client.trigger("greeting") for _ in range(2)]
    assert separate[0].id != separate[1].id


async def test_a_name_may_be_any(client: AnyClient) -> None:
    assert (await client.trigger("with/a-slash")).workflow == "with/a-slash"
    with pytest.raises(NotFound, match="there is no workflow"):
        await client.trigger("no/such")
    with pytest.raises(NotFound, match="there is no workflow") as unknown:
        await client.trigger("no such")
    assert unknown.value.kind == "not-found"
    assert unknown.value.faults == (Fault("$.workflow", "there is no such workflow"),)


async def test_an_inactive_workflow_refuses_triggers(client: AnyClient, place: Running) -> None:
    await place.runs.put(steps(sms(), name="asleep"))
    off = "SELECT dispatcher.set_workflow_active('default', 'default', 'asleep', false, 'ann')"
    await place.runs.connection.execute(off)
    with pytest.raises(Conflict, match="'asleep' is not active") as asleep:
        await client.trigger("asleep")
    assert (asleep.value.kind, asleep.value.faults) == ("conflict", (Fault("$.workflow", "it is not active"),))


@pytest.mark.parametrize(
    ("given", "words", "faults"),
    [
        (
            {},
            "Missing required fields: order; Missing template variables: customer.email",
            {Fault("$.order", "is required"), Fault("$.customer.email", "is read by the workflow")},
        ),
        (
            {"order": None, "customer": {}},
            "Missing template variables: customer.email",
            {Fault("$.customer.email", "is read by the workflow")},
        ),
    ],
)
async def test_everything_that_is_missing_is_named_at_once(
    client: AnyClient, given: Mapping[str, Any], words: str, faults: set[Fault]
) -> None:
    with pytest.raises(Refused) as refused:
        await client.trigger("strict", given)
    assert str(refused.value) == words
    assert (refused.value.kind, set(refused.value.faults)) == ("faulty-request", faults)


async def _campaign(place: Running, name: str, *, template: bool = True) -> None:
    """A campaign to one contact, with its template."""
    put = """SELECT dispatcher.put_templates(jsonb_build_array(jsonb_build_object('tenant_id', 'default',
                 'workspace_id', 'default', 'name', $1::text, 'channel', 'sms', 'default_locale', 'en', 'rights',
                 '[]'::jsonb, 'variables', '[]'::jsonb, 'sources',
                 '{"en": {"parts": {"body": "x"}, "partials": {}}}'::jsonb)), true, 'test')"""
    connection = place.runs.connection
    if template:
        await connection.execute(put, name)
    await connection.execute(
        "SELECT dispatcher.put_contact('default', 'default', $1, $2, 'put', NULL, 'x')", name, "{}"
    )
    said = {"channel": "sms", "template_name": name, "variables": {}, "audience": {"contacts": [name]}, "lane": 2}
    put = "SELECT dispatcher.put_campaign('default', 'default', $1, $2, 'test')"
    await connection.execute(put, name, json.dumps(said))


async def test_a_deployment_answers_its_run_and_its_key_the_same_run_by_the_other_client(
    client: AnyClient, other: AnyClient, place: Running
) -> None:
    name, key = _key(), _key()
    await _campaign(place, name)
    first = await client.deploy_campaign(name, scheduled_for=LATER, key=key)
    assert (first.campaign, first.status, first.intended, first.jobs, first.duplicate) == (name, "queued", 1, 1, False)
    for one in (other, client):
        again = await one.deploy_campaign(name, key=key)
        assert (again.id, again.duplicate, again.intended) == (first.id, True, 1)
    separate = [await client.deploy_campaign(name, scheduled_for=LATER) for _ in range(2)]
    assert len({first.id, *(one.id for one in separate)}) == 3
    at = "SELECT scheduled_for FROM dispatcher.campaign_runs WHERE id = $1"
    assert await place.runs.connection.fetchval(at, first.id) == LATER


async def test_a_deployment_that_cannot_be_says_why(client: AnyClient, place: Running) -> None:
    name, taken, key = _key(), _key(), _key()
    with pytest.raises(NotFound, match="there is no campaign") as unknown:
        await client.deploy_campaign(name)
    assert (unknown.value.kind, unknown.value.faults) == (
        "not-found",
        (Fault("$.campaign", "there is no such campaign"),),
    )
    await _campaign(place, name, template=False)
    with pytest.raises(Refused, match="template") as refused:
        await client.deploy_campaign(name)
    assert (refused.value.kind, _paths(refused.value)) == ("faulty-request", {"$.template"})
    await _campaign(place, taken)
    await _campaign(place, name)
    await client.deploy_campaign(taken, key=key)
    with pytest.raises(Conflict, match="was used for run") as used:
        await client.deploy_campaign(name, key=key)
    assert (used.value.kind, _paths(used.value)) == ("conflict", {"$.idempotency_key"})
    await place.runs.connection.execute("DELETE FROM dispatcher.contacts WHERE key = $1", name)
    with pytest.raises(Refused, match="unknown contacts") as gone:
        await client.deploy_campaign(name)
    assert _paths(gone.value) == {"$.audience.contacts"}
    for wrong in ({"key": ""}, {"scheduled_for": LATER.replace(tzinfo=None)}):
        with pytest.raises(Refused):
            await client.deploy_campaign(name, **wrong)


async def test_a_status_has_all_that_is_known(client: AnyClient, other: AnyClient) -> None:
    run = (await client.trigger("paying", {"price": 1.5}, key=_key())).id
    shown = await _waits(client, run)
    assert (shown.id, shown.workflow, shown.version, shown.status) == (run, "paying", 1, "waiting")
    assert (shown.current_steps, shown.total_steps, shown.ended) == (("n2",), 3, False)
    assert (shown.error, shown.error_step, shown.retry_count, shown.held) == (None, None, 0, 0)
    assert (shown.input, shown.context["n1"]["status"], shown.deliveries_total) == ({"price": 1.5}, "sent", 1)
    assert shown.triggered_by
    assert shown.started_at is not None
    assert shown.created_at <= shown.started_at
    assert await other.status(run) == shown


async def test_a_run_is_waited_for_and_its_progress_told(client: AnyClient, other: AnyClient) -> None:
    run = (await client.trigger("paying")).id
    told: list[Run] = []

    async def tell(state: Run) -> None:
        told.append(state)
        if state.status == "waiting":
            await other.signal(run, "paid", {"amount": Decimal("12.50")})

    ended = await client.wait(run, on_progress=tell, timeout=30, poll=0.02)
    assert (ended.status, ended.ended, ended.error) == ("completed", True, None)
    assert ended.context["n2"] == {"amount": 12.5}
    assert told[-1] == ended
    assert "waiting" in [state.status for state in told]
    assert all(one != two for one, two in pairwise(told))


async def test_a_run_that_fails_is_answered_with_its_error(client: AnyClient) -> None:
    run = (await client.trigger("failing")).id
    ended = await client.wait(run, timeout=30, poll=0.02)
    assert (ended.status, ended.error_step, ended.ended) == ("failed", "n1", True)
    assert ended.error


async def test_waiting_ends_in_time_and_names_the_run(client: AnyClient) -> None:
    run = (await client.trigger("paying")).id
    await _waits(client, run)
    with pytest.raises(TimeoutError) as late:
        await client.wait(run, timeout=0.05, poll=0.02)
    assert isinstance(late.value, WaitTimedOut)
    assert (late.value.run_id, late.value.run) == (run, await client.status(run))
    assert str(late.value) == f"run {run} of paying is waiting after 0.05 s"


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_error_of_the_callback_ends_the_wait(client: AnyClient, is_async: bool) -> None:
    run = (await client.trigger("paying")).id

    def broken(_: Run) -> None:
        raise TimeoutError("the callback's own")

    async def broken_later(_: Run) -> None:
        await asyncio.sleep(0)
        raise TimeoutError("the callback's own")

    with pytest.raises(TimeoutError, match="the callback's own"):
        await client.wait(run, on_progress=broken_later if is_async else broken, timeout=30)
    assert not (await client.status(run)).ended


async def test_a_run_is_cancelled_and_what_is_over_takes_nothing_more(client: AnyClient, other: AnyClient) -> None:
    run = (await client.trigger("paying")).id
    for _ in range(2):
        await client.cancel(run, reason=WHY)
        assert (await other.status(run)).status == "cancelled"
    sent = (await client.trigger("greeting")).id
    await client.wait(sent, timeout=30, poll=0.02)
    for late in (client.signal(run, "paid"), client.cancel(sent, reason=WHY)):
        with pytest.raises(Conflict) as conflict:
            await late
        assert conflict.value.kind == "conflict"
    with pytest.raises(Refused) as refused:
        await client.cancel(run, reason=" ")
    assert _paths(refused.value) == {"$.reason"}


@pytest.mark.parametrize("number", [0, 10**15, 2**70])
async def test_missing_runs_are_not_found(client: AnyClient, number: int) -> None:
    for call in (
        client.status(number),
        client.wait(number),
        client.signal(number, "paid"),
        client.cancel(number, reason=WHY),
        client.delivery(number),
        client.cancel_delivery(number, reason=WHY),
        client.delivery("no such key"),
        client.cancel_delivery("no such key", reason=WHY),
    ):
        with pytest.raises(NotFound) as unknown:
            await call
        assert (unknown.value.kind, unknown.value.faults) == ("not-found", ())


async def test_a_message_is_sent_once_by_either_client(client: AnyClient, other: AnyClient, place: Running) -> None:
    key = _key()
    sent = await client.send(_message(key, variables={"price": Decimal("1.1250")}))
    assert (sent.key, sent.duplicate) == (key, False)
    for one in (other, client):
        again = await one.send(_message(key, body="something else"))
        assert (again.id, again.duplicate) == (sent.id, True)
    await place.runs.outbox.until_life(sent.id, "sent")
    shown = await client.delivery(key)
    assert (shown.id, shown.key, shown.channel, shown.to, shown.lane) == (sent.id, key, "sms", "+4917012345", "normal")
    assert (shown.life, shown.status, shown.attempt, shown.error) == ("sent", "sent", 1, None)
    assert shown.finished_at is not None
    assert shown == await other.delivery(sent.id)
    kept = "SELECT template::text, variables::text FROM dispatcher.deliveries WHERE id = $1"
    row = await place.runs.connection.fetchrow(kept, sent.id)
    assert tuple(row or ()) == ('{"body": "Hello"}', '{"price": 1.1250}')


async def test_a_message_can_have_every_field(client: AnyClient, place: Running) -> None:
    key = _key()
    sent = await client.send(
        Message(
            key=key,
            channel="email",
            to="ann@example.org",
            template={"subject": "{{ a }}", "text": "b"},
            variables={"a": "ä"},
            options={"reply_to": "bob@example.org"},
            lane="bulk",
            scheduled_for=LATER,
            expires_at=LATER.replace(year=2041),
            max_attempts=7,
            topic="news",
        )
    )
    row = await place.runs.connection.fetchrow(
        """SELECT channel, recipient, template::text, variables::text, options::text, lane, scheduled_for, expires_at,
                  max_attempts, topic FROM dispatcher.deliveries WHERE id = $1""",
        sent.id,
    )
    assert dict(row or {}) == {
        "channel": "email",
        "recipient": "ann@example.org",
        "template": '{"text": "b", "subject": "{{ a }}"}',
        "variables": '{"a": "ä"}',
        "options": '{"reply_to": "bob@example.org"}',
        "lane": 2,
        "scheduled_for": LATER,
        "expires_at": LATER.replace(year=2041),
        "max_attempts": 7,
        "topic": "news",
    }
    assert (await client.delivery(sent.id)).lane == "bulk"


async def test_many_are_sent_or_none(client: AnyClient, place: Running) -> None:
    first, second, third = _key(), _key(), _key()
    faulty = [_message(first), _message(second, to=""), _message(third, lane="fast", max_attempts=0)]
    with pytest.raises(Refused) as refused:
        await client.send(faulty)
    found = {path.replace(".to", ".recipient") for path in _paths(refused.value)}
    assert found == {"$.deliveries[1].recipient", "$.deliveries[2].lane", "$.deliveries[2].max_attempts"}
    with pytest.raises(NotFound):
        await client.delivery(first)
    sent = await client.send([_message(third), _message(first), _message(third)])
    assert [(one.key, one.duplicate) for one in sent] == [(third, False), (first, False), (third, True)]
    assert sent[0].id == sent[2].id
    written = "SELECT count(*) FROM dispatcher.deliveries WHERE idempotency_key = ANY ($1)"
    assert await place.runs.connection.fetchval(written, [first, second, third]) == 2


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"template": {"body": "x"}}, "$.body"),
        ({"body": None, "template_name": "nowhere"}, "$.template_name"),
        ({"body": None}, "$.template"),
        ({"scheduled_for": LATER.replace(tzinfo=None)}, "$.scheduled_for"),
        ({"scheduled_for": datetime.max.replace(tzinfo=WEST)}, "$.scheduled_for"),
        ({"expires_at": datetime.min.replace(tzinfo=EAST)}, "$.expires_at"),
        ({"locale": "de"}, "$.locale"),
        ({"channel": "Smoke Signals"}, "$.channel"),
        ({"to": "+" * 2_001}, "$.recipient"),
        ({"lane": "fast"}, "$.lane"),
        ({"variables": {"a": object()}}, "$"),
        ({"variables": {"a": [None, float("nan")]}}, "$"),
        ({"variables": {"a": Decimal("NaN")}}, "$"),
        ({"topic": "Ä"}, "$.topic"),
        ({"key": ""}, "$.idempotency_key"),
    ],
)
async def test_a_faulty_message_is_refused_with_the_place_of_its_fault(
    client: AnyClient, fields: Mapping[str, Any], path: str
) -> None:
    with pytest.raises(Refused) as refused:
        await client.send(_message(_key(), **fields))
    assert _paths(refused.value) == {path}
    assert (refused.value.kind, bool(str(refused.value))) == ("faulty-request", True)


async def test_no_messages_are_refused(client: AnyClient) -> None:
    with pytest.raises(Refused, match="expected 1 to 5000"):
        await client.send([])


async def test_a_delivery_says_why_it_waits(client: AnyClient, place: Running) -> None:
    connection = place.runs.connection
    await connection.execute("SELECT dispatcher.pause_everywhere('channel', 'whatsapp', 'ann', 'too many')")
    try:
        # Until then it may be claimed, and sent.
        await until_heeded(connection)
        sent = await client.send(_message(_key(), channel="whatsapp"))
        assert (await client.delivery(sent.id)).waits == "channel whatsapp is paused by ann: too many"
    finally:
        await connection.execute("SELECT dispatcher.resume_everywhere('channel', 'whatsapp', 'ann')")


async def test_a_delivery_is_cancelled_by_its_id_or_its_key(client: AnyClient, other: AnyClient) -> None:
    one, two = await client.send([_message(_key(), scheduled_for=LATER) for _ in range(2)])
    await client.cancel_delivery(one.id, reason=WHY)
    await client.cancel_delivery(two.key, reason=WHY)
    for cancelled in (one, two):
        assert (await other.delivery(cancelled.id)).life == "skipped"
        with pytest.raises(Conflict):
            await client.cancel_delivery(cancelled.key, reason=WHY)


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
async def test_texts_that_cannot_be_stored_are_refused(client: AnyClient, text: str) -> None:
    run = (await client.trigger("paying")).id
    for call in (
        client.trigger("greeting", {"a": text}),
        client.trigger("greeting", key=text),
        client.signal(run, text),
        client.send(_message(text)),
        client.delivery(text),
        client.cancel_delivery(text, reason=WHY),
    ):
        with pytest.raises(Refused):
            await call


@pytest.mark.parametrize(
    ("kept", "shown"),
    [("20000-01-01", datetime.max), ("infinity", datetime.max), ("0044-03-15 BC", datetime.min)],
)
async def test_a_time_of_no_calendar_is_the_nearest(
    client: AnyClient, place: Running, kept: str, shown: datetime
) -> None:
    sent = await client.send(_message(_key(), scheduled_for=LATER))
    move = "UPDATE dispatcher.delivery_state SET run_at = $2::text::timestamptz, ready = false WHERE id = $1"
    await place.runs.connection.execute(move, sent.id, kept)
    assert (await client.delivery(sent.id)).run_at == shown.replace(tzinfo=UTC)


async def test_a_nul_is_called_by_its_name(client: AnyClient) -> None:
    run = (await client.trigger("paying")).id
    text = "a\0b"
    for call in (
        client.trigger("greeting", {"a": text}),
        client.trigger("greeting", key=text),
        client.signal(run, text),
        client.send(_message(text)),
        client.send([_message(_key()), _message(_key(), body=text)]),
        client.delivery(text),
    ):
        with pytest.raises(Refused, match="has a NUL character"):
            await call


async def test_both_satisfy_the_protocol(http: Client, inside: TransactionClient) -> None:
    clients: list[AnyClient] = [http, inside]
    assert len(clients) == 2
