"""The client over HTTP: each call is one request, repeated where that is safe."""

import os
import ssl
from collections.abc import Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from msgspec import Raw, Struct
from msgspec.structs import astuple

from dispatcher.base.values.counts import counted
from dispatcher.client.answers import Delivery, Deployed, Enrolled, Run, Sent, Triggered
from dispatcher.client.cells import CellTransport
from dispatcher.client.errors import NotFound, Unexpected
from dispatcher.client.events import Decision
from dispatcher.client.interface import TRANSACTION_SECONDS_MAX, AnyClient
from dispatcher.client.transport import CALL_SECONDS_MAX, Reply, Transport, segment

if TYPE_CHECKING:
    from dispatcher.client.in_transaction import Connection, TransactionClient


class _SentMany(Struct, frozen=True):
    deliveries: list[Sent]


class _Deliveries(Struct, frozen=True):
    deliveries: list[Delivery]


class _Notified(Struct, frozen=True):
    decisions: list[Decision]


class _NotifiedMany(Struct, frozen=True):
    events: list[_Notified]


class _Enrolled(Struct, frozen=True, rename="camel"):
    id: int
    status: str
    version: int
    next_step_at: datetime | None
    duplicate: bool


class _Cancelled(Struct, frozen=True):
    cancelled: int


class Client(AnyClient):
    """Calls a dispatcher with a key that `dispatcher keys create` has shown.

    The role triggerOperator may trigger and act on runs, deliveries take a systemAdmin. Use it from one event loop, as
    an `async with` or until `close`. `timeout` is for a call with all its attempts; `tls` for servers with certificates
    of a private authority. Over `http://` everybody on the way can read the key: use it for this machine only.
    """

    _patient = True

    def __init__(
        self, url: str, key: str, *, timeout: float = CALL_SECONDS_MAX, tls: ssl.SSLContext | None = None
    ) -> None:
        self._transport = Transport(url, key, seconds=timeout, tls=tls)

    @classmethod
    def in_cells(
        cls,
        directory: str | os.PathLike[str],
        key: str,
        *,
        tenant: str = "default",
        timeout: float = CALL_SECONDS_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> Self:
        """Return a client that calls the cell of a tenant, which the file `directory` names."""
        transport = CellTransport(directory, tenant, key, seconds=timeout, tls=tls)
        client = cls(transport.url, key)
        client._transport = transport
        return client

    @staticmethod
    def on(
        connection: "Connection",
        *,
        tenant: str = "default",
        workspace: str = "default",
        actor: str | None = None,
        timeout: float = TRANSACTION_SECONDS_MAX,
    ) -> "TransactionClient":
        """Return a client on a connection to the database, inside the transaction that it is in."""
        from dispatcher.client.in_transaction import TransactionClient  # noqa: PLC0415 - HTTP needs no asyncpg

        return TransactionClient(connection, tenant=tenant, workspace=workspace, actor=actor, timeout=timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._transport.url!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client cannot be used again."""
        await self._transport.aclose()

    async def _trigger(self, workflow: str, data: bytes, key: str | None, traceparent: str | None) -> Triggered:
        body: dict[str, Any] = {"input": Raw(data)}
        if key is not None:
            body["idempotency_key"] = key
        return (await self._post(f"/workflows/{segment(workflow)}/triggers", body, traceparent)).read(Triggered)

    async def _deploy(self, campaign: str, scheduled_for: datetime | None, key: str | None) -> Deployed:
        said = {"scheduled_for": scheduled_for, "idempotency_key": key}
        body = {name: value for name, value in said.items() if value is not None}
        return (await self._post(f"/campaigns/{segment(campaign)}/deploy", body)).read(Deployed)

    async def _send(self, message: bytes, traceparent: str | None) -> Sent:
        return (await self._post("/deliveries", message, traceparent)).read(Sent)

    async def _send_all(self, messages: Sequence[bytes], traceparent: str | None) -> list[Sent]:
        body = b'{"deliveries":[' + b",".join(messages) + b"]}"
        return (await self._post("/deliveries/batch", body, traceparent)).read(_SentMany).deliveries

    async def enrol(self, sequence: str, contact: int | str) -> Enrolled:
        """Enrol a contact."""
        reply = await self._post(f"/sequences/{segment(sequence)}/enrolments", {"contactId": contact})
        return Enrolled(*astuple(reply.read(_Enrolled)))

    async def contact_event(self, event: str, contact: int | str) -> int:
        """Tell of an event of a contact."""
        reply = await self._post("/contact-events", {"event": event, "contactId": contact})
        return reply.read(_Cancelled).cancelled

    async def _notify(self, events: bytes, count: int, traceparent: str | None) -> list[list[Decision]]:
        reply = await self._post("/events/batch", b'{"events":' + events + b"}", traceparent)
        found = reply.read(_NotifiedMany).events
        if len(found) != count:
            raise Unexpected(f"{counted(count, 'event was', 'events were')} told, and {len(found)} answered")
        return [one.decisions for one in found]

    async def _note_fallback(self, decision: Decision, outcome: str, error: str | None) -> None:
        body = {"channel": decision.channel, "audience": decision.audience, "outcome": outcome, "error": error}
        await self._post(f"/events/{decision.event_id:d}/outcomes", body)

    async def status(self, run: int) -> Run:
        """Return the run."""
        return (await self._transport.ask("GET", f"/runs/{run:d}")).read(Run)

    async def _signal(self, run: int, event: str, data: bytes) -> None:
        await self._post(f"/runs/{run:d}/signal", {"event": event, "data": Raw(data)})

    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run."""
        await self._post(f"/runs/{run:d}/cancel", {"reason": reason})

    async def delivery(self, delivery: int | str) -> Delivery:
        """Return a delivery."""
        if isinstance(delivery, int):
            return (await self._transport.ask("GET", f"/deliveries/{delivery:d}")).read(Delivery)
        reply = await self._transport.ask("GET", "/deliveries", query={"idempotency_key": delivery, "limit": 1})
        found = reply.read(_Deliveries).deliveries
        if not found:
            raise NotFound("there is no delivery with this key", kind="not-found")
        return found[0]

    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Cancel a delivery."""
        if isinstance(delivery, int):
            await self._post(f"/deliveries/{delivery:d}/cancel", {"reason": reason})
        else:
            await self._post("/deliveries/cancel", {"idempotency_key": delivery, "reason": reason})

    async def _post(self, path: str, body: Any, traceparent: str | None = None) -> Reply:  # noqa: ANN401 - any JSON
        return await self._transport.ask("POST", path, body=body, traceparent=traceparent)
