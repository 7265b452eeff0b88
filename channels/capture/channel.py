"""The capture channel: one INSERT a batch, judged by phase like a call to any provider."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import resources
from typing import Any

import asyncpg
import msgspec

from channels.contract import Accepted, BaseChannel, Envelope, Refused, Report, RetryAfter, Unknown, Verdict, unexpired
from channels.shared.mail import addresses
from channels.shared.mail.composer import Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.settings import AddressText, MailSettings
from channels.shared.phone import NUMBER_WORDS, number_of

_INSERT = resources.files("channels.capture").joinpath("insert.sql").read_text(encoding="utf-8")
_encode = msgspec.json.Encoder().encode

DATABASE_ERRORS = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# These end the session, and with it the answer to what was under way.
_CUT_OFF = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError)

Mail = tuple[bytes | None, str | None]
# A connection to the database that has the table; what it yields has asyncpg's `fetch`.
Connect = Callable[[], AbstractAsyncContextManager[Any]]


# The channel of mails. Messages of other channels have no bytes before their provider has them.
MAIL = "email"
# The channels whose recipients are phone numbers.
PHONES = frozenset({"sms", "whatsapp", "voice"})
WHATSAPP = "whatsapp:"
_PLAIN_COLUMNS = ("delivery_id", "attempt", "tenant_id", "workspace_id", "channel", "recipient", "idempotency_key")


class CaptureOptions(MailSettings, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """How mails are made, to be looked at as they would go out."""

    sender: AddressText = "Sandbox <sandbox@localhost>"
    # Refuse what a provider of mail would refuse. Without it the fault is stored with the message.
    refuse_faulty_mail: bool = False
    # Refuse recipients to whom no provider of the channel could send.
    refuse_faulty_recipients: bool = True


class Capture(BaseChannel):
    """Stores messages in `dispatcher.captured_messages`; mails also as the bytes that a server would get."""

    def __init__(self, connect: Connect, options: CaptureOptions | None = None) -> None:
        options = options or CaptureOptions()
        self._connect = connect
        self._composer = Composer(options)
        self._refuses = options.refuse_faulty_mail
        self._refuses_recipients = options.refuse_faulty_recipients

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Store a batch in one statement: all of it or nothing."""
        live, begun = batch, False
        try:
            async with self._connect() as connection:
                live = self._reachable(unexpired(batch, report), report)
                mails = [self._mail(envelope) for envelope in live]
                if self._refuses:
                    for envelope, (_, fault) in zip(live, mails, strict=True):
                        if fault is not None:
                            report(envelope, Refused(fault))
                    live = [envelope for envelope, (_, fault) in zip(live, mails, strict=True) if fault is None]
                    mails = [mail for mail in mails if mail[1] is None]
                if not live:
                    return
                begun = True
                rows = await connection.fetch(_INSERT, *_columns(live), *zip(*mails, strict=True))
        except DATABASE_ERRORS as error:
            name = type(error).__name__
            # With the statement under way the outcome is unknown, unless Postgres itself has said that it failed.
            said = isinstance(error, asyncpg.PostgresError) and not isinstance(error, _CUT_OFF)
            verdict: Verdict = Unknown(name) if begun and not said else RetryAfter(f"not kept: {name}")
            for envelope in live:
                report(envelope, verdict)
            return
        ids = {row["delivery_id"]: row["id"] for row in rows}
        for envelope in live:
            report(envelope, Accepted(f"capture-{ids[envelope.delivery_id]}"))

    def _reachable(self, batch: Sequence[Envelope], report: Report) -> Sequence[Envelope]:
        """Refuse what goes to nobody, and return the others."""
        if not self._refuses_recipients:
            return batch
        faults = [recipient_fault(envelope.channel, envelope.recipient) for envelope in batch]
        for envelope, fault in zip(batch, faults, strict=True):
            if fault is not None:
                report(envelope, Refused(fault))
        return [envelope for envelope, fault in zip(batch, faults, strict=True) if fault is None]

    def _mail(self, envelope: Envelope) -> Mail:
        if envelope.channel != MAIL:
            return None, None
        try:
            return self._composer.compose(envelope).data, None
        except MailFault as fault:
            return None, str(fault)


def recipient_fault(channel: str, recipient: str) -> str | None:
    """Why no provider of a channel could send to a recipient; None where one could. Other channels' are not judged."""
    if channel == MAIL:
        try:
            addresses.parse(recipient, "recipient")
        except MailFault as fault:
            return str(fault)
    elif channel in PHONES and number_of(recipient.strip().removeprefix(WHATSAPP)) is None:
        return f"recipient: {NUMBER_WORDS}"
    return None


def _columns(batch: Sequence[Envelope]) -> list[list[Any]]:
    plain = [[getattr(envelope, name) for envelope in batch] for name in _PLAIN_COLUMNS]
    return plain + [[_encode(getattr(envelope, name)).decode() for envelope in batch] for name in ("parts", "options")]
