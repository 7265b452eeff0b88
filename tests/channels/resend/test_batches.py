"""Properties of the Resend channel where messages go together: whatever happens, none is sent twice."""

import asyncio
import random
from base64 import b64encode
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from channels.contract import Accepted, Envelope, NotCalled, Refused, RetryAfter, Throttled, Unknown
from channels.resend import channel as module
from channels.resend.channel import Resend
from channels.resend.options import ResendOptions
from tests.channels.resend.conftest import Opened, delivered
from tests.channels.resend.fake import (
    KEY,
    AtWork,
    FakeResend,
    Fault,
    Hanging,
    dropped,
    says,
    taken_and_dropped,
    taken_and_says,
)
from tests.channels.suite import CONTENT, Post, Verdicts
from tests.support.waits import until

FILE = {"name": "a.txt", "content": b64encode(b"x").decode()}


@pytest.fixture(autouse=True)
def _repeats_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REPEATS_AFTER_SECONDS", (0.0, 0.0))


def sizes(fake: FakeResend) -> list[int]:
    """How many messages each call carried."""
    return [len(request.messages) for request in fake.requests]


async def test_a_channel_with_batches_promises_no_key(opened: Opened) -> None:
    """Through a crash too: what was marked is then held, for nobody could repeat the call that it was in."""
    assert opened(batch=True).idempotency_key_seconds == 0
    assert opened().idempotency_key_seconds == 86_400


async def test_off_unless_asked_for(fake: FakeResend, opened: Opened, post: Post) -> None:
    await delivered(opened(), await post.envelopes(5))
    assert sizes(fake) == [1] * 5


async def test_a_hundred_go_together_under_one_key(fake: FakeResend, opened: Opened, post: Post) -> None:
    envelopes = await post.envelopes(230)
    verdicts = await delivered(opened(batch=True), envelopes)
    assert sorted(sizes(fake)) == [30, 100, 100]
    assert len({request.key for request in fake.requests}) == 3
    ids = {mail.delivery: mail.id for mail in fake.sent}
    assert verdicts == [Accepted(ids[envelope.delivery_id]) for envelope in envelopes]


async def test_one_alone_goes_under_its_own_key(fake: FakeResend, opened: Opened, post: Post) -> None:
    (envelope,) = await post.envelopes()
    await delivered(opened(batch=True), [envelope])
    await delivered(opened(), [structs.replace(envelope, attempt=2)])
    assert [request.path for request in fake.requests] == ["/emails"] * 2
    assert len(fake.sent) == 1


async def test_no_later_attempt_and_no_file_goes_with_others(fake: FakeResend, opened: Opened, post: Post) -> None:
    """A message that may have gone out alone is repeated alone, under its own key."""
    first, second, third, *rest = await post.envelopes(8)
    files = structs.replace(third, options={"attachments": [FILE]})
    await delivered(opened(), [second])
    batch = [first, structs.replace(second, attempt=2), files, *rest]
    await delivered(opened(batch=True, connections=1), batch)
    assert sizes(fake)[1:] == [1, 1, 1, 5]
    assert set(fake.times().values()) == {1}


