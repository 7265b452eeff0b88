"""Events by both clients: told, answered and refused alike, and fallbacks that run at most once."""

import asyncio
from uuid import uuid4

import pytest

from dispatcher.client import AnyClient, Client, Conflict, Decision, Event, Refused, TransactionClient
from tests.conformance.runs import Running
from tests.support.rules import LEAD, QUOTE
from tests.support.scene import Connection

MAIL = ("email", "lead")


def _event(trigger: str = "lead_welcome", message_id: str | None = None) -> Event:
    return Event(
        trigger=trigger, variables={"quote": QUOTE}, lead=LEAD, message_id=message_id or uuid4().hex, source="tests"
    )


@pytest.fixture(params=["http", "inside"])
def client(request: pytest.FixtureRequest, http: Client, inside: TransactionClient) -> AnyClient:
    """Each of both."""
    return http if request.param == "http" else inside


async def test_an_event_is_told_once(client: AnyClient, place: Running) -> None:
    event = _event("quote_sent")
    mail, message = await client.notify(event)
    assert (mail.decision, mail.fallback, message.decision) == ("fallback", "message", "none")
    assert (await client.delivery(mail.delivery_ids[0])).to == LEAD["email"]
    again, _ = await client.notify(event)
    assert (again.decision, again.first_decision, again.event_id) == ("duplicate", "fallback", mail.event_id)


async def test_many_events_are_told_all_or_none(client: AnyClient) -> None:
    events = [_event() for _ in range(3)]
    with pytest.raises(Refused) as refused:
        await client.notify([*events, _event("lead_gone"), _event(message_id="x" * 300)])
    assert {fault.path for fault in refused.value.faults} >= {"$.events[4].message_id"}
    told = await client.notify([*events, events[1]])
    assert [one[0].decision for one in told] == ["fallback"] * 3 + ["duplicate"]
    with pytest.raises(Refused, match="expected 1 to 1000"):
        await client.notify([])


async def test_a_fallback_runs_once_and_one_that_raises_stops_nobody(client: AnyClient) -> None:
    ran: list[Decision] = []

    async def mail(one: Decision) -> None:
        ran.append(one)
        raise OSError("no server")

    async def message(one: Decision) -> None:
        ran.append(one)

    event = _event()
    fallbacks = {MAIL: mail, ("whatsapp", "lead"): message, ("email", "partner"): message}
    decisions = await client.notify(event, fallbacks=fallbacks)
    assert [one.outcome for one in decisions] == ["failed", "done"]
    again = await client.notify(event, fallbacks=fallbacks)
    assert [(one.decision, one.outcome) for one in again] == [("duplicate", "failed"), ("duplicate", "done")]
    assert [(one.channel, one.audience) for one in ran] == [MAIL, ("whatsapp", "lead")]


async def test_a_caller_that_dies_after_the_commit_runs_no_fallback_later(client: AnyClient, place: Running) -> None:
    async def dies(_: Decision) -> None:
        raise asyncio.CancelledError

    async def runs(_: Decision) -> None:
        raise AssertionError("a repeat has run a fallback")

    event = _event()
    with pytest.raises(asyncio.CancelledError):
        await client.notify(event, fallbacks={MAIL: dies})
    again, _ = await client.notify(event, fallbacks={MAIL: runs})
    assert (again.decision, again.outcome) == ("duplicate", None)


async def test_ten_callers_at_once_run_one_fallback(http: Client) -> None:
    ran: list[Decision] = []

    async def mail(one: Decision) -> None:
        ran.append(one)

    event = _event()
    await asyncio.gather(*(http.notify(event, fallbacks={MAIL: mail}) for _ in range(10)))
    assert len(ran) == 1


async def test_inside_a_transaction_a_fallback_waits_for_the_commit(
    application: Connection, inside: TransactionClient
) -> None:
    ran: list[Decision] = []

    async def mail(one: Decision) -> None:
        ran.append(one)

    event = _event()
    transaction = application.transaction()
    await transaction.start()
    with pytest.raises(Conflict, match="committed"):
        await inside.notify(event, fallbacks={MAIL: mail})
    decisions = await inside.notify(event)
    with pytest.raises(Conflict, match="committed"):
        await inside.run_fallbacks(decisions, {MAIL: mail})
    await transaction.commit()
    assert [one.outcome for one in await inside.run_fallbacks(decisions, {MAIL: mail})] == ["done", None]
    assert len(ran) == 1


async def test_what_is_rolled_back_was_never_told(application: Connection, inside: TransactionClient) -> None:
    event = _event()
    transaction = application.transaction()
    await transaction.start()
    await inside.notify(event)
    await transaction.rollback()
    assert (await inside.notify(event))[0].decision == "fallback"
