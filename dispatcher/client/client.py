"""The client over HTTP: each call is one request, asked again where that is safe."""

import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from msgspec import Raw, Struct

from dispatcher.client.answers import Delivery, Message, Run, Sent, Triggered
from dispatcher.client.encoding import json_of
from dispatcher.client.errors import NotFound
from dispatcher.client.in_transaction import CALL_SECONDS_MAX as INSIDE_SECONDS_MAX
from dispatcher.client.in_transaction import TransactionClient
from dispatcher.client.interface import POLL_SECONDS, WAIT_SECONDS, OnProgress
from dispatcher.client.messages import written
from dispatcher.client.transport import CALL_SECONDS_MAX, Transport, segment
from dispatcher.client.waiting import wait

if TYPE_CHECKING:
    from dispatcher.client.in_transaction import Connection


class _SentMany(Struct, frozen=True):
    deliveries: list[Sent]


class _Deliveries(Struct, frozen=True):
    deliveries: list[Delivery]


class Client:
    """Talks to a dispatcher with a key that `dispatcher keys create` has shown.

    The role triggerOperator may trigger and act on runs, deliveries take a systemAdmin. Use it from one event loop, as
    an `async with` or until `close`. `timeout` is for a call with all its attempts; `tls` for servers with certificates
    of an authority of one's own. Over `http://` the key is there for all to read who carry it: for this very machine.
    """

    def __init__(
        self, url: str, key: str, *, timeout: float = CALL_SECONDS_MAX, tls: ssl.SSLContext | None = None
    ) -> None:
        self._transport = Transport(url, key, seconds=timeout, tls=tls)

    @staticmethod
    def on(
        connection: "Connection",
        *,
        tenant: str = "default",
        workspace: str = "default",
        actor: str | None = None,
        timeout: float = INSIDE_SECONDS_MAX,
    ) -> TransactionClient:
        """The same over a connection to the database, inside the transaction that it is in."""
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
        """Let its connections go, for good."""
        await self._transport.close()

    async def trigger(
        self, workflow: str, data: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Triggered:
        """Start a run of a workflow; raises Refused with everything that is missing.

        The key starts one run: who triggers with it again gets the first one, as a duplicate.
        """
        asked: dict[str, Any] = {"input": Raw(json_of({} if data is None else data))}
        if key is not None:
            asked["idempotency_key"] = key
        path = f"/workflows/{segment(workflow)}/triggers"
        return (await self._transport.ask("POST", path, body=asked)).read(Triggered)

    @overload
    async def send(self, messages: Message) -> Sent: ...
    @overload
    async def send(self, messages: Sequence[Message]) -> list[Sent]: ...
    async def send(self, messages: Message | Sequence[Message]) -> Sent | list[Sent]:
        """Send one message, or many: all of them, or none and Refused with the faults of all."""
        if isinstance(messages, Message):
            (line,) = written([messages])
            return (await self._transport.ask("POST", "/deliveries", body=line)).read(Sent)
        body = b'{"deliveries":[' + b",".join(written(messages)) + b"]}"
        return (await self._transport.ask("POST", "/deliveries/batch", body=body)).read(_SentMany).deliveries

    async def status(self, run: int) -> Run:
        """Where a run stands."""
        return (await self._transport.ask("GET", f"/runs/{run:d}")).read(Run)

    async def wait(
        self,
        run: int,
        *,
        on_progress: OnProgress | None = None,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - its error names the run
        poll: float = POLL_SECONDS,
    ) -> Run:
        """The run, when it has ended, well or not; WaitTimedOut where it has not by then.

        `on_progress` is called with each state that is not the one before, the first and the last included. What it
        raises ends the waiting, and the run goes on. While the server is away, the waiting goes on.
        """
        return await wait(run, self.status, on_progress, seconds=timeout, poll=poll, patient=True)

    async def signal(self, run: int, event: str, data: Mapping[str, Any] | None = None) -> None:
        """Send a run an event. It is kept for the node that waits for it. Conflict where the run is over."""
        body = {"event": event, "data": Raw(json_of({} if data is None else data))}
        await self._transport.ask("POST", f"/runs/{run:d}/signal", body=body)

    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run: it sends nothing more. Conflict where it is over."""
        await self._transport.ask("POST", f"/runs/{run:d}/cancel", body={"reason": reason})

    async def delivery(self, delivery: int | str) -> Delivery:
        """Where a delivery stands, by its id (a number) or its key (a text)."""
        if isinstance(delivery, int):
            return (await self._transport.ask("GET", f"/deliveries/{delivery:d}")).read(Delivery)
        reply = await self._transport.ask("GET", "/deliveries", query={"idempotency_key": delivery, "limit": 1})
        found = reply.read(_Deliveries).deliveries
        if not found:
            raise NotFound("there is no delivery with this key", kind="not-found")
        return found[0]

    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Not send a delivery, by its id or its key. Conflict where it is too late."""
        if isinstance(delivery, int):
            await self._transport.ask("POST", f"/deliveries/{delivery:d}/cancel", body={"reason": reason})
        else:
            body = {"idempotency_key": delivery, "reason": reason}
            await self._transport.ask("POST", "/deliveries/cancel", body=body)
