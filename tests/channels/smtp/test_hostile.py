"""Servers that misbehave: each ends in one clear verdict or reason, soon, and says what a person can change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from channels.contract import Accepted, Envelope, NotCalled, RetryAfter, Unknown, Unready, Verdict
from channels.shared.mail.composer import Composed, Composer
from channels.smtp.channel import Smtp
from tests.channels.smtp.scripted import EHLO, SILENCE, Scripted, on
from tests.channels.smtp.support import channel, envelope, envelopes, options, sent
from tests.channels.suite import Verdicts
from tests.support.waits import until

LONG = b"250 " + b"x" * 1_000_000 + b"\r\n"


async def unready(port: int, **given: object) -> str:
    """Why a channel to a port cannot begin."""
    async with channel(port, connect_seconds_max=2.0, **given) as smtp:
        with pytest.raises(Unready) as trouble:
            await smtp.prepare(1)
    return str(trouble.value)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Scripted(greeting=b"HTTP/1.1 400 Bad Request\r\n\r\n"), "does not answer as a mail server does"),
        (Scripted(greeting=b"\xff\xfe\x00\x01\r\n"), "does not answer as a mail server does"),
        (Scripted(greeting=b"220 " + b"x" * 1_000_000 + b"\r\n"), "does not answer as a mail server does"),
        (Scripted(greeting=b"554 5.7.1 not you, ann@example.org\r\n"), "554 5.7.1 not you, <address>"),
        (Scripted(greeting=b"421 4.3.2 too busy\r\n"), "421 4.3.2 too busy"),
        (Scripted(on(EHLO=None)), "closed the connection at EHLO"),
        (Scripted(on(EHLO=LONG)), "does not answer as a mail server does, at EHLO: see host, port and tls"),
        (Scripted(greeting=b""), "did not get past the connection within 2 s: see host, port and tls"),
    ],
    ids=["http", "bytes", "long", "refused", "busy", "closes", "endless", "silent"],
)
async def test_an_unusable_server_is_refused_with_the_reason(server: Scripted, words: str) -> None:
    async with server:
        assert words in await unready(server.port)


async def test_a_closed_port_is_named() -> None:
    async with Scripted() as server:
        port = server.port
    assert f"127.0.0.1:{port} cannot be reached" in await unready(port)


@asynccontextmanager
async def dripping() -> AsyncIterator[int]:
    """A server that says one byte at a time, and never comes to an end."""
    over = asyncio.Event()
    drips: set[asyncio.Task[None]] = set()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while not over.is_set() and not reader.at_eof():
                writer.write(b"2")
                await writer.drain()
                await asyncio.sleep(0.01)
        writer.close()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        drips.add(asyncio.create_task(drip(reader, writer)))

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    over.set()
    server.close()
    await asyncio.gather(*drips)


async def test_a_server_that_drips_is_given_up_in_time() -> None:
    async with dripping() as port:
        assert "within 2 s" in await unready(port)


@pytest.mark.parametrize(
    ("answer", "phase", "verdict"),
    [
        (b"hello\r\n", "MAIL", RetryAfter("the server's answer makes no sense at MAIL")),
        (b"999 what\r\n", "RCPT", RetryAfter("the server's answer makes no sense at RCPT")),
        (b"25\n", "MAIL", RetryAfter("the server's answer makes no sense at MAIL")),
        (b"250 go on\r\n", "DATA", RetryAfter("the server's answer makes no sense at DATA")),
        (b"\x00\xff\r\n", "DOT", Unknown("the server's answer makes no sense after the final dot")),
        (b"354 what\r\n", "DOT", Unknown("the server's answer makes no sense after the final dot")),
        (LONG[:-2], "RCPT", RetryAfter("the server's answer is endless at RCPT")),
        (LONG[:-2], "DOT", Unknown("the server's answer is endless after the final dot")),
        (b"250-more\r\n" * 1_000, "DOT", Unknown("the server's answer is endless after the final dot")),
        (b"250-more\r\n550 or less\r\n", "DOT", Unknown("the server's answer makes no sense after the final dot")),
    ],
)
async def test_garbage_has_the_verdict_of_its_phase(answer: bytes, phase: str, verdict: Verdict) -> None:
    async with Scripted(on(**{phase: answer})) as server, channel(server.port) as smtp:
        assert await sent(smtp, [envelope()]) == [verdict]


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        ("RCPT", RetryAfter("no answer within 0.5 s at RCPT")),
        ("DOT", Unknown("no answer within 0.5 s after the final dot")),
    ],
)
async def test_no_answer_at_all_is_given_up_in_time(phase: str, verdict: Verdict) -> None:
    async with Scripted(on(**{phase: SILENCE})) as server, channel(server.port, answer_seconds_max=0.5) as smtp:
        assert await sent(smtp, [envelope()]) == [verdict]


async def test_a_cancelled_batch_returns_the_sent_calls() -> None:
    async with Scripted(on(DOT=SILENCE)) as server, channel(server.port) as smtp:
        batch, verdicts = envelopes(4), Verdicts()
        await smtp.prepare(4)
        calling = asyncio.create_task(smtp.deliver(batch, verdicts))
        await until(lambda: server.bodies and server.pieces[-1].endswith(b"DATA\r\n"), "the first body is there")
        calling.cancel()
        await asyncio.wait([calling], timeout=5)
        assert calling.cancelled()
    found = verdicts.once_each(batch)
    kinds = [type(found[one.delivery_id]) for one in batch]
    assert kinds == [Unknown, RetryAfter, NotCalled, NotCalled]


async def test_after_some_failures_in_a_row_nothing_is_tried_for_a_while() -> None:
    async with (
        Scripted(greeting=b"421 4.3.2 too busy\r\n") as server,
        channel(server.port, breaker_failures=2, breaker_seconds=60.0) as smtp,
    ):
        for _ in range(4):
            with pytest.raises(Unready):
                await smtp.prepare(1)
        with pytest.raises(Unready, match=r"421 4.3.2 too busy; tried again in \d+ s"):
            await smtp.prepare(1)
        assert server.connections == 2


async def test_a_server_that_greets_and_hangs_up_is_left_alone_for_a_while() -> None:
    async with (
        Scripted(hangs_up_after=b"EHLO") as server,
        channel(server.port, breaker_failures=3, breaker_seconds=60.0) as smtp,
    ):
        verdicts, batch = Verdicts(), envelopes(9)
        # Whether the end is seen before the first command or behind it is a matter of moments.
        with suppress(Unready):
            await smtp.prepare(9)
        await smtp.deliver(batch, verdicts)
        assert {type(one) for one in verdicts.once_each(batch).values()} <= {RetryAfter, NotCalled}
        with pytest.raises(Unready, match="tried again in"):
            await smtp.prepare(1)
        assert server.connections == 3
        assert not server.bodies


async def test_permanent_refusals_are_not_retried_at_once() -> None:
    async with Scripted() as server, channel(server.port, username="u", password="p", breaker_failures=9) as smtp:
        for _ in range(2):
            with pytest.raises(Unready, match="does not offer AUTH without TLS: set tls to"):
                await smtp.prepare(1)
        assert server.connections == 1


async def test_a_connection_that_died_while_idle_is_replaced_before_anything_is_sent() -> None:
    async with Scripted() as server, channel(server.port) as smtp:
        await sent(smtp, [envelope(1)])
        for writer in tuple(server._writers):
            writer.close()
        await until(lambda: not smtp._usable(), "the loss is noticed")
        assert await sent(smtp, [envelope(2)]) == [Accepted("B2")]
        assert server.connections == 2


async def test_one_that_was_quiet_for_long_is_asked_whether_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("channels.smtp.channel.PROBE_IDLE_SECONDS", -1.0)
    monkeypatch.setattr("channels.smtp.channel.PROBE_SECONDS_MAX", 0.2)
    silent = False

    def script(line: bytes) -> bytes | None:
        return SILENCE if silent and line == b"NOOP" else b""

    async with Scripted(script) as server, channel(server.port) as smtp:
        await smtp.prepare(1)
        assert await sent(smtp, [envelope(1)]) == [Accepted("B1")]
        assert server.lines.count(b"NOOP") == 1
        silent = True
        assert await sent(smtp, [envelope(2)]) == [Accepted("B2")]
        assert server.connections == 2


async def test_an_idle_connection_is_let_go() -> None:
    async with Scripted() as server, channel(server.port, idle_seconds=0.1) as smtp:
        await sent(smtp, [envelope()])
        await until(lambda: b"QUIT" in server.lines, "it has said goodbye")


async def test_a_server_that_gives_fewer_connections_than_wanted_is_used_with_those() -> None:
    greeted = 0

    def script(line: bytes) -> bytes | None:
        nonlocal greeted
        greeted += line.startswith(b"EHLO")
        return b"421 4.7.0 too many connections\r\n" if line.startswith(b"EHLO") and greeted > 2 else b""

    async with Scripted(script) as server, channel(server.port, connections=10) as smtp:
        verdicts = await sent(smtp, envelopes(100))
        assert {type(one) for one in verdicts} == {Accepted}
        await until(lambda: not smtp._connecting, "all were tried")
        assert len(smtp._sessions) == 2
        asked = greeted
        await sent(smtp, envelopes(100))
        assert greeted == asked


async def test_a_bug_in_building_one_message_leaves_the_others_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with Scripted() as server, channel(server.port) as smtp:
        compose = Composer.compose

        def broken(self: Composer, one: Envelope) -> Composed:
            if one is batch[1]:
                raise KeyError("secret")
            return compose(self, one)

        monkeypatch.setattr(Composer, "compose", broken)
        batch = envelopes(3)
        verdicts = await sent(smtp, batch)
    assert verdicts[1] == RetryAfter("the message could not be built (KeyError)")
    assert [type(one) for one in verdicts] == [Accepted, RetryAfter, Accepted]


async def test_a_faulty_setting_is_found_when_the_channel_is_opened() -> None:
    with pytest.raises(ValueError, match="from"):
        Smtp(options(25, **{"from": "no address"}))


async def test_the_server_s_words_never_carry_the_recipient() -> None:
    answer = b"550 5.1.1 <Ann1@Example.org>: ann1 is unknown, see https://x.example/?who=ann1@example.org\r\n"
    async with Scripted(on(RCPT=answer)) as server, channel(server.port) as smtp:
        [verdict] = await sent(smtp, [envelope()])
    assert "ann1" not in repr(verdict).lower()
    assert "550 5.1.1" in repr(verdict)


async def test_pipelining_and_chunking_can_be_switched_off_by_name() -> None:
    offering = EHLO.replace(b"250 8BITMIME", b"250-CHUNKING\r\n250 8BITMIME")
    async with Scripted(ehlo=offering) as server, channel(server.port, pipelining=False, chunking=False) as smtp:
        await sent(smtp, envelopes(2))
    assert len(server.bodies) == 2
    assert not any(line.startswith(b"BDAT") for line in server.lines)
    assert sum(piece.startswith(b"RCPT") for piece in server.pieces) == 2
