"""A real Postfix delivers what the channel sends, and the mailbox is read and parsed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from channels.contract import Accepted, Refused
from tests.channels.smtp.certificates import Authority
from tests.channels.smtp.postfix import Postfix, why_not
from tests.channels.smtp.support import channel, envelope, sent
from tests.support.waits import until

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is there")

# What has been used to make one message two at a server that takes other line ends for CRLF.
SMUGGLED = "EHLO x\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\nSubject: smuggled\r\n\r\nx"
ENDS = [
    "\r\n.\r\n",
    "\n.\n",
    "\n.\r\n",
    "\r.\r",
    "\r\n.\n",
    "\r\n.\r",
    "\r.\r\n",
    "\n.\r",
    "\r\n\x00.\r\n",
    "\r\r\n.\r\n",
]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The certificate authority of the tests."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def postfix(authority: Authority) -> Iterator[Postfix]:
    """The server, for all tests of this file."""
    good = authority.sign("postfix")
    with Postfix(good.key.read_bytes() + good.certificate.read_bytes()) as running:
        yield running


EVERY_WAY = pytest.mark.parametrize(
    "given",
    [{}, {"chunking": False}, {"pipelining": False}, {"pipelining": False, "chunking": False}],
    ids=["chunking", "pipelining", "chunking-alone", "plain"],
)


@EVERY_WAY
async def test_sent_mail_is_in_the_mailbox(postfix: Postfix, given: dict[str, bool]) -> None:
    before = len(postfix.mailbox("ann"))
    parts = {"subject": "Für Jörg ✓", "text": "Zeile\n.\n..\nEnde ✓\n", "html": "<p>Grüße</p>"}
    batch = [envelope(number, "ann@example.org", parts=parts) for number in range(1, 6)]
    async with channel(postfix.port, **given) as smtp:
        verdicts = await sent(smtp, batch)
    assert [type(one) for one in verdicts] == [Accepted] * 5
    # Postfix names each message, and writes the name down.
    names = {one.provider_message_id for one in verdicts if isinstance(one, Accepted)}
    assert len(names) == 5
    for message in (await postfix.messages("ann", before + 5))[before:]:
        assert message["Subject"] == parts["subject"]
        text, html = list(message.walk())[1:]
        assert text.get_payload(decode=True).decode().replace("\r\n", "\n") == parts["text"]  # type: ignore[union-attr]  # bytes
        assert "Grüße" in html.get_payload(decode=True).decode()  # type: ignore[union-attr]  # as above
    await until(lambda: all(name in postfix.log() for name in names), "its log knows their names")
    assert "improper command pipelining" not in postfix.log()


@EVERY_WAY
async def test_a_smuggled_message_stays_inside_the_one_that_carried_it(
    postfix: Postfix, given: dict[str, bool]
) -> None:
    ann, bob = len(postfix.mailbox("ann")), len(postfix.mailbox("bob"))
    batch = [
        envelope(number, "ann@example.org", parts={"subject": "outer", "text": f"before{end}{SMUGGLED}{end}after"})
        for number, end in enumerate(ENDS, 1)
    ]
    batch.append(envelope(99, "ann@example.org", parts={"subject": "last", "text": "the end"}))
    async with channel(postfix.port, **given) as smtp:
        verdicts = await sent(smtp, batch)
    carried = [one for one in verdicts if isinstance(one, Accepted)]
    # Whatever was not refused while it was composed is there once, whole, and nothing else is.
    messages = (await postfix.messages("ann", ann + len(carried)))[ann:]
    assert isinstance(verdicts[-1], Accepted)
    assert len(carried) >= 8
    assert len(messages) == len(carried)
    assert {message["Subject"] for message in messages} == {"outer", "last"}
    assert len(postfix.mailbox("bob")) == bob


async def test_its_refusals_have_their_phase(postfix: Postfix) -> None:
    async with channel(postfix.port) as smtp:
        unknown, foreign, good = await sent(
            smtp,
            [
                envelope(1, "nobody-here@example.org"),
                envelope(2, "ann@elsewhere.example"),
                envelope(3, "ann@example.org"),
            ],
        )
    assert isinstance(unknown, Refused)
    assert unknown.reason.startswith("refused at RCPT: 550 5.1.1 <address>: Recipient address rejected")
    assert unknown.suppresses
    assert "nobody-here" not in unknown.reason
    assert isinstance(foreign, Refused)
    assert foreign.reason.startswith("refused at RCPT: 554 5.7.1")
    assert not foreign.suppresses
    assert type(good) is Accepted


async def test_a_message_over_its_limit_is_refused_before_it_is_sent(postfix: Postfix) -> None:
    async with channel(postfix.port) as smtp:
        [verdict] = await sent(smtp, [envelope(1, "ann@example.org", parts={"subject": "s", "text": "x" * 1_200_000})])
    assert isinstance(verdict, Refused)
    assert "takes 1000000 at most: make it smaller" in verdict.reason


async def test_mail_goes_over_its_tls(postfix: Postfix, authority: Authority, tmp_path: Path) -> None:
    before = len(postfix.mailbox("bob"))
    async with channel(postfix.port, tls="starttls", ca_path=str(authority.certificate)) as smtp:
        verdicts = await sent(smtp, [envelope(number, "bob@example.org") for number in range(3)])
    assert [type(one) for one in verdicts] == [Accepted] * 3
    messages = (await postfix.messages("bob", before + 3))[before:]
    assert all("TLSv1" in str(message["Received"]) for message in messages)