async def test_one_that_is_faulty_is_refused_and_the_others_are_taken(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    envelopes = await post.envelopes(5)
    envelopes[2] = structs.replace(envelopes[2], parts={"subject": "refuse-me", "text": CONTENT})
    verdicts = await delivered(opened(batch=True), envelopes)
    assert [type(verdict) for verdict in verdicts] == [Accepted, Accepted, Refused, Accepted, Accepted]
    assert verdicts[2] == Refused("resend says validation_error: Invalid `to` field: … in ….")
    assert [mail.delivery for mail in fake.sent] == [one.delivery_id for one in envelopes if one is not envelopes[2]]
    assert {mail.id for mail in fake.sent} == {
        verdict.provider_message_id for verdict in verdicts if isinstance(verdict, Accepted)
    }


async def test_one_that_cannot_be_made_is_not_asked_about(fake: FakeResend, opened: Opened, post: Post) -> None:
    envelopes = await post.envelopes(4)
    envelopes[0] = structs.replace(envelopes[0], recipient="nobody")
    envelopes[3] = structs.replace(envelopes[3], options={"cc": "x"})
    verdicts = await delivered(opened(batch=True), envelopes)
    assert [type(verdict) for verdict in verdicts] == [Refused, Accepted, Accepted, Refused]
    assert sizes(fake) == [2]


@pytest.mark.parametrize("status", [400, 403, 413, 422])
async def test_refused_batches_are_sent_one_by_one(fake: FakeResend, opened: Opened, post: Post, status: int) -> None:
    """None of it was taken, and the others are not to blame."""
    fake.faults.append(says(status, ("validation_error", "One of them is wrong.")))
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Accepted}
    assert sizes(fake) == [5, 1, 1, 1, 1, 1]
    assert set(fake.times().values()) == {1}


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        (says(403, ("invalid_api_key", "API key is invalid")), Refused),
        (says(404, ("not_found", "The requested endpoint does not exist")), Refused),
        (says(403, b"<html>error code: 1010</html>"), RetryAfter),
        (says(429, ("rate_limit_exceeded", "Too many requests."), retry_after="60"), Throttled),
        (says(409, ("invalid_idempotent_request", "Another payload.")), Unknown),
    ],
)
async def test_common_response_headers_are_described_for_each_operation(
    fake: FakeResend, opened: Opened, post: Post, fault: Fault, verdict: type
) -> None:
    fake.every = fault
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(found) for found in verdicts} == {verdict}
    assert sizes(fake) == [5]


LOST = [
    taken_and_dropped,
    taken_and_says(500, ("application_error", "An unexpected error occurred.")),
    taken_and_says(502, b"<html></html>"),
    taken_and_says(200, b"<html></html>"),
    dropped,
]


@pytest.mark.parametrize("fault", LOST)
async def test_a_lost_answer_is_asked_for_by_the_very_same_call(
    fake: FakeResend, opened: Opened, post: Post, fault: Fault
) -> None:
    fake.faults.append(fault)
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Accepted}
    first, second = fake.requests
    assert (first.path, first.key, first.body) == (second.path, second.key, second.body)
    assert set(fake.times().values()) == {1}


@pytest.mark.parametrize("fault", LOST)
async def test_an_outcome_that_no_repeat_reveals_is_unknown(
    fake: FakeResend, opened: Opened, post: Post, fault: Fault
) -> None:
    fake.every = fault
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Unknown}
    assert sizes(fake) == [5, 5, 5]
    assert len({(request.key, request.body) for request in fake.requests}) == 1
    assert set(fake.times().values()) <= {1}


@pytest.mark.parametrize(
    "second",
    [
        says(429, ("rate_limit_exceeded", "Too many requests.")),
        says(422, ("validation_error", "One of them is wrong.")),
        says(403, ("invalid_api_key", "API key is invalid")),
        says(403, b"<html></html>"),
    ],
)
async def test_the_answer_to_a_repeat_says_nothing_about_the_first_call(
    fake: FakeResend, opened: Opened, post: Post, second: Fault
) -> None:
    fake.faults += [taken_and_dropped, second, second]
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Unknown}
    assert set(fake.times().values()) == {1}


async def test_the_first_call_may_still_be_at_work(fake: FakeResend, opened: Opened, post: Post) -> None:
    at_work = AtWork()

    async def done(_fake: FakeResend, _http: Any, request: Any) -> Any:
        at_work.done(fake)
        return await fake.behave(request)

    fake.faults += [at_work, None, done]
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Accepted}
    assert fake.statuses[1:] == [409, 200]
    assert set(fake.times().values()) == {1}


