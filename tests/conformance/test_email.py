"""EM-01 and EM-02: what stands in a mail, and that nothing in it becomes anything else, as a server would get it."""

import email
import email.policy
import json
from collections.abc import AsyncIterator, Iterator
from email.message import EmailMessage
from typing import Any

import asyncpg
import pytest

from tests.channels.smtp.certificates import Authority
from tests.channels.smtp.postfix import Postfix, why_not
from tests.conformance.outbox import Outbox, faults
from tests.conformance.test_mail import mail
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until

STRICT = {
    "DISPATCHER_CHANNELS__EMAIL__OPTIONS__FROM": "Lampenladen Müller <shop@läden.example>",
    "DISPATCHER_CHANNELS__EMAIL__OPTIONS__REPLY_TO": "help@example.org",
    "DISPATCHER_CHANNELS__EMAIL__OPTIONS__REFUSE_FAULTY_MAIL": "true",
}
TEMPLATE = {"subject": "Order {{ id }}", "text": "Hello {{ name }}.", "html": "<p>Hello <b>{{ name }}</b>.</p>"}
VARIABLES = {"id": 17, "name": "Zoë"}
PDF, PNG = b"%PDF-1.7\r\n" + bytes(range(256)), b"\x89PNG\r\n"


@pytest.fixture(scope="module")
async def strict(shared_url: str) -> AsyncIterator[Program]:
    """The program with a sender, failing what no server would get."""
    program = Program(shared_url, **STRICT)
    try:
        yield await program.start()
    finally:
        program.end()


@pytest.fixture
async def mails(strict: Program) -> AsyncIterator[Outbox]:
    """What it sends."""
    connection = await asyncpg.connect(strict.url)
    try:
        yield Outbox(connection)
    finally:
        await connection.close()


async def put(outbox: Outbox, recipient: str = "ann@example.org", **given: Any) -> int:
    """One mail."""
    return await outbox.put(
        "email",
        recipient=recipient,
        template=json.dumps(given.get("template", TEMPLATE)),
        variables=json.dumps(given.get("variables", VARIABLES)),
        options=json.dumps(given.get("options", {})),
    )


async def raws(connection: Connection, delivery_id: int) -> list[bytes]:
    """The bytes of each attempt."""
    rows = await connection.fetch(
        "SELECT raw FROM dispatcher.captured_messages WHERE delivery_id = $1 ORDER BY id", delivery_id
    )
    return [row["raw"] for row in rows]


async def sent(outbox: Outbox, delivery_id: int) -> EmailMessage:
    """The mail that was sent of a delivery, parsed."""
    await outbox.until_life(delivery_id, "sent")
    (raw,) = await raws(outbox.connection, delivery_id)
    assert raw.endswith(b"\r\n")
    rest = raw.replace(b"\r\n", b"")
    assert b"\r" not in rest
    assert b"\n" not in rest
    message = email.message_from_bytes(raw, policy=email.policy.default)
    assert not message.defects
    return message


def leaves(message: EmailMessage) -> list[Any]:
    """The parts that hold something."""
    return [part for part in message.walk() if not part.is_multipart()]


async def test_EM_01_text_html_files_and_images_arrive_as_such(mails: Outbox) -> None:
    await mails.connection.execute("SELECT dispatcher.put_object('bills/17.pdf', $1, 'application/pdf')", PDF)
    await mails.connection.execute("SELECT dispatcher.put_object('logo', $1, 'image/png')", PNG)
    options = {
        "attachments": [{"object": "bills/17.pdf"}, {"name": "größe.txt", "content": "R3LDvMOfZQ=="}],
        "inline": [{"cid": "logo", "object": "logo"}],
        "headers": {"X-Order": "17"},
        "list_unsubscribe": "https://example.org/u/1",
    }
    message = await sent(mails, await put(mails, "Zoë Ångström <zoe@bücher.example>", options=options))
    assert str(message["From"]) == "Lampenladen Müller <shop@xn--lden-loa.example>"
    assert str(message["To"]) == "Zoë Ångström <zoe@xn--bcher-kva.example>"
    assert message["Reply-To"] == "help@example.org"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["X-Order"] == "17"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert message["Message-ID"].endswith("@xn--lden-loa.example>")
    text, html, logo, bill, size = leaves(message)
    assert (text.get_content().strip(), html.get_content().strip()) == ("Hello Zoë.", "<p>Hello <b>Zoë</b>.</p>")
    assert (logo["Content-ID"], logo.get_content_type(), logo.get_content()) == ("<logo>", "image/png", PNG)
    assert (bill.get_filename(), bill.get_content_type(), bill.get_content()) == ("17.pdf", "application/pdf", PDF)
    assert size.get_filename() == "größe.txt"


