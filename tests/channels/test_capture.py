"""The capture channel's own judgement by phase: what had not begun was not sent, what had begun is unknown."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NoReturn

import asyncpg
import pytest
from msgspec import structs

from channels.capture.channel import Capture, CaptureOptions
from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Unknown
from dispatcher.db.database import Database
from tests.channels.suite import Post, Verdicts, kept
from tests.support.scene import Scene

TROUBLE: list[Callable[[], Exception]] = [
    ConnectionRefusedError,
    TimeoutError,
    lambda: asyncpg.CannotConnectNowError("the database system is starting up"),
    lambda: asyncpg.TooManyConnectionsError("sorry, too many clients already"),
    lambda: asyncpg.InterfaceError("pool is closing"),
    lambda: asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
    lambda: asyncpg.AdminShutdownError("terminating connection due to administrator command"),
]
each_trouble = pytest.mark.parametrize("trouble", TROUBLE, ids=lambda trouble: type(trouble()).__name__)


@pytest.fixture
async def post(database: Database) -> Post:
    """Envelopes for the channel under test."""
    return Post(await Scene.open(database))


@each_trouble
async def test_without_a_connection_nothing_was_sent(trouble: Callable[[], Exception], post: Post) -> None:
    class Away(AbstractAsyncContextManager[Any]):
        async def __aenter__(self) -> NoReturn:
            raise trouble()

        async def __aexit__(self, *_: object) -> None:
            """It was never entered."""

    envelopes, verdicts = await post.envelopes(3), Verdicts()
    await Capture(Away).deliver(envelopes, verdicts)
    assert all(isinstance(one, RetryAfter | NotCalled) for one in verdicts.once_each(envelopes).values())


@each_trouble
async def test_a_statement_that_was_cut_off_is_unknown(trouble: Callable[[], Exception], post: Post) -> None:
    class CutOff:
        async def fetch(self, *_: object) -> None:
            raise trouble()

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        yield CutOff()

    envelopes, verdicts = await post.envelopes(3), Verdicts()
    await Capture(connect).deliver(envelopes, verdicts)
    assert all(isinstance(one, Unknown) for one in verdicts.once_each(envelopes).values())


async def test_a_late_call_is_reported_once_although_the_rest_is_cancelled(post: Post) -> None:
    class CutOff:
        async def fetch(self, *_: object) -> None:
            raise ConnectionResetError

    @asynccontextmanager
    async def connect() -> AsyncIterator[Any]:
        yield CutOff()

    times = iter([0.0, 0.0, 10.0, 10.0])
    envelopes, verdicts = await post.envelopes(3, lambda: next(times)), Verdicts()
    await Capture(connect).deliver(envelopes, verdicts)
    assert [type(one) for one in verdicts.once_each(envelopes).values()].count(NotCalled) == 2


async def test_the_stored_message_equals_the_sent_one(post: Post, database: Database) -> None:
    (envelope,), verdicts = await post.envelopes(1, priority="high"), Verdicts()
    await Capture(database.connection).deliver([envelope], verdicts)
    (row,) = await kept(database)
    assert row["idempotency_key"] == envelope.idempotency_key
    assert (row["channel"], row["recipient"], row["attempt"]) == ("chat", envelope.recipient, 1)
    assert (json.loads(row["parts"]), row["options"]) == (envelope.parts, '{"priority": "high"}')
    (_, verdict) = verdicts.reported[0]
    assert isinstance(verdict, Accepted)
    number = await database.value("SELECT id FROM dispatcher.captured_messages")
    assert verdict.provider_message_id == f"capture-{number}"


@pytest.mark.parametrize(
    ("channel", "recipient", "is_taken"),
    [
        ("email", "ann@example.org", True),
        ("email", "Ann <ann@bücher.example>", True),
        ("email", "nobody", False),
        ("email", "ann@", False),
        ("email", "+4917012345", False),
        ("sms", "+49 170 12345", True),
        ("sms", "004917012345", True),
        ("sms", "+49", False),
        ("sms", "017012345", False),
        ("sms", "+1234567890123456", False),
        ("voice", "ann@example.org", False),
        ("whatsapp", "whatsapp:+4917012345", True),
        ("whatsapp", "nobody", False),
        ("chat", "nobody", True),
        ("push", "t1", True),
    ],
)
async def test_recipients_whom_no_provider_could_reach_are_refused_unless_it_is_switched_off(
    channel: str, recipient: str, is_taken: bool, post: Post, database: Database
) -> None:
    envelopes = [structs.replace(one, channel=channel, recipient=recipient) for one in await post.envelopes(1)]
    for refuses in (True, False):
        verdicts = Verdicts()
        await Capture(database.connection, CaptureOptions(refuse_faulty_recipients=refuses)).deliver(
            envelopes, verdicts
        )
        (verdict,) = verdicts.once_each(envelopes).values()
        assert isinstance(verdict, Accepted if is_taken or not refuses else Refused), verdict
        if isinstance(verdict, Refused):
            assert verdict.reason.startswith("recipient: ")
    assert len(await kept(database)) == (2 if is_taken else 1)


async def test_one_who_cannot_be_reached_does_not_keep_others_from_it(post: Post, database: Database) -> None:
    made = await post.envelopes(3)
    first, second, third = [structs.replace(one, channel="sms", recipient="+4917012345") for one in made]
    batch, verdicts = [first, structs.replace(second, recipient="nobody"), third], Verdicts()
    await Capture(database.connection).deliver(batch, verdicts)
    told = verdicts.once_each(batch)
    assert [type(told[one.delivery_id]) for one in batch] == [Accepted, Refused, Accepted]
    assert {row["delivery_id"] for row in await kept(database)} == {first.delivery_id, third.delivery_id}
