"""TLS and AUTH against aiosmtpd: required for remote hosts, and each refusal says what to change."""

import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from channels.contract import Accepted, Refused, Unready
from channels.smtp.options import is_loopback
from tests.channels.mailbox import Mailbox
from tests.channels.smtp.certificates import Authority, Certificate
from tests.channels.smtp.scripted import EHLO, Scripted
from tests.channels.smtp.support import channel, envelope, envelopes, options, sent

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")

PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The certificate authority of the tests."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def good(authority: Authority) -> Certificate:
    """A certificate for this machine."""
    return authority.sign("good")


def _context(certificate: Certificate) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    return context


def _login(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and (data.login, data.password) == (b"shop", PASSWORD.encode())
    return AuthResult(success=right, handled=False)


@asynccontextmanager
async def mailbox(
    certificate: Certificate | None = None, implicit: bool = False, **given: Any
) -> AsyncIterator[Mailbox]:
    """A mail server with a certificate."""
    context = _context(certificate) if certificate else None
    box = Mailbox(listen_tls=context, **given) if implicit else Mailbox(tls_context=context, **given)
    await box.start()
    try:
        yield box
    finally:
        box.stop()


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_mail_goes_over_tls(authority: Authority, good: Certificate, tls: str, host: str) -> None:
    given = {"tls": tls, "ca_path": str(authority.certificate), "host": host, "connections": 3}
    async with mailbox(good, tls == "implicit", require_starttls=tls == "starttls") as box:
        async with channel(box.port, **given) as smtp:
            verdicts = await sent(smtp, envelopes(30))
        assert {type(one) for one in verdicts} == {Accepted}
        assert len(box.taken) == 30


async def test_a_login_goes_over_tls(authority: Authority, good: Certificate) -> None:
    given = {"tls": "starttls", "ca_path": str(authority.certificate), "username": "shop"}
    async with mailbox(good, authenticator=_login, auth_required=True) as box:
        async with channel(box.port, password=PASSWORD, **given) as smtp:
            assert [type(one) for one in await sent(smtp, [envelope()])] == [Accepted]
        async with channel(box.port, password="wrong", **given) as smtp:
            with pytest.raises(Unready) as trouble:
                await smtp.prepare(1)
    assert "refused the login (535): set username and password in the channel's options" in str(trouble.value)
    assert "wrong" not in str(trouble.value)


async def test_auth_that_is_offered_after_tls_only_is_named_as_such(good: Certificate) -> None:
    async with (
        mailbox(good, authenticator=_login, auth_required=True) as box,
        channel(box.port, username="shop", password=PASSWORD) as smtp,
    ):
        with pytest.raises(Unready, match="does not offer AUTH without TLS: set tls to `starttls` or `implicit`"):
            await smtp.prepare(1)


async def test_a_server_that_wants_a_login_refuses_with_what_to_set(authority: Authority, good: Certificate) -> None:
    async with (
        mailbox(good, authenticator=_login, auth_required=True) as box,
        channel(box.port, tls="starttls", ca_path=str(authority.certificate)) as smtp,
    ):
        [verdict] = await sent(smtp, [envelope()])
    assert isinstance(verdict, Refused)
    assert "530 5.7.0" in verdict.reason
    assert "see `username`, `password` and `tls`" in verdict.reason
    assert not verdict.suppresses


@pytest.mark.parametrize("tls", ["starttls", "implicit"])
@pytest.mark.parametrize(
    ("names", "expired", "trusted", "words"),
    [
        ("DNS:localhost,IP:127.0.0.1", True, True, "certificate has expired"),
        ("DNS:elsewhere.example", False, True, "IP address mismatch"),
        ("DNS:localhost,IP:127.0.0.1", False, False, "unable to get local issuer certificate"),
    ],
    ids=["expired", "another-name", "not-trusted"],
)
async def test_a_refused_certificate_is_named_with_its_reason(
    authority: Authority, tls: str, names: str, expired: bool, trusted: bool, words: str
) -> None:
    certificate = authority.sign(f"c{tls}{expired}{trusted}{len(names)}", names, expired)
    given = {"tls": tls} | ({"ca_path": str(authority.certificate)} if trusted else {})
    async with mailbox(certificate, tls == "implicit") as box, channel(box.port, **given) as smtp:
        with pytest.raises(Unready) as trouble:
            await smtp.prepare(1)
        assert words in str(trouble.value)
        assert "have it renewed or set right, or name its authority in ca_path" in str(trouble.value)
        assert not box.taken


async def test_where_starttls_is_required_and_not_offered_nothing_is_sent() -> None:
    async with Scripted() as server, channel(server.port, tls="starttls") as smtp:
        with pytest.raises(Unready, match="does not offer STARTTLS, and TLS is required: set tls to"):
            await smtp.prepare(1)
        assert not any(line.startswith(b"MAIL") for line in server.lines)


async def test_replies_before_tls_are_forgotten_after_it() -> None:
    """Plain replies after STARTTLS are ignored: the handshake fails instead."""
    offer = EHLO.replace(b"250 8BITMIME", b"250-STARTTLS\r\n250 8BITMIME")

    def script(line: bytes) -> bytes | None:
        return b"220 go ahead\r\n250-scripted\r\n250 AUTH PLAIN\r\n" if line == b"STARTTLS" else b""

    async with Scripted(script, offer) as server, channel(server.port, tls="starttls", connect_seconds_max=2.0) as smtp:
        with pytest.raises(Unready, match=r"TLS|STARTTLS"):
            await smtp.prepare(1)
        assert not any(line.startswith(b"MAIL") for line in server.lines)


async def test_a_plain_connection_to_a_tls_port_is_explained(good: Certificate) -> None:
    async with mailbox(good, implicit=True) as box, channel(box.port, tls="off", connect_seconds_max=1.0) as smtp:
        with pytest.raises(Unready, match="see host, port and tls"):
            await smtp.prepare(1)


async def test_a_tls_connection_to_a_plain_port_is_explained() -> None:
    async with Scripted() as server, channel(server.port, tls="implicit", connect_seconds_max=2.0) as smtp:
        with pytest.raises(Unready, match="see host, port and tls"):
            await smtp.prepare(1)


async def test_authorities_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for path in (tmp_path / "missing.pem", tmp_path / "empty.pem"):
        async with Scripted() as server, channel(server.port, tls="starttls", ca_path=str(path)) as smtp:
            with pytest.raises(Unready, match=r"options\.ca_path cannot be used"):
                await smtp.prepare(1)


@pytest.mark.parametrize(
    ("host", "port", "tls", "security"),
    [
        ("127.0.0.1", 25, "auto", "off"),
        ("::1", 587, "auto", "off"),
        ("localhost", 25, "auto", "off"),
        ("localhost", 465, "auto", "implicit"),
        ("mail.example.org", 25, "auto", "starttls"),
        ("mail.example.org", 465, "auto", "implicit"),
        ("192.0.2.1", 587, "auto", "starttls"),
        ("0.0.0.0", 587, "auto", "starttls"),  # noqa: S104 - not listened on
        ("localhost.example.org", 587, "auto", "starttls"),
        ("mail.example.org", 587, "off", "off"),
        ("mail.example.org", 587, "implicit", "implicit"),
    ],
)
def test_tls_is_required_for_all_hosts_but_this_one(host: str, port: int, tls: str, security: str) -> None:
    assert options(port, host=host, tls=tls).security == security
    assert is_loopback(host) == (host in {"127.0.0.1", "::1", "localhost"})


async def test_utf8_addresses_go_where_the_server_takes_them() -> None:
    async with mailbox() as box, channel(box.port) as smtp:
        verdicts = await sent(smtp, [envelope(1, "jörg@bücher.example"), envelope(2, "ann@bücher.example")])
        assert [type(one) for one in verdicts] == [Accepted, Accepted]
        assert [to.partition("@")[0] for to, _ in box.taken] == ["jörg", "ann"]
        assert box.taken[1][0] == "ann@xn--bcher-kva.example"
    async with Scripted() as server, channel(server.port) as smtp:
        verdicts = await sent(smtp, [envelope(1, "jörg@bücher.example"), envelope(2, "ann@bücher.example")])
    assert verdicts[0] == Refused(
        "recipient: an address that is not ASCII before its @ needs SMTPUTF8, which the server does not offer"
    )
    assert type(verdicts[1]) is Accepted