async def test_nothing_is_repeated_after_the_licence(fake: FakeResend, opened: Opened, post: Post) -> None:
    async def late(fake: FakeResend, http: Any, request: Any) -> Any:
        post.now = 10.0
        return await taken_and_dropped(fake, http, request)

    fake.every = late
    verdicts = await delivered(opened(batch=True), await post.envelopes(5))
    assert {type(verdict) for verdict in verdicts} == {Unknown}
    assert len(fake.requests) == 1


async def test_a_licence_that_ends_before_the_first_byte_leaves_all_uncalled(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    asked = 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        # The mark asks first, and then for each message whoever composes it.
        return 0.0 if asked <= 6 else 10.0

    verdicts = await delivered(opened(batch=True), await post.envelopes(5, clock))
    assert set(verdicts) == {NotCalled("the licence ran out")}
    assert fake.requests == []


async def test_cut_off_in_the_middle_of_a_call_nothing_is_said_of_its_messages(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    """A message without a report counts as unknown."""
    envelopes, verdicts, hanging = await post.envelopes(5), Verdicts(), Hanging()
    fake.every = hanging
    calling = asyncio.create_task(opened(batch=True).deliver(envelopes, verdicts))
    await hanging.begun.wait()
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling
    assert verdicts.reported == []


async def test_a_call_is_bounded_in_bytes(
    fake: FakeResend, opened: Opened, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BATCH_BYTES_MAX", 1_200)
    await delivered(opened(batch=True, connections=1), await post.envelopes(8))
    assert max(len(request.body) for request in fake.requests) <= 1_200 + 50
    assert sum(sizes(fake)) == 8
    assert max(sizes(fake)) > 1


# Any course of events


FAULTS: list[Fault | None] = [
    None,
    *LOST,
    says(422, ("validation_error", "One of them is wrong.")),
    says(429, ("rate_limit_exceeded", "Too many requests."), retry_after="0"),
    says(503),
    says(403, b"<html></html>"),
]


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_none_is_sent_twice(post: Post, seed: int) -> None:
    """A dispatcher in short: what was not taken comes again, with others; what is unknown, or was cut off, only where a
    key is promised; and a reload turns batches on and off at any time."""
    for course in range(25):
        dice = random.Random(f"{seed}:{course}")  # noqa: S311 - a course of events that can be had again
        async with FakeResend() as fake:
            fake.faults.extend(dice.choices(FAULTS, k=dice.randrange(9)))
            waiting = await post.envelopes(4)
            for _ in range(6):
                options: dict[str, Any] = {
                    "batch": dice.random() < 0.5,
                    "batch_max": 3,
                    "connections": dice.choice([1, 4]),
                }
                channel = Resend(ResendOptions(api_key=KEY, sender="shop@example.net", url=fake.url, **options))
                dice.shuffle(waiting)
                waiting = await _round(
                    channel, waiting, cut_off_after=dice.choice([None, None, len(fake.requests) + 1]), fake=fake
                )
                await channel.close()
            assert set(fake.times().values()) <= {1}, f"course {seed}:{course}"


async def _round(
    channel: Resend, waiting: list[Envelope], cut_off_after: int | None, fake: FakeResend
) -> list[Envelope]:
    """One `deliver`, given up after so many requests perhaps; answers what is to be sent again."""
    verdicts = Verdicts()
    calling = asyncio.create_task(channel.deliver(waiting, verdicts))
    if cut_off_after is not None:
        await until(lambda: calling.done() or len(fake.requests) >= cut_off_after, "it has called so often")
        calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling
    found = dict(verdicts.reported)
    again: list[Envelope] = []
    for envelope in waiting:
        match found.get(envelope.delivery_id, Unknown("no verdict was given")):
            case Throttled() | NotCalled():
                again.append(envelope)
            case RetryAfter():
                again.append(structs.replace(envelope, attempt=envelope.attempt + 1))
            case Unknown(hold=False) if channel.idempotency_key_seconds:
                again.append(structs.replace(envelope, attempt=envelope.attempt + 1))
            case _:
                pass
    return again
