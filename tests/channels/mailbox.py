"""A mail server for tests: aiosmtpd's, in the test's own loop, with a mailbox that the test reads."""

import asyncio
import logging
import ssl
from email.message import Message
from email.parser import BytesParser
from email.policy import SMTP as POLICY
from typing import Any, cast

from aiosmtpd.smtp import SMTP, Envelope, Session

# It writes whom it gets mail for; what is in logs is what tests of ours look at.
logging.getLogger("mail.log").disabled = True


class Mailbox:
    """Listens on a free port of 127.0.0.1 and keeps what it takes."""

    def __init__(self, listen_tls: ssl.SSLContext | None = None, **arguments: Any) -> None:
        self._listen_tls = listen_tls
        self._arguments = arguments
        self._server: asyncio.Server
        self.taken: list[tuple[str, bytes]] = []
        self.port = 0

    async def start(self) -> "Mailbox":
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._protocol, "127.0.0.1", 0, ssl=self._listen_tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def stop(self) -> None:
        """Listen no more."""
        self._server.close()

    def _protocol(self) -> SMTP:
        return SMTP(self, hostname="mailbox.example", enable_SMTPUTF8=True, **self._arguments)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 - aiosmtpd's
        """Keep one message."""
        self.taken.append((envelope.rcpt_tos[0], cast("bytes", envelope.original_content)))
        return f"250 2.0.0 Ok: queued as M{len(self.taken)}"

    def messages(self) -> list[Message]:
        """The accepted messages, parsed by the standard library."""
        return [parsed(data) for _, data in self.taken]


def parsed(data: bytes) -> Message:
    """A message, parsed."""
    return BytesParser(policy=POLICY).parsebytes(data)