async def test_EM_01_each_attempt_is_the_same_bytes_also_by_another_process(
    program: Program, second: Program, outbox: Outbox, connection: Connection
) -> None:
    await program.start(**(STRICT | faults("email", unknown=1)))
    delivery_id = await put(outbox, options={"attachments": [{"name": "a", "content": "YQ=="}]})
    await outbox.until_life(delivery_id, "held")
    await program.stop()

    # It had arrived, with its answer lost; somebody says that it had not, and another process sends it again.
    async def settled() -> bool:
        again = ("held", "resolve", str(delivery_id), "--requeue", "--reason", "it is not in their log")
        return second.run(*again).returncode == 0

    await until(settled, "it is to be sent again")
    await second.start(**STRICT)
    await outbox.until_life(delivery_id, "sent")
    first, again = await raws(connection, delivery_id)
    assert first == again
    assert first is not None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"template": {"subject": "x", "text": "{{ big }}"}, "options": {"attachments": [{"object": "none"}]}}, "none"),
        (
            {"options": {"attachments": [{"name": "a", "content": "?"}]}},
            "options.attachments[0].content: is not base64",
        ),
        ({"options": {"inline": [{"cid": "a", "object": "none"}]}}, "options.inline[0].object: there is no stored obj"),
        (
            {"template": {"subject": "{{ name }}", "text": "x"}, "variables": {"name": ""}},
            "subject: is missing or empty",
        ),
        ({"recipient": "ann@example.org, ben@example.org"}, "recipient: has a comma"),
        ({"recipient": f"ann@{'a' * 70}.example"}, "recipient: has a part of more than 63 characters"),
        ({"recipient": ""}, "recipient: is empty"),
    ],
)
async def test_EM_01_what_cannot_be_a_mail_fails_and_says_why(mails: Outbox, given: dict[str, Any], words: str) -> None:
    variables = {"big": "x"} | VARIABLES | given.pop("variables", {})
    delivery_id = await put(mails, variables=variables, **given)
    await mails.until_life(delivery_id, "failed")
    error = (await mails.row(delivery_id))["error"]
    assert words in error
    assert "ben@example.org" not in error


HOSTILE = "a\r\nBcc: x@example.org\r\n\r\n<script>\r\n.\r\nMAIL FROM:<x@example.org>\n.\n\r.\r"


async def test_EM_02_what_a_template_renders_becomes_no_header(mails: Outbox) -> None:
    variables = {"id": HOSTILE, "name": HOSTILE}
    message = await sent(mails, await put(mails, variables=variables))
    assert set(message.keys()) == {
        "Date",
        "From",
        "Reply-To",
        "To",
        "Subject",
        "Message-ID",
        "MIME-Version",
        "Auto-Submitted",
        "Content-Type",
    }
    text, _html = leaves(message)
    assert text.get_content().split() == f"Hello {HOSTILE}.".split()
    assert message["Subject"].startswith("Order a Bcc: x@example.org <script>")


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"X-A\r\nBcc": "x@example.org"}},
        {"headers": {"X-A": HOSTILE}},
        {"from": f"Shop <shop@example.org>{HOSTILE}"},
        {"from": f"{HOSTILE} <shop@example.org>"},
        {"reply_to": HOSTILE},
        {"list_unsubscribe": f"https://example.org/{HOSTILE}"},
        {"attachments": [{"name": HOSTILE, "content": ""}]},
        {"attachments": [{"name": "a", "type": HOSTILE, "content": ""}]},
        {"inline": [{"cid": HOSTILE, "content": ""}]},
        {"date": HOSTILE},
    ],
)
async def test_EM_02_what_an_option_holds_becomes_no_header(mails: Outbox, options: dict[str, Any]) -> None:
    delivery_id = await put(mails, options=options)
    await mails.until_life(delivery_id, "failed")
    assert "options." in (await mails.row(delivery_id))["error"]
    assert await mails.captured(delivery_id) == []


async def test_EM_02_no_recipient_becomes_a_header_or_a_second_recipient(mails: Outbox) -> None:
    ids = [await put(mails, f"ann@example.org{tail}") for tail in ("\r\nBcc: x@example.org", ">,<x@example.org", "\n")]
    for delivery_id in ids:
        await mails.until_life(delivery_id, "failed")
    assert await mails.captured(*ids) == []


# What has been used to make one message two at a server that takes other line ends for CRLF.
ENDS = ("\r\n.\r\n", "\n.\n", "\n.\r\n", "\r.\r", "\r\n.\n", "\r\n.\r", "\r.\r\n", "\n.\r", "\r\r\n.\r\n")
SMUGGLED = "EHLO x\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\nSubject: smuggled\r\n\r\nx"


@pytest.fixture(scope="module")
def postfix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postfix]:
    """A mail server as people have one, with mailboxes for ann and bob."""
    good = Authority(tmp_path_factory.mktemp("authority")).sign("postfix")
    with Postfix(good.key.read_bytes() + good.certificate.read_bytes()) as running:
        yield running


@pytest.mark.skipif(bool(why_not()), reason=why_not() or "it is there")
@pytest.mark.parametrize("chunking", ["true", "false"])
async def test_EM_02_a_real_server_gets_each_mail_once_and_with_no_header_of_its_values(
    program: Program, outbox: Outbox, postfix: Postfix, chunking: str
) -> None:
    """With and without CHUNKING: only DATA has a final dot."""
    ann, bob = len(postfix.mailbox("ann")), len(postfix.mailbox("bob"))
    values = [HOSTILE, *(f"before{end}{SMUGGLED}{end}after" for end in ENDS)]
    await program.start(**mail(postfix.port, CHUNKING=chunking))
    written = [await put(outbox, variables={"id": value, "name": value}) for value in values]
    for delivery_id in written:
        await outbox.until_life(delivery_id, "sent")
    await outbox.until_life(last := await put(outbox), "sent")
    messages = (await postfix.messages("ann", ann + len(written) + 1))[ann:]
    assert len(messages) == len(written) + 1, last
    assert len(postfix.mailbox("bob")) == bob
    for message in messages:
        assert message["To"] == "ann@example.org"
        assert message["From"] == "shop@shop.example"
        assert not {"Bcc", "MAIL FROM"} & set(message.keys())
        assert len(message.get_all("Subject", [])) == 1
        # Whole, to its last line: nothing in it has ended it.
        text, _html = [part for part in message.walk() if not part.is_multipart()]
        assert str(text.get_payload()).rstrip().endswith(".")
