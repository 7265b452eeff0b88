"""The conversation: what travels together, what each answer does to each message, and where a loss leaves it."""

from collections import Counter

import pytest

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from tests.channels.smtp.scripted import EHLO, Answer, Scripted, on
from tests.channels.smtp.support import channel, envelope, envelopes, sent
from tests.channels.suite import Verdicts
from tests.support.waits import until

CHUNKING = EHLO.replace(b"250 8BITMIME", b"250-CHUNKING\r\n250 8BITMIME")
PLAIN = b"250 scripted.example\r\n"
EVERY_WAY = pytest.mark.parametrize("ehlo", [EHLO, CHUNKING, PLAIN], ids=["pipelining", "chunking", "plain"])


@EVERY_WAY
async def test_every_message_arrives_once_with_its_own_verdict(ehlo: bytes) -> None:
    async with Scripted(ehlo=ehlo) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, envelopes(7))
    assert verdicts == [Accepted(f"B{number}") if ehlo != CHUNKING else verdicts[number - 1] for number in range(1, 8)]
    assert [body.count(b"Hello %d\r\n" % number) for number, body in enumerate(server.bodies, 1)] == [1] * 7
    assert server.connections == 1
    assert server.lines[-1] == b"QUIT"


async def test_without_a_name_from_the_server_a_message_is_called_by_its_message_id() -> None:
    async with Scripted(ehlo=CHUNKING) as server, channel(server.port) as smtp:
        [verdict] = await sent(smtp, [envelope()])
    assert isinstance(verdict, Accepted)
    assert b"Message-ID: <%b>\r\n" % verdict.provider_message_id.encode() in server.bodies[0]


async def test_the_next_envelope_travels_with_the_final_dot() -> None:
    async with Scripted() as server, channel(server.port) as smtp:
        await sent(smtp, envelopes(3))
    conversation = [piece for piece in server.pieces if not piece.startswith((b"EHLO", b"QUIT"))]
    assert [piece.endswith(b"\r\nDATA\r\n") for piece in conversation] == [True, True, True, False]
    assert [b"\r\n.\r\nMAIL FROM:" in piece for piece in conversation] == [False, True, True, False]


async def test_without_pipelining_each_command_waits_for_its_answer() -> None:
    async with Scripted(ehlo=PLAIN) as server, channel(server.port) as smtp:
        await sent(smtp, envelopes(2))
    words = [piece.split(b" ")[0].split(b"\r\n")[0] for piece in server.pieces]
    one = [b"MAIL", b"RCPT", b"DATA", b"Date:"]
    assert words == [b"EHLO", *one, *one, b"QUIT"]


async def test_size_and_8bitmime_are_said_where_they_are_offered() -> None:
    async with Scripted() as server, channel(server.port) as smtp:
        await sent(smtp, [envelope()])
    mail = next(line for line in server.lines if line.startswith(b"MAIL"))
    assert mail == b"MAIL FROM:<shop@shop.example> SIZE=%d" % len(server.bodies[0])


# The phase, the answer there, and what becomes of the message.
REFUSALS: list[tuple[str, bytes, Verdict]] = [
    ("MAIL", b"553 5.1.1 not you", Refused("refused at MAIL: 553 5.1.1 not you")),
    ("MAIL", b"421 4.3.2 later", Throttled(9.0)),
    ("MAIL", b"451 4.3.0 later", Throttled(9.0)),
    ("MAIL", b"455 4.5.4 odd", RetryAfter("refused at MAIL: 455 4.5.4 odd")),
    ("RCPT", b"550 5.1.1 nobody", Refused("refused at RCPT: 550 5.1.1 nobody", suppresses=True)),
    ("RCPT", b"550 5.1.10 null MX", Refused("refused at RCPT: 550 5.1.10 null MX", suppresses=True)),
    ("RCPT", b"550 5.7.1 policy", Refused("refused at RCPT: 550 5.7.1 policy")),
    ("RCPT", b"550 unknown", Refused("refused at RCPT: 550 unknown")),
    ("RCPT", b"421 4.7.0 too many", Throttled(9.0, "example.org")),
    ("RCPT", b"450 4.3.2 busy", Throttled(9.0, "example.org")),
    ("RCPT", b"454 4.7.5 not now", Throttled(9.0, "example.org")),
    ("RCPT", b"452 4.2.2 mailbox full", RetryAfter("refused at RCPT: 452 4.2.2 mailbox full")),
    ("DATA", b"554 5.5.1 no", Refused("refused at DATA: 554 5.5.1 no")),
    ("DATA", b"451 4.3.0 no", Throttled(9.0, "example.org")),
    ("DOT", b"554 5.7.1 spam", Refused("refused after the final dot: 554 5.7.1 spam")),
    ("DOT", b"550 5.1.1 nobody", Refused("refused after the final dot: 550 5.1.1 nobody", suppresses=True)),
    ("DOT", b"452 4.3.1 disk full", Throttled(9.0, "example.org")),
    ("DOT", b"471 odd", RetryAfter("refused after the final dot: 471 odd")),
]


