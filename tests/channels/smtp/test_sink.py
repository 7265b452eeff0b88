"""smtp-sink, Postfix's own test server, with its fault switches."""

from collections import Counter

import pytest

from bench.sink import available, sink
from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Unready, Verdict
from tests.channels.smtp.support import channel, envelope, envelopes, sent

pytestmark = pytest.mark.skipif(not available(), reason="smtp-sink is not installed: it comes with Postfix")


@pytest.mark.parametrize("switches", [(), ("-p",), ("-e",), ("-8", "-E"), ("-f", "EHLO")], ids=" ".join)
async def test_it_takes_everything_whatever_it_offers(switches: tuple[str, ...]) -> None:
    with sink(*switches) as port:
        async with channel(port, connections=3) as smtp:
            verdicts = await sent(smtp, envelopes(50))
    assert {type(one) for one in verdicts} == {Accepted}


SWITCHES: list[tuple[str, str, Verdict]] = [
    ("-f", "MAIL", Refused("refused at MAIL: 500 5.3.0 Error: command failed")),
    ("-f", "RCPT", Refused("refused at RCPT: 500 5.3.0 Error: command failed")),
    ("-f", "DATA", Refused("refused at DATA: 500 5.3.0 Error: command failed")),
    ("-f", ".", Refused("refused after the final dot: 500 5.3.0 Error: command failed")),
    ("-r", "MAIL", Throttled(9.0)),
    ("-r", "RCPT", Throttled(9.0, "example.org")),
    ("-r", "DATA", Throttled(9.0, "example.org")),
    ("-r", ".", Throttled(9.0, "example.org")),
    ("-q", "MAIL", RetryAfter("the connection was lost at MAIL")),
    ("-q", "RCPT", RetryAfter("the connection was lost at RCPT")),
    ("-q", "DATA", RetryAfter("the connection was lost at DATA")),
    # The message was taken, and the answer is missing: the one case that nobody can know.
    ("-q", ".", Unknown("the connection was lost after the final dot")),
    ("-Q", "MAIL", Throttled(9.0)),
    ("-Q", "RCPT", Throttled(9.0, "example.org")),
    ("-Q", "DATA", Throttled(9.0, "example.org")),
    ("-Q", ".", Throttled(9.0, "example.org")),
]


@pytest.mark.parametrize(("switch", "command", "verdict"), SWITCHES)
async def test_each_fault_has_the_verdict_of_its_phase(switch: str, command: str, verdict: Verdict) -> None:
    with sink(switch, command) as port:
        async with channel(port, throttle_seconds=9.0) as smtp:
            assert await sent(smtp, [envelope()]) == [verdict]


@pytest.mark.parametrize("command", ["CONNECT", "EHLO"])
async def test_a_connection_that_is_not_given_marks_nothing(command: str) -> None:
    with sink("-q", command) as port:
        async with channel(port) as smtp:
            with pytest.raises(Unready, match="closed the connection"):
                await smtp.prepare(1)


async def test_soft_replies_that_are_no_throttle_are_tried_again() -> None:
    with sink("-r", "RCPT", "-b", "452 4.2.2 Mailbox full") as port:
        async with channel(port) as smtp:
            assert await sent(smtp, [envelope()]) == [RetryAfter("refused at RCPT: 452 4.2.2 Mailbox full")]


async def test_hard_replies_about_the_address_suppress() -> None:
    with sink("-f", "RCPT", "-B", "550 5.1.1 No such user") as port:
        async with channel(port) as smtp:
            assert await sent(smtp, [envelope()]) == [Refused("refused at RCPT: 550 5.1.1 No such user", True)]


async def test_many_over_several_connections_that_all_lose_the_answer() -> None:
    with sink("-q", ".") as port:
        async with channel(port, connections=4) as smtp:
            kinds = Counter(type(one) for one in await sent(smtp, envelopes(40)))
    # Whatever is not unknown went back unsent.
    assert set(kinds) == {Unknown, NotCalled}
    assert kinds[Unknown] >= 4


async def test_a_body_that_is_read_slowly_waits_for_the_server() -> None:
    """The sink reads nothing of the body for a second, from a window that holds little of it."""
    text = "a line of a long text, which no window holds\n" * 40_000
    with sink("-H", "1", "-T", "4096") as port:
        async with channel(port) as smtp:
            [verdict] = await sent(smtp, [envelope(parts={"subject": "long", "text": text})])
    assert type(verdict) is Accepted
