"""Properties of the ledger channel: each phase in which a call can end, on real sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from channels.contract import Accepted, Envelope, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.ledger import channel, connection
from channels.ledger.channel import Ledger, LedgerOptions
from dispatcher.db.database import Database
from dispatcher.selftest.proxy import Proxy
from tests.channels.suite import CONTENT, RECIPIENT, Post, Verdicts, body_of
from tests.faults.provider import Provider
from tests.faults.upstream import Streams, Upstream
from tests.support.scene import Scene

pytestmark = pytest.mark.anyio


@pytest.fixture
async def post(database: Database) -> Post:
    """Envelopes of a real claim and mark."""
    return Post(await Scene.open(database))


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    """A fake ledger that the test drives."""
    async with Upstream() as upstream:
        yield upstream


@pytest.fixture
async def ledger(upstream: Upstream) -> AsyncIterator[Ledger]:
    """A channel with one connection to the fake ledger."""
    ledger = Ledger(LedgerOptions(port=upstream.port, connections=1))
    yield ledger
    await ledger.close()


class Delivering:
    """One `deliver` under way."""

    def __init__(self, ledger: Ledger, envelopes: Sequence[Envelope]) -> None:
        self.envelopes = envelopes
        self.verdicts = Verdicts()
        self._changed = asyncio.Event()
        self.task = asyncio.create_task(ledger.deliver(envelopes, self._report))

    def _report(self, envelope: Envelope, verdict: Verdict) -> None:
        self.verdicts(envelope, verdict)
        self._changed.set()

    async def reported(self, count: int) -> None:
        """Return when there are this many verdicts."""
        while len(self.verdicts.reported) < count:
            self._changed.clear()
            await self._changed.wait()

    async def ended(self) -> list[Verdict]:
        """The verdicts of all, in the order of the envelopes."""
        async with asyncio.timeout(10):
            await self.task
        found = self.verdicts.once_each(self.envelopes)
        return [found[envelope.delivery_id] for envelope in self.envelopes]

    async def cancelled(self) -> list[Verdict]:
        """Cancel it; the verdicts that there are."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        return [verdict for _, verdict in self.verdicts.reported]


async def requests(streams: Streams, count: int) -> list[dict[str, Any]]:
    return [json.loads(await streams[0].readline()) for _ in range(count)]


def answer(streams: Streams, *answers: bytes) -> None:
    streams[1].write(b"".join(one + b"\n" for one in answers))


async def connected(ledger: Ledger, upstream: Upstream) -> Streams:
    await ledger.prepare(1)
    return await upstream.taken()


# Answers


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (b'{"accepted":"a-1"}', Accepted("a-1")),
        (b'{"refused":"recipient"}', Refused("the ledger says: recipient")),
        (b'{"retry":"asked_for"}', RetryAfter("the ledger says: asked_for")),
        (b'{"retry":"asked_for","seconds":3}', RetryAfter("the ledger says: asked_for", 3.0)),
        (b'{"throttled":2}', Throttled(2.0)),
    ],
)
async def test_an_answer_is_a_verdict(
    ledger: Ledger, upstream: Upstream, post: Post, said: bytes, verdict: Verdict
) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes())
    (request,) = await requests(streams, 1)
    answer(streams, said)
    assert await delivering.ended() == [verdict]
    assert request == {
        "key": delivering.envelopes[0].idempotency_key,
        "delivery_id": delivering.envelopes[0].delivery_id,
        "attempt": 1,
        "recipient": RECIPIENT,
        "body": {
            "subject": str(delivering.envelopes[0].delivery_id),
            "text": CONTENT,
            "body": body_of(delivering.envelopes[0].delivery_id),
        },
    }


@pytest.mark.parametrize("kind", [b"refused", b"retry"])
async def test_a_reason_in_words_of_its_own_is_not_passed_on(
    ledger: Ledger, upstream: Upstream, post: Post, kind: bytes
) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes())
    await requests(streams, 1)
    answer(streams, b'{"%s":"nobody is called %s"}' % (kind, RECIPIENT.encode()))
    assert RECIPIENT not in str(await delivering.ended())


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense",
        b"",
        b"{}",
        b"\xff",
        b'{"accepted":""}',
        b'{"accepted":"a","refused":"b"}',
        b'{"throttled":-1}',
        b'{"throttled":1e999}',
        b'{"accepted":null}',
        b"9" * 70_000,
    ],
)
async def test_an_invalid_reply_makes_it_and_all_later_calls_unknown(
    ledger: Ledger, upstream: Upstream, post: Post, said: bytes
) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(3))
    await requests(streams, 3)
    answer(streams, b'{"accepted":"a"}', said, b'{"accepted":"b"}')
    first, *others = await delivering.ended()
    assert first == Accepted("a")
    assert [type(verdict) for verdict in others] == [Unknown, Unknown]