@pytest.mark.parametrize("ehlo", [EHLO, PLAIN], ids=["pipelining", "plain"])
@pytest.mark.parametrize(
    ("phase", "answer", "verdict"), REFUSALS, ids=[f"{one}-{two[:9]!r}" for one, two, _ in REFUSALS]
)
async def test_the_verdict_is_that_of_the_phase(phase: str, answer: bytes, verdict: Verdict, ehlo: bytes) -> None:
    script = on(**{phase: answer + b"\r\n"})
    async with Scripted(script, ehlo) as server, channel(server.port, throttle_seconds=9.0) as smtp:
        assert await sent(smtp, [envelope()]) == [verdict]
    assert all(not body for body in server.bodies) or phase == "DOT"


def _the_second_is_refused(word: bytes, answer: bytes) -> Answer:
    """A server that refuses one of the recipients, and DATA behind it."""
    said: list[bytes] = []

    def script(line: bytes) -> bytes | None:
        said.append(line)
        envelope_now = next((one for one in reversed(said) if one.startswith(b"RCPT")), b"")
        refused = b"ann2@" in envelope_now
        if line.startswith(word) and (refused or b"ann2@" in line):
            return answer
        if line == b"DATA" and refused:
            return b"503 5.5.1 no recipient\r\n"
        return b""

    return script


@EVERY_WAY
async def test_a_refused_recipient_leaves_the_others_alone(ehlo: bytes) -> None:
    script = _the_second_is_refused(b"RCPT", b"550 5.1.1 nobody\r\n")
    async with Scripted(script, ehlo) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, envelopes(4))
    assert [type(one) for one in verdicts] == [Accepted, Refused, Accepted, Accepted]
    assert len(server.bodies) == 3
    # What was begun for it is taken back before the next.
    assert server.lines.count(b"RSET") == 1
    assert server.connections == 1


async def test_a_body_without_recipients_is_a_single_dot() -> None:
    script = _the_second_is_refused(b"RCPT", b"550 5.1.1 nobody\r\n")
    everything = lambda line: b"" if line == b"DATA" else script(line)  # noqa: E731 - the same script, but for one line
    async with Scripted(everything) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, envelopes(3))
    assert [type(one) for one in verdicts] == [Accepted, Refused, Accepted]
    assert [bool(body) for body in server.bodies] == [True, False, True]


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [
        ("MAIL", RetryAfter("the connection was lost at MAIL")),
        ("RCPT", RetryAfter("the connection was lost at RCPT")),
        ("DATA", RetryAfter("the connection was lost at DATA")),
        ("DOT", Unknown("the connection was lost after the final dot")),
    ],
)
@pytest.mark.parametrize("ehlo", [EHLO, PLAIN], ids=["pipelining", "plain"])
async def test_only_a_loss_after_the_final_dot_is_unknown(phase: str, verdict: Verdict, ehlo: bytes) -> None:
    async with Scripted(on(**{phase: None}), ehlo) as server, channel(server.port) as smtp:
        assert await sent(smtp, [envelope()]) == [verdict]


async def test_a_loss_after_bdat_is_unknown() -> None:
    async with Scripted(on(BDAT=None), CHUNKING) as server, channel(server.port) as smtp:
        assert await sent(smtp, [envelope()]) == [Unknown("the connection was lost after the final dot")]


async def test_calls_behind_an_unknown_one_go_back_without_an_attempt() -> None:
    async with Scripted(on(DOT=None)) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, envelopes(2))
    assert [type(one) for one in verdicts] == [Unknown, NotCalled]
    assert len(server.bodies) == 1


