"""The capture channel: one INSERT a batch, judged by phase like a call to any provider."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from importlib import resources
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from channels.contract import Accepted, Envelope, NotCalled, Report, RetryAfter, Unknown, Verdict

_KEEP = resources.files("channels.capture").joinpath("keep.sql").read_text(encoding="utf-8")
_encode = msgspec.json.Encoder().encode

_TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
# These end the session, and with it the answer to what was under way.
_CUT_OFF = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, asyncpg.InsufficientResourcesError)

# A connection to the database that has the table; what it yields has asyncpg's `fetch`.
Connect = Callable[[], AbstractAsyncContextManager[Any]]


class CaptureOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """There is nothing to set."""


class Capture:
    """Keeps messages in `dispatcher.captured_messages`."""

    idempotency_key_seconds = 0.0

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def prepare(self, count: int) -> None:
        """The pool connects when it must."""

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Keep a batch in one statement: all of it or nothing."""
        live, begun = batch, False
        try:
            async with self._connect() as connection:
                live = _licensed(batch, report)
                if not live:
                    return
                begun = True
                rows = await connection.fetch(_KEEP, *_columns(live))
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
