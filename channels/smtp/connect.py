"""Connecting: aiosmtplib opens, greets, begins TLS and logs in; a failure is explained with its fix."""

import asyncio
import socket
import ssl
from typing import cast

import aiosmtplib
from msgspec import Struct

from channels.contract import Unready
from channels.smtp.options import SmtpOptions
from channels.smtp.server_replies import clean

PORT_WORDS = "see host, port and tls in the channel's options"


class Features(Struct, frozen=True):
    """The extensions that the server offers and we use."""

    pipelining: bool
    chunking: bool
    eight_bit: bool
    smtputf8: bool
    # Bytes; 0 is no limit that it names.
    size: int


class NoConnection(Unready):
    """There is no connection. `final`: another try will fail too, until a setting is changed."""

    def __init__(self, words: str, final: bool = False) -> None:
        super().__init__(words)
        self.final = final


def trust(options: SmtpOptions) -> ssl.SSLContext:
    """The certificates that are accepted: the system's and the configured ones, for the server's own name."""
    context = ssl.create_default_context()
    if options.ca_path:
        try:
            context.load_verify_locations(cafile=options.ca_path)
        except OSError as error:  # what ssl cannot read is one too
            why = error.strerror or "is no PEM file with certificates"
            raise NoConnection(f"options.ca_path cannot be used: {clean(why)}", True) from None
    return context


class Connector:
    """Opens connections, each ready for its first message."""

    def __init__(self, options: SmtpOptions) -> None:
        self._options = options
        self._at = f"{options.host}:{options.port}"
        self._helo = options.helo or _own_name()
        self._context: ssl.SSLContext | None = None

    async def open(self) -> tuple[asyncio.Transport, Features]:
        """Return a connection, or raise NoConnection with the reason."""
        security = self._options.security
        if security != "off" and self._context is None:
            # Reading the system's certificates takes some 20 ms.
            self._context = await asyncio.to_thread(trust, self._options)
        client = aiosmtplib.SMTP(
            hostname=self._options.host,
            port=self._options.port,
            local_hostname=self._helo,
            use_tls=security == "implicit",
            start_tls=False,
            tls_context=self._context,
            timeout=self._options.connect_seconds_max,
        )
        opening = _Opening(client)
        try:
            async with asyncio.timeout(self._options.connect_seconds_max):
                return await self._converse(opening, security == "starttls")
        except NoConnection:
            client.close()
            raise
        except (aiosmtplib.SMTPException, OSError, UnicodeError, ValueError) as error:
            client.close()
            raise self._explained(error, opening.phase) from None
        except BaseException:
            client.close()
            raise

    async def _converse(self, opening: "_Opening", starttls: bool) -> tuple[asyncio.Transport, Features]:
        client = opening.client
        await client.connect()
        await opening.greet()
        if starttls:
            if not client.supports_extension("starttls"):
                raise NoConnection(
                    f"{self._at} does not offer STARTTLS, and TLS is required: set tls to `implicit` where the port is "
                    "one for TLS, or to `off` to send without",
                    True,
                )
            opening.phase = "STARTTLS"
            await client.starttls()
            await opening.greet()
        if self._options.username:
            opening.phase = "AUTH"
            await self._login(client)
        features = _features(client, self._options)
        transport = cast("asyncio.Transport | None", client.transport)
        if transport is None or transport.is_closing():
            raise NoConnection(f"{self._at} closed the connection at {opening.phase}")
        # From here on the conversation is ours; the protocol that aiosmtplib spoke by is left without a line.
        return transport, features

    async def _login(self, client: aiosmtplib.SMTP) -> None:
        if not client.supports_extension("auth"):
            plain = client.get_transport_info("sslcontext") is None
            what = (
                " without TLS: set tls to `starttls` or `implicit`" if plain else ": leave username and password empty"
            )
            raise NoConnection(f"{self._at} does not offer AUTH{what}", True)
        if not set(client.supported_auth_methods):
            raise NoConnection(f"{self._at} offers no AUTH by user name and password", True)
        await client.login(self._options.username, self._options.password)

    def _explained(self, error: Exception, phase: str) -> NoConnection:  # noqa: PLR0911 - one return a reason
        at = self._at
        cause = error.__cause__ if isinstance(error, aiosmtplib.SMTPConnectError) and error.__cause__ else error
        match cause:
            case ssl.SSLCertVerificationError():
                return NoConnection(
                    f"the certificate of {at} is not accepted ({clean(cause.verify_message)}): have it renewed or set "
                    "right, or name its authority in ca_path",
                    True,
                )
            case ssl.SSLError():
                return NoConnection(f"TLS with {at} failed ({cause.reason or 'no reason'}): {PORT_WORDS}", True)
            case aiosmtplib.SMTPAuthenticationError():
                if cause.code >= 500:  # noqa: PLR2004 - 5xx is for good
                    words = f"{at} refused the login ({cause.code}): set username and password in the channel's options"
                    return NoConnection(words, True)
                return NoConnection(f"{at} takes no login now ({cause.code})")
            case aiosmtplib.SMTPResponseException(code=-1):
                return NoConnection(f"{at} does not answer as a mail server does, at {phase}: {PORT_WORDS}", True)
            case aiosmtplib.SMTPResponseException():
                return NoConnection(f"{at} refused {phase}: {cause.code} {clean(cause.message)}")
            case TimeoutError():
                seconds = self._options.connect_seconds_max
                return NoConnection(f"{at} did not get past {phase} within {seconds:g} s: {PORT_WORDS}")
            case aiosmtplib.SMTPServerDisconnected() | ConnectionResetError() | BrokenPipeError():
                return NoConnection(f"{at} closed the connection at {phase}")
            case UnicodeError() | ValueError():
                return NoConnection("the name in host or helo cannot be used: set it right", True)
            case OSError():
                return NoConnection(f"{at} cannot be reached ({clean(cause.strerror or type(cause).__name__)})")
            case _:
                return NoConnection(f"{at} failed at {phase} ({type(cause).__name__})")


class _Opening:
    """A connection on its way, and how far it is."""

    def __init__(self, client: aiosmtplib.SMTP) -> None:
        self.client = client
        self.phase = "the connection"

    async def greet(self) -> None:
        """EHLO, or HELO where the server is as old as that."""
        self.phase = "EHLO"
        try:
            await self.client.ehlo()
        except aiosmtplib.SMTPHeloError:
            if not self.client.is_connected:
                raise
            await self.client.helo()


def _features(client: aiosmtplib.SMTP, options: SmtpOptions) -> Features:
    size = client.esmtp_extensions.get("size", "")
    return Features(
        pipelining=options.pipelining and client.supports_extension("pipelining"),
        chunking=options.chunking and client.supports_extension("chunking"),
        eight_bit=client.supports_extension("8bitmime"),
        smtputf8=client.supports_extension("smtputf8"),
        # No message is longer than what 12 digits say, and no number that is longer is converted.
        size=int(size) if size.isascii() and size.isdigit() and len(size) <= 12 else 0,  # noqa: PLR2004 - as said
    )


def _own_name() -> str:
    """The name of this host, if it is valid in EHLO."""
    name = socket.gethostname()
    return name if name.isascii() and all(one.isalnum() or one in ".-" for one in name) else "localhost"
