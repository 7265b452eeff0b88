"""Properties of the Resend channel: what each answer, and each missing one, says about a message that went alone."""

import asyncio
import logging
import socket
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from msgspec import structs
from structlog.testing import capture_logs

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Unready, Verdict
from channels.resend import answers
from channels.resend.api import ANSWER_BYTES_MAX
from channels.shared.web.answers import WAIT_SECONDS_MAX
from channels.shared.web.client import Answer
from tests.channels.resend.conftest import Opened, delivered
from tests.channels.resend.fake import (
    KEY,
    FakeResend,
    Fault,
    Hanging,
    cut_off,
    dropped,
    endless,
    says,
    taken_and_dropped,
    taken_and_says,
)
from tests.channels.suite import CONTENT, RECIPIENT, Post, Verdicts
from tests.support.waits import until


async def test_a_message_is_accepted_under_its_key(fake: FakeResend, opened: Opened, post: Post) -> None:
    envelopes = await post.envelopes(3)
    verdicts = await delivered(opened(), envelopes)
    assert {verdict.provider_message_id for verdict in verdicts if isinstance(verdict, Accepted)} == {
        mail.id for mail in fake.sent
    }
    assert len({request.key for request in fake.requests}) == 3
    assert {request.headers["user-agent"] for request in fake.requests} == {"dispatcher"}


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        (says(400, ("validation_error", "The `to` field is wrong.")), Refused),
        (says(400, ("invalid_idempotency_key", "The key must be between 1-256 chars.")), Refused),
        (says(401, ("missing_api_key", "Missing API key.")), Refused),
        (says(403, ("validation_error", "The domain is not verified.")), Refused),
        (says(404, ("not_found", "The requested endpoint does not exist.")), Refused),
        (says(422, ("missing_required_field", "A field is missing.")), Refused),
        (says(451, ("security_error", "We may have found a security issue.")), Refused),
        (says(403, b"<html>error code: 1010</html>"), RetryAfter),
        (says(413, b""), RetryAfter),
        (says(301, b"", Location="https://example.org/"), RetryAfter),
        (says(307, b"", Location="https://example.org/"), RetryAfter),
        (says(408, ("application_error", "Time-out.")), Unknown),
        (says(409, ("concurrent_idempotent_requests", "It is in progress.")), Unknown),
        (says(409, b"<html></html>"), Unknown),
        (says(429, ("rate_limit_exceeded", "Too many requests.")), Throttled),
        (says(500, ("application_error", "An unexpected error occurred.")), Unknown),
        (says(502, b"<html>Bad gateway</html>"), Unknown),
        (says(503), Unknown),
        (says(200, b"<html>Welcome to this hotel's network</html>"), Unknown),
        (says(200, {"data": []}), Unknown),
        (says(200, {"id": ""}), Unknown),
        (says(200, {"id": 7}), Unknown),
        (says(200, b"\xff\xfe"), Unknown),
        (says(204), Unknown),
        (cut_off, Unknown),
        (endless, Unknown),
        (dropped, Unknown),
    ],
)
async def test_an_answer_is_a_verdict(
    fake: FakeResend, opened: Opened, post: Post, said: Fault, verdict: type[Verdict]
) -> None:
    fake.faults.append(said)
    (found,) = await delivered(opened(), await post.envelopes())
    assert type(found) is verdict
    assert len(fake.requests) == 1, "nothing is called twice"


async def test_a_key_that_was_used_for_something_else_is_held(fake: FakeResend, opened: Opened, post: Post) -> None:
    """The same call again could never tell, whatever the key is good for."""
    channel, (envelope,) = opened(), await post.envelopes()
    await delivered(channel, [envelope])
    other = structs.replace(envelope, parts={"subject": "Another", "text": CONTENT}, attempt=2)
    assert await delivered(channel, [other]) == [Unknown("409 invalid_idempotent_request", hold=True)]
    assert len(fake.sent) == 1


@pytest.mark.parametrize(
    "fault",
    [
        taken_and_dropped,
        taken_and_says(500, ("application_error", "An unexpected error occurred.")),
        taken_and_says(503),
        taken_and_says(200, b"<html></html>"),
    ],
)
async def test_an_unknown_outcome_is_repeated_under_its_key_and_sent_once(
    fake: FakeResend, opened: Opened, post: Post, fault: Fault
) -> None:
    channel, (envelope,) = opened(), await post.envelopes()
    fake.faults.append(fault)
    (unknown,) = await delivered(channel, [envelope])
    assert isinstance(unknown, Unknown)
    assert not unknown.hold
    again = structs.replace(envelope, attempt=2)
    assert await delivered(channel, [again]) == [Accepted(fake.sent[0].id)]
    first, second = fake.requests
    assert (first.key, first.body) == (second.key, second.body)
    assert len(fake.sent) == 1
    assert channel.idempotency_key_seconds == 86_400