async def test_a_server_that_has_enough_of_a_connection_gets_another() -> None:
    mails = 0

    def script(line: bytes) -> bytes | None:
        nonlocal mails
        mails += line.startswith(b"MAIL")
        return b"421 4.7.0 enough\r\n" if mails == 3 and line.startswith(b"MAIL") else b""

    async with Scripted(script) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, envelopes(5))
        assert [type(one) for one in verdicts] == [Accepted, Accepted, NotCalled, Accepted, Accepted]
    assert server.connections == 2


async def test_a_body_that_is_refused_before_its_end_has_that_verdict_and_not_unknown() -> None:
    big = envelope(parts={"subject": "big", "text": "x" * 60 + "\n", "html": "<p>" + "word " * 400_000})

    def script(line: bytes) -> bytes | None:
        return b"354 go on\r\n552 5.3.4 too big\r\n" if line == b"DATA" else b""

    async with Scripted(script, EHLO.replace(b"SIZE 100000", b"SIZE")) as server, channel(server.port) as smtp:
        [verdict] = await sent(smtp, [big])
    assert isinstance(verdict, Refused)
    assert "552 5.3.4 too big" in verdict.reason
    assert "make it smaller" in verdict.reason


@pytest.mark.parametrize(
    ("lines", "verdict"),
    [
        (10, Unknown("the connection was lost after the final dot")),
        # Far more than the kernel's buffers hold: its end never left this process.
        (600_000, RetryAfter("the connection was lost before the end of the message")),
    ],
    ids=["short", "long"],
)
async def test_a_body_whose_end_was_not_handed_over_is_not_unknown(lines: int, verdict: Verdict) -> None:
    one = envelope(parts={"subject": "s", "text": "a line of a long text\n" * lines})
    roomy = EHLO.replace(b"SIZE 100000", b"SIZE")
    async with Scripted(ehlo=roomy, hangs_up_after=b"DATA") as server, channel(server.port) as smtp:
        assert await sent(smtp, [one]) == [verdict]


@EVERY_WAY
async def test_a_long_body_arrives_whole(ehlo: bytes) -> None:
    text = "".join(f"{number} a line of a long text\n" for number in range(60_000))
    roomy = ehlo.replace(b"SIZE 100000", b"SIZE")
    async with Scripted(ehlo=roomy) as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, [envelope(1, parts={"subject": "s", "text": text}), *envelopes(3)[1:]])
    assert [type(one) for one in verdicts] == [Accepted] * 3
    # It is composed beside the others, which go first.
    assert server.bodies[-1].count(b" a line of a long text") == 60_000


async def test_a_message_over_the_servers_size_is_refused_before_it_is_sent() -> None:
    small = EHLO.replace(b"SIZE 100000", b"SIZE 100")
    async with Scripted(ehlo=small) as server, channel(server.port) as smtp:
        [verdict] = await sent(smtp, [envelope()])
    assert isinstance(verdict, Refused)
    assert "takes 100 at most: make it smaller" in verdict.reason
    assert not any(line.startswith(b"MAIL") for line in server.lines)


async def test_connections_are_replaced_after_their_messages() -> None:
    async with Scripted() as server, channel(server.port, messages_per_connection=2) as smtp:
        verdicts = await sent(smtp, envelopes(5))
    assert [type(one) for one in verdicts] == [Accepted] * 5
    assert server.connections == 3
    assert Counter(server.lines)[b"QUIT"] == 3


async def test_connections_are_replaced_after_their_time() -> None:
    async with Scripted() as server, channel(server.port, connection_seconds=1.0) as smtp:
        await sent(smtp, [envelope(1)])
        await until(lambda: not smtp._usable(), "its time is over")
        assert await sent(smtp, [envelope(2)]) == [Accepted("B2")]
    assert server.connections == 2


async def test_the_licence_counts_when_the_envelope_goes_out() -> None:
    now = 0.0

    def script(line: bytes) -> bytes | None:
        nonlocal now
        now += 6.0 if line == b"." else 0.0
        return b""

    batch = [envelope(number, clock=lambda: now) for number in range(1, 5)]
    async with Scripted(script) as server, channel(server.port) as smtp:
        verdicts = Verdicts()
        await smtp.prepare(4)
        await smtp.deliver(batch, verdicts)
    kinds = [type(verdict) for _, verdict in sorted(verdicts.once_each(batch).items())]
    # The third was begun beside the second's dot, while six seconds were gone.
    assert kinds == [Accepted, Accepted, Accepted, NotCalled]
    assert len(server.bodies) == 3
