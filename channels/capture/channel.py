"""The capture channel: one INSERT a batch, judged by phase like a call to any provider."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import resources
from typing import Any

import asyncpg
import msgspec

from channels.contract import Accepted, Envelope, NotCalled, Refused, Report, RetryAfter, Unknown, Verdict
from channels.shared.mail import Composer, MailFault, MailSettings
from channels.shared.mail.settings import AddressText

_KEEP = resources.files("channels.capture").joinpath("insert.sql").read_text(encoding="utf-8")
_encode = msgspec.json.Encoder().encode

_TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# These end the session, and with it the answer to what was under way.
_CUT_OFF = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError)

Mail = tuple[bytes | None, str | None]
# A connection to the database that has the table; what it yields has asyncpg's `fetch`.
Connect = Callable[[], AbstractAsyncContextManager[Any]]


# The channel whose messages are mails. Others have no bytes of their own before their provider has them.
MAIL = "email"
SANDBOX = "Sandbox <sandbox@localhost>"


class CaptureOptions(MailSettings, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """How mails are made, to be looked at as they would go out."""

    sender: AddressText = SANDBOX
    # Refuse what a provider of mail would refuse. Without it the fault is kept beside the message.
    refuse_faulty_mail: bool = False


class Capture:
    """Keeps messages in `dispatcher.captured_messages`; mails also as the bytes that a server would get."""

    idempotency_key_seconds = 0.0
    keyed_recipients: frozenset[str] = frozenset()

    def __init__(self, connect: Connect, options: CaptureOptions | None = None) -> None:
        options = options or CaptureOptions()
        self._connect = connect
        self._composer = Composer(options)
        self._refuses = options.refuse_faulty_mail

    async def prepare(self, count: int) -> None:
        """The pool connects when it must."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Keep a batch in one statement: all of it or nothing."""
        live, begun = batch, False
        try:
            async with self._connect() as connection:
                live = _licensed(batch, report)
                made = [self._mail(envelope) for envelope in live]
                if self._refuses:
                    live, made = _refuse(live, made, report)
                if not live:
                    return
                begun = True
                rows = await connection.fetch(_KEEP, *_columns(live), *zip(*made, strict=True))
        except _TROUBLE as trouble:
            # With the statement under way nobody knows, unless Postgres itself has said that it failed.
            said = isinstance(trouble, asyncpg.PostgresError) and not isinstance(trouble, _CUT_OFF)
            verdict: Verdict = (
                Unknown(type(trouble).__name__)
                if begun and not said
                else RetryAfter(f"not kept: {type(trouble).__name__}")
            )
            for envelope in live:
                report(envelope, verdict)
            return
        kept = {row["delivery_id"]: row["id"] for row in rows}
        for envelope in live:
            report(envelope, Accepted(f"capture-{kept[envelope.delivery_id]}"))

    async def close(self) -> None:
        """The pool is not ours to close."""

    def _mail(self, envelope: Envelope) -> Mail:
        """A mail's bytes, or why there are none."""
        if envelope.channel != MAIL:
            return None, None
        try:
            return self._composer.compose(envelope).data, None
        except MailFault as fault:
            return None, fault.reason


def _refuse(batch: Sequence[Envelope], made: Sequence[Mail], report: Report) -> tuple[Sequence[Envelope], list[Mail]]:
    """Those of which there is no fault."""
    sound: list[tuple[Envelope, Mail]] = []
    for envelope, mail in zip(batch, made, strict=True):
        if mail[1] is None:
            sound.append((envelope, mail))
        else:
            report(envelope, Refused(mail[1]))
    return [envelope for envelope, _ in sound], [mail for _, mail in sound]


def _licensed(batch: Sequence[Envelope], report: Report) -> list[Envelope]:
    live: list[Envelope] = []
    for envelope in batch:
        if envelope.licence.expired():
            report(envelope, NotCalled("the licence ran out"))
        else:
            live.append(envelope)
    return live


def _columns(batch: Sequence[Envelope]) -> list[list[Any]]:
    return [
        [envelope.delivery_id for envelope in batch],
        [envelope.attempt for envelope in batch],
        [envelope.tenant_id for envelope in batch],
        [envelope.workspace_id for envelope in batch],
        [envelope.channel for envelope in batch],
        [envelope.recipient for envelope in batch],
        [envelope.idempotency_key for envelope in batch],
        [_encode(envelope.parts).decode() for envelope in batch],
        [_encode(envelope.options).decode() for envelope in batch],
    ]