async def test_an_attempt_meets_an_earlier_one_that_is_still_at_work(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    channel, (envelope,), hanging = opened(), await post.envelopes(), Hanging()
    fake.faults.append(hanging)
    first = asyncio.create_task(delivered(channel, [envelope]))
    await hanging.begun.wait()
    # Its answer is awaited elsewhere: another replica, after this one was taken for dead.
    other, again = opened(), structs.replace(envelope, attempt=2)
    assert await delivered(other, [again]) == [Unknown("409 concurrent_idempotent_requests")]
    hanging.let_go.set()
    assert await first == await delivered(other, [again]) == [Accepted(fake.sent[0].id)]


async def test_without_a_connection_nothing_is_marked(opened: Opened, post: Post) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        channel = opened(url=f"http://127.0.0.1:{nobody.getsockname()[1]}")
        with pytest.raises(Unready, match="cannot be reached"):
            await channel.prepare(1)
        (verdict,) = await delivered(channel, await post.envelopes())
    assert isinstance(verdict, RetryAfter)


async def test_it_is_reached_before_the_mark_without_sending_anything(fake: FakeResend, opened: Opened) -> None:
    await opened().prepare(5)
    assert fake.requests == []


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "new"])
async def test_the_licence_is_looked_at_with_the_connection_at_hand(
    fake: FakeResend, opened: Opened, post: Post, kept: bool
) -> None:
    """It ends after everything else was ready, and before the first byte."""
    asked = 0

    def clock() -> float:
        nonlocal asked
        asked += 1
        # The mark asks first, then whoever composes the message, and last whoever writes it.
        return 0.0 if asked <= 2 else 10.0

    channel = opened()
    if kept:
        await channel.prepare(1)
    verdicts = await delivered(channel, await post.envelopes(1, clock))
    assert verdicts == [NotCalled("the licence ran out")]
    assert asked == 3
    assert fake.requests == []


async def test_calls_not_begun_at_the_cutoff_are_not_called(fake: FakeResend, opened: Opened, post: Post) -> None:
    channel, envelopes, verdicts, hanging = opened(connections=2), await post.envelopes(10), Verdicts(), Hanging()
    fake.every = hanging
    calling = asyncio.create_task(channel.deliver(envelopes, verdicts))
    await hanging.begun.wait()
    calling.cancel()
    with suppress(asyncio.CancelledError):
        await calling
    called = {one for one, _ in verdicts.reported}
    assert {verdict for _, verdict in verdicts.reported} == {NotCalled("cut off before the call")}
    assert {envelope.delivery_id for envelope in envelopes} - called == set(fake.times())
    assert len(fake.times()) in {1, 2}


async def test_a_redirect_is_not_followed(fake: FakeResend, opened: Opened, post: Post) -> None:
    async with FakeResend() as elsewhere:
        fake.every = says(307, b"", Location=elsewhere.url + "/emails")
        await delivered(opened(), await post.envelopes())
        assert elsewhere.requests == []


async def test_a_body_without_end_is_left_unread(fake: FakeResend, opened: Opened, post: Post) -> None:
    fake.faults.append(says(422, b"x" * 4 * ANSWER_BYTES_MAX))
    (verdict,) = await delivered(opened(), await post.envelopes())
    assert isinstance(verdict, RetryAfter)


# Reasons


async def test_a_refusal_has_the_api_s_words_without_those_of_the_message(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    words = f"Invalid `to` field: {RECIPIENT}\r\nnear “{CONTENT}” of Zoë; follow the `email@example.com` format."
    fake.faults.append(says(422, ("validation_error", words)))
    (verdict,) = await delivered(opened(), await post.envelopes(secret="Zoë"))
    assert verdict == Refused(
        "resend says validation_error: Invalid `to` field: … near “Content-…” of …; follow the … format."
    )


async def test_a_refusal_names_the_sender_s_domain(fake: FakeResend, opened: Opened, post: Post) -> None:
    fake.faults.append(says(403, ("validation_error", "The example.net domain is not verified.")))
    post.parts = {"text": "example net"}
    assert await delivered(opened(), await post.envelopes()) == [
        Refused("resend says validation_error: The example.net domain is not verified.")
    ]


async def test_a_wrong_key_names_its_option_and_not_itself(fake: FakeResend, opened: Opened, post: Post) -> None:
    wrong = "re_wrong_77aa"
    fake.faults.append(says(403, ("invalid_api_key", f"API key {wrong} is invalid")))
    (verdict,) = await delivered(opened(api_key=wrong), await post.envelopes())
    words = "options.api_key: resend says invalid_api_key: API key …_…_… is invalid"
    assert verdict == Refused(words, provider_fault=True)


async def test_the_words_are_bounded_and_on_one_line(fake: FakeResend, opened: Opened, post: Post) -> None:
    fake.faults.append(says(422, ("validation_error", "The \u2028field\x00 is\tmissing. " * 5_000)))
    (verdict,) = await delivered(opened(), await post.envelopes())
    assert isinstance(verdict, Refused)
    assert verdict.reason.isprintable()
    assert len(verdict.reason) < 300


async def test_no_secret_is_logged(
    fake: FakeResend, opened: Opened, post: Post, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    fake.faults += [None, dropped, says(429, ("daily_quota_exceeded", f"No more for {KEY}"))]
    with capture_logs() as logged:
        verdicts = await delivered(opened(connections=1), await post.envelopes(4))
    told = repr(logged) + repr(verdicts) + caplog.text + "".join(capfd.readouterr())
    assert KEY not in told
    assert RECIPIENT not in told
    assert CONTENT not in told


# Waiting


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7.0),
        ({"retry_after": "7", "ratelimit_reset": "3"}, 7.0),
        ({"ratelimit_reset": "3"}, 3.0),
        ({"retry_after": "-5"}, 0.0),
        ({"retry_after": "nan"}, answers.LIMIT_SECONDS),
        ({"retry_after": "soon"}, answers.LIMIT_SECONDS),
        ({"retry_after": "1e99"}, WAIT_SECONDS_MAX),
        ({}, answers.LIMIT_SECONDS),
    ],
)
async def test_a_limit_is_waited_for_as_long_as_it_says(
    fake: FakeResend, opened: Opened, post: Post, headers: dict[str, str], seconds: float
) -> None:
    fake.faults.append(says(429, ("rate_limit_exceeded", "Too many requests."), **headers))
    assert await delivered(opened(), await post.envelopes()) == [Throttled(seconds)]