async def test_an_answer_in_pieces_is_put_together(ledger: Ledger, upstream: Upstream, post: Post) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(2))
    await requests(streams, 2)
    for piece in (b'{"acce', b'pted":"a"}\n{"accepted":', b'"b"}\n'):
        streams[1].write(piece)
        await streams[1].drain()
    assert await delivering.ended() == [Accepted("a"), Accepted("b")]


async def test_an_unexpected_answer_ends_the_connection(ledger: Ledger, upstream: Upstream) -> None:
    streams = await connected(ledger, upstream)
    answer(streams, b'{"accepted":"a"}')
    assert await streams[0].read() == b""


# Phases


async def test_without_a_listener_prepare_fails_and_deliver_begins_nothing(post: Post) -> None:
    async with Upstream() as gone:
        port = gone.port
    ledger = Ledger(LedgerOptions(port=port))
    with pytest.raises(OSError):  # noqa: PT011 - the kind is what the sender goes by, whatever the words
        await ledger.prepare(1)
    assert await Delivering(ledger, await post.envelopes(2)).ended() == [RetryAfter("no connection")] * 2
    await ledger.close()


async def test_a_connection_that_was_lost_before_the_call_is_replaced(
    ledger: Ledger, upstream: Upstream, post: Post
) -> None:
    streams = await connected(ledger, upstream)
    lost = Delivering(ledger, await post.envelopes())
    await requests(streams, 1)
    streams[1].transport.abort()
    assert await lost.ended() == [Unknown("the connection was lost before the answer")]
    delivering = Delivering(ledger, await post.envelopes())
    streams = await upstream.taken()
    await requests(streams, 1)
    answer(streams, b'{"accepted":"a"}')
    assert await delivering.ended() == [Accepted("a")]


async def test_a_connection_that_is_lost_in_the_middle_of_a_batch_takes_only_what_was_sent_on_it(
    ledger: Ledger, upstream: Upstream, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNANSWERED_MAX", 2)
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(4))
    sent = await requests(streams, 2)
    streams[1].transport.abort()
    streams = await upstream.taken()
    others = await requests(streams, 2)
    answer(streams, *[b'{"accepted":"a"}'] * 2)
    unknown = Unknown("the connection was lost before the answer")
    assert await delivering.ended() == [unknown, unknown, Accepted("a"), Accepted("a")]
    assert [one["delivery_id"] for one in sent + others] == [one.delivery_id for one in delivering.envelopes]


async def test_answers_before_a_lost_connection_count_and_the_rest_is_unknown(
    ledger: Ledger, upstream: Upstream, post: Post
) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(3))
    await requests(streams, 3)
    answer(streams, b'{"accepted":"a"}')
    streams[1].write_eof()
    first, *others = await delivering.ended()
    assert first == Accepted("a")
    assert others == [Unknown("the connection was lost before the answer")] * 2


async def test_a_message_that_is_too_large_is_refused_before_it_is_sent(
    ledger: Ledger, upstream: Upstream, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "REQUEST_BYTES_MAX", 400)
    streams = await connected(ledger, upstream)
    large, small = await post.envelopes(2)
    delivering = Delivering(ledger, [structs.replace(large, parts={"text": "x" * 400}), small])
    assert [request["delivery_id"] for request in await requests(streams, 1)] == [small.delivery_id]
    answer(streams, b'{"accepted":"a"}')
    assert await delivering.ended() == [Refused("the message is too large for the ledger"), Accepted("a")]


async def test_a_connection_carries_no_more_than_its_limit_and_the_licence_is_asked_when_there_is_room(
    ledger: Ledger, upstream: Upstream, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNANSWERED_MAX", 2)
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(4))
    await requests(streams, 2)
    answer(streams, b'{"accepted":"a"}')
    await requests(streams, 1)
    post.now = 10.0
    answer(streams, b'{"accepted":"b"}', b'{"accepted":"c"}')
    assert await delivering.ended() == [
        Accepted("a"),
        Accepted("b"),
        Accepted("c"),
        NotCalled("the licence ran out"),
    ]


async def test_prepare_opens_as_many_connections_as_are_asked_for_and_no_more(upstream: Upstream, post: Post) -> None:
    ledger = Ledger(LedgerOptions(port=upstream.port, connections=3))
    await asyncio.gather(*(ledger.prepare(100) for _ in range(5)))
    sides = [await upstream.taken() for _ in range(3)]
    assert upstream.waiting.empty()
    delivering = Delivering(ledger, await post.envelopes(6))
    for streams in sides:
        await requests(streams, 2)
        answer(streams, *[b'{"accepted":"a"}'] * 2)
    assert await delivering.ended() == [Accepted("a")] * 6
    await ledger.close()


# Cancellation


