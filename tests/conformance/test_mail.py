"""EM-03: what a mail server says, and in which phase, is what becomes of a delivery. The real program."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from bench.sink import available, sink
from tests.channels.mailbox import Mailbox
from tests.channels.smtp.scripted import Scripted, on
from tests.conformance.outbox import Outbox
from tests.support.program import Program
from tests.support.waits import until

needs_sink = pytest.mark.skipif(not available(), reason="smtp-sink is not installed: it comes with Postfix")
TEMPLATE = json.dumps({"subject": "Order {{ n }}", "text": "Hello {{ n }}", "html": "<p>Hello {{ n }}</p>"})


def mail(port: int, **options: str) -> dict[str, str]:
    """The environment of a program that sends mail there."""
    given = {"HOST": "127.0.0.1", "PORT": str(port), "FROM": "shop@shop.example"} | options
    return {"DISPATCHER_CHANNELS__EMAIL__PROVIDER": "smtp"} | {
        f"DISPATCHER_CHANNELS__EMAIL__OPTIONS__{name}": text for name, text in given.items()
    }


async def put(outbox: Outbox, recipient: str = "ann@example.org", max_attempts: int = 5) -> int:
    """A mail."""
    columns = {"recipient": recipient, "max_attempts": max_attempts, "template": TEMPLATE, "variables": '{"n": 7}'}
    return await outbox.put("email", "", **columns)


async def reason(outbox: Outbox, delivery_id: int) -> str:
    """Why it stands where it stands."""
    return str((await outbox.row(delivery_id))["error"])


@pytest.fixture
async def mailbox() -> AsyncIterator[Mailbox]:
    """A mail server that takes everything."""
    box = await Mailbox().start()
    yield box
    box.stop()


async def test_EM_03_a_mail_arrives_and_the_servers_name_for_it_is_kept(
    program: Program, outbox: Outbox, mailbox: Mailbox
) -> None:
    delivery = await put(outbox)
    await program.start(**mail(mailbox.port))
    await outbox.until_life(delivery, "sent")
    assert (await outbox.row(delivery))["provider_message_id"] == "M1"
    [message] = mailbox.messages()
    assert message["Subject"] == "Order 7"
    assert message["From"] == "shop@shop.example"


@needs_sink
@pytest.mark.parametrize(
    ("switches", "life", "words"),
    [
        (("-f", "MAIL"), "failed", "refused at MAIL: 500 5.3.0 Error: command failed"),
        (("-f", "RCPT", "-B", "550 5.7.1 Not by us"), "failed", "refused at RCPT: 550 5.7.1 Not by us"),
        (("-f", "DATA"), "failed", "refused at DATA: 500 5.3.0 Error: command failed"),
        (("-f", "."), "failed", "refused after the final dot: 500 5.3.0 Error: command failed"),
        (("-q", "."), "held", "unknown: the connection was lost after the final dot"),
    ],
)
async def test_EM_03_a_refusal_is_kept_with_its_phase_its_code_and_the_servers_words(
    program: Program, outbox: Outbox, switches: tuple[str, ...], life: str, words: str
) -> None:
    with sink(*switches) as port:
        await program.start(**mail(port))
        delivery = await put(outbox)
        assert await outbox.until_life(delivery, "failed", "held", "sent") == life
        assert await reason(outbox, delivery) == words


@needs_sink
@pytest.mark.parametrize("command", ["MAIL", "RCPT", "DATA"])
async def test_EM_03_a_connection_lost_before_the_final_dot_is_no_unknown_outcome(
    program: Program, outbox: Outbox, command: str
) -> None:
    with sink("-q", command) as port:
        await program.start(**mail(port))
        delivery = await put(outbox, max_attempts=2)

        async def tried() -> bool:
            return len(await outbox.attempts(delivery)) == 1

        await until(tried, "it was tried")
        assert await outbox.life(delivery) == "pending"
        assert await reason(outbox, delivery) == f"the connection was lost at {command}"


async def test_EM_03_an_answer_that_is_lost_behind_the_final_dot_is_held_and_never_sent_again(
    program: Program, outbox: Outbox
) -> None:
    dots = 0

    def script(line: bytes) -> bytes | None:
        nonlocal dots
        dots += line == b"."
        return None if line == b"." and dots == 1 else b""

    async with Scripted(script) as server:
        await program.start(**mail(server.port))
        first = await put(outbox, "first@example.org")
        await outbox.until_life(first, "held")
        second = await put(outbox, "second@example.org")
        await outbox.until_life(second, "sent")
        assert await outbox.life(first) == "held"
        assert sum(b"first@" in line for line in server.lines) == 1
        assert len(server.bodies) == 2


async def test_EM_03_a_domain_that_has_enough_waits_and_the_others_do_not(program: Program, outbox: Outbox) -> None:
    def script(line: bytes) -> bytes | None:
        return b"451 4.7.1 too much\r\n" if line.startswith(b"RCPT") and b"@slow.example" in line else b""

    async with Scripted(script) as server:
        await program.start(**mail(server.port))
        slow = await put(outbox, "ann@slow.example")
        await program.until(lambda: any(b"@slow.example" in line for line in server.lines), "it was tried")
        await outbox.until_life(slow, "pending")
        behind = await put(outbox, "bob@slow.example")
        other = await put(outbox, "ann@quick.example")
        await outbox.until_life(other, "sent")
        await outbox.until_life(behind, "pending")
        assert not any(b"bob@slow.example" in line for line in server.lines)
        assert (await outbox.row(slow))["attempts"] == 0


async def test_EM_03_the_recipient_is_in_no_reason_and_in_no_log(program: Program, outbox: Outbox) -> None:
    async with Scripted(on(RCPT=b"550 5.1.1 <secret.name@example.org> unknown\r\n")) as server:
        await program.start(**mail(server.port), DISPATCHER_LOG__LEVEL="debug")
        delivery = await put(outbox, "secret.name@example.org")
        await outbox.until_life(delivery, "failed")
        assert await reason(outbox, delivery) == "refused at RCPT: 550 5.1.1 <address> unknown"
        assert "secret.name" not in program.log_path.read_text()


async def test_EM_03_tls_is_required_for_a_remote_host_unless_it_is_switched_off_by_name(
    program: Program, outbox: Outbox, second: Program
) -> None:
    """The proxy's other address of this machine is no loopback by name: `0.0.0.0` is whatever the machine is."""
    async with Scripted() as server:
        delivery = await put(outbox)
        await program.start(**mail(server.port, HOST="0.0.0.0"))  # noqa: S104 - spoken to, not listened on
        await program.until(lambda: program.events("channel.unready"), "it says why nothing goes")
        assert "TLS is required" in program.events("channel.unready")[0]["reason"]
        assert program.metric("dispatcher_channel_ready", channel="email") == 0
        assert (await outbox.row(delivery))["attempts"] == 0
        assert not any(line.startswith(b"MAIL") for line in server.lines)
        await program.stop()
        await second.start(**mail(server.port, HOST="0.0.0.0", TLS="off"))  # noqa: S104 - as above
        await outbox.until_life(delivery, "sent")


async def test_EM_03_credentials_are_neither_logged_nor_shown(program: Program, outbox: Outbox) -> None:
    async with Scripted() as server:
        given = mail(server.port, USERNAME="shop", PASSWORD="correct-horse")
        await program.start(**given, DISPATCHER_LOG__LEVEL="debug")
        await put(outbox)
        await program.until(lambda: program.events("channel.unready"), "it says why nothing goes")
        assert "does not offer AUTH without TLS" in program.events("channel.unready")[0]["reason"]
        program.environment = given
        shown = await asyncio.to_thread(program.run, "config", "show")
        assert shown.returncode == 0
        assert b"correct-horse" not in shown.stdout + shown.stderr
        assert "correct-horse" not in program.log_path.read_text()