def test_a_date_is_a_time_to_wait_for() -> None:
    until_then = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    answer = Answer(429, {"retry-after": until_then}, b"")
    assert 3_500 < answers.wait_seconds(answer) <= 3_600


async def test_calls_not_begun_when_a_limit_closes_are_deferred(fake: FakeResend, opened: Opened, post: Post) -> None:
    fake.every = says(429, ("rate_limit_exceeded", "Too many requests."), retry_after="60")
    verdicts = await delivered(opened(), await post.envelopes(20))
    assert all(isinstance(verdict, Throttled) and 50 < verdict.seconds <= 60 for verdict in verdicts)
    assert len(fake.requests) == 1, "the first goes alone, and closes it for the others"


async def test_an_unavailable_api_is_left_alone_for_as_long_as_it_says(
    fake: FakeResend, opened: Opened, post: Post
) -> None:
    fake.every = says(503, ("application_error", "Down for maintenance."), retry_after="60")
    first, *others = await delivered(opened(), await post.envelopes(20))
    assert isinstance(first, Unknown)
    assert {type(other) for other in others} == {Throttled}


@pytest.mark.parametrize(
    ("name", "quota", "retry_after", "seconds"),
    [
        ("daily_quota_exceeded", "daily", "", answers.QUOTA_SECONDS),
        ("monthly_quota_exceeded", "monthly", "1", answers.QUOTA_SECONDS),
        ("daily_quota_exceeded", "daily", "600", 600.0),
    ],
)
async def test_a_spent_quota_is_parked_with_the_reason(
    fake: FakeResend, opened: Opened, post: Post, name: str, quota: str, retry_after: str, seconds: float
) -> None:
    fake.every = says(
        429, (name, "You have reached your quota."), **({"retry_after": retry_after} if retry_after else {})
    )
    channel, envelopes = opened(), await post.envelopes(10)
    with capture_logs() as logged:
        verdicts = await delivered(channel, envelopes)
        verdicts += await delivered(channel, [structs.replace(envelopes[0])])
    assert len(fake.requests) == 1
    assert all(isinstance(one, Throttled) and seconds - 60 < one.seconds <= seconds for one in verdicts)
    (line,) = [line for line in logged if line["event"] == "resend.quota_spent"]
    assert (line["log_level"], line["quota"], line["wait_seconds"]) == ("warning", quota, seconds)


@pytest.mark.parametrize("together", [1, 3])
async def test_it_slows_down_before_it_is_told_to(opened: Opened, post: Post, together: int) -> None:
    """No call is refused for coming too soon, with several `deliver` at once too."""
    # A busy machine may sleep through a short window: then calls of one are counted in the next.
    async with FakeResend(limit=5, window_seconds=0.9) as limited:
        channel = opened(url=limited.url)
        batches = [await post.envelopes(8) for _ in range(together)]
        found = await asyncio.gather(*(delivered(channel, batch) for batch in batches))
        assert {type(verdict) for verdicts in found for verdict in verdicts} == {Accepted}
        assert set(limited.statuses) == {200}


async def test_without_limits_calls_go_side_by_side(fake: FakeResend, opened: Opened, post: Post) -> None:
    hanging, channel, envelopes = Hanging(), opened(connections=4), await post.envelopes(12)
    await delivered(channel, await post.envelopes())
    fake.every = hanging
    calling = asyncio.create_task(delivered(channel, envelopes))
    await until(lambda: fake.under_way == 4, "all connections are in use")
    hanging.let_go.set()
    await calling
    assert fake.under_way_max == 4