async def test_cancelled_it_goes_at_once_and_the_connection_with_it(
    ledger: Ledger, upstream: Upstream, post: Post
) -> None:
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(2))
    await requests(streams, 2)
    answer(streams, b'{"accepted":"a"}')
    await delivering.reported(1)
    assert await delivering.cancelled() == [Accepted("a")]
    assert await streams[0].read() == b""
    assert await connected(ledger, upstream) is not streams


async def test_a_cancelled_batch_names_the_uncalled_deliveries(
    ledger: Ledger, upstream: Upstream, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "UNANSWERED_MAX", 1)
    streams = await connected(ledger, upstream)
    delivering = Delivering(ledger, await post.envelopes(3))
    await requests(streams, 1)
    assert await delivering.cancelled() == [NotCalled("cut off before the call")] * 2
    assert [one for one, _ in delivering.verdicts.reported] == [
        envelope.delivery_id for envelope in delivering.envelopes[1:]
    ]


async def test_a_cancelled_batch_takes_no_other_with_it_and_no_new_one_stands_behind_it(
    ledger: Ledger, upstream: Upstream, post: Post
) -> None:
    streams = await connected(ledger, upstream)
    given_up = Delivering(ledger, await post.envelopes(1))
    await requests(streams, 1)
    other = Delivering(ledger, await post.envelopes(1))
    await requests(streams, 1)
    assert await given_up.cancelled() == []
    new_streams = await connected(ledger, upstream)
    new = Delivering(ledger, await post.envelopes(1))
    await requests(new_streams, 1)
    answer(streams, b'{"accepted":"late"}', b'{"accepted":"other"}')
    assert await other.ended() == [Accepted("other")]
    assert await streams[0].read() == b""
    answer(new_streams, b'{"accepted":"new"}')
    assert await new.ended() == [Accepted("new")]
    assert given_up.verdicts.reported == []


async def test_connections_that_were_given_up_on_have_a_limit(
    ledger: Ledger, upstream: Upstream, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "RETIRED_MAX", 1)
    waiting: list[Delivering] = []
    for _ in range(2):
        streams = await connected(ledger, upstream)
        given_up = Delivering(ledger, await post.envelopes(1))
        waiting.append(Delivering(ledger, await post.envelopes(1)))
        await requests(streams, 2)
        await given_up.cancelled()
    assert await waiting[0].ended() == [Unknown("the connection was lost before the answer")]
    assert not waiting[1].task.done()
    await waiting[1].cancelled()


async def test_cancelled_while_connecting_it_leaves_no_connection(upstream: Upstream) -> None:
    ledger = Ledger(LedgerOptions(port=upstream.port, connections=4))
    preparing = asyncio.create_task(ledger.prepare(4))
    await asyncio.sleep(0)
    preparing.cancel()
    with suppress(asyncio.CancelledError):
        await preparing
    await ledger.prepare(4)
    await ledger.close()


# The real one


async def test_accepted_messages_are_recorded_although_the_answer_is_lost(post: Post, tmp_path: Path) -> None:
    async with Provider(tmp_path / "books", "--drop", "0.2", "--seed", "4", "--dedupe") as provider:
        ledger = Ledger(LedgerOptions(port=provider.port, keyed=True))
        assert ledger.idempotency_key_seconds > 0
        waiting = {envelope.idempotency_key: envelope for envelope in await post.envelopes(100)}
        accepted: dict[str, str] = {}
        unknown = 0
        for attempt in range(1, 1_000):
            if not waiting:
                break
            # In small batches: what stands behind a dropped one is unknown too.
            batch = [structs.replace(envelope, attempt=attempt) for envelope in list(waiting.values())[:8]]
            await ledger.prepare(len(batch))
            for envelope, verdict in zip(batch, await Delivering(ledger, batch).ended(), strict=True):
                if isinstance(verdict, Accepted):
                    accepted[envelope.idempotency_key] = verdict.provider_message_id
                    del waiting[envelope.idempotency_key]
                else:
                    unknown += isinstance(verdict, Unknown)
        await ledger.close()
        books = provider.entries()
    assert not waiting
    assert unknown
    assert {key: f"ledger-{entry.first_sequence}" for key, entry in books.items()} == accepted
    assert {entry.accepted for entry in books.values()} == {1}
    assert any(entry.again for entry in books.values())


async def test_a_line_that_swallows_an_answer_makes_it_unknown(post: Post, tmp_path: Path) -> None:
    async with (
        Provider(tmp_path / "books") as provider,
        Proxy("127.0.0.1", f"127.0.0.1:{provider.port}", "lines") as proxy,
    ):
        ledger = Ledger(LedgerOptions(port=proxy.port, connections=1))
        await ledger.prepare(1)
        proxy.swallow_answers(1)
        (verdict,) = await Delivering(ledger, await post.envelopes()).ended()
        await ledger.close()
        assert isinstance(verdict, Unknown)
        assert [entry.accepted for entry in provider.entries().values()] == [1]
