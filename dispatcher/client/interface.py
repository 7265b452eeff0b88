"""The door: what an application can ask for, the same over HTTP and inside a transaction of its own."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, overload

from dispatcher.client.answers import Delivery, Message, Run, Sent, Triggered

WAIT_SECONDS = 60.0
POLL_SECONDS = 2.0

OnProgress = Callable[[Run], Awaitable[object] | object]


class AnyClient(Protocol):
    """What raises, raises a ClientError: Refused with every fault, NotFound, Conflict, and so on."""

    async def trigger(
        self, workflow: str, data: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Triggered:
        """Start a run of a workflow. The key starts one run: who triggers with it again gets the first one."""
        ...

    @overload
    async def send(self, messages: Message) -> Sent: ...
    @overload
    async def send(self, messages: Sequence[Message]) -> list[Sent]: ...

    async def status(self, run: int) -> Run:
        """Where a run stands."""
        ...

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
        raises ends the waiting, and the run goes on.
        """
        ...

    async def signal(self, run: int, event: str, data: Mapping[str, Any] | None = None) -> None:
        """Send a run an event. It is kept for the node that waits for it. Conflict where the run is over."""
        ...

    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run: it sends nothing more. Conflict where it is over."""
        ...

    async def delivery(self, delivery: int | str) -> Delivery:
        """Where a delivery stands, by its id (a number) or its key (a text)."""
        ...

    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Not send a delivery, by its id or its key. Conflict where it is too late."""
        ...
