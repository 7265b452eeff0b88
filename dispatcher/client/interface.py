"""The interface: what an application can ask for, the same over HTTP and inside a transaction of its own."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, overload

from dispatcher.base.errors import Fault
from dispatcher.client.answers import Delivery, Deployed, Enrolled, Message, Run, Sent, Triggered
from dispatcher.client.encoding import checked, json_of, refused
from dispatcher.client.events import EVENTS_MAX, Decision, Event, Fallbacks, encoded_events, run_fallbacks
from dispatcher.client.messages import encoded
from dispatcher.client.waiting import OnProgress, wait

WAIT_SECONDS = 60.0
POLL_SECONDS = 2.0
TRANSACTION_SECONDS_MAX = 30.0


class AnyClient(ABC):
    """The methods of both clients. They raise ClientErrors: Refused with every fault, NotFound, Conflict, and so on."""

    # Whether `wait` goes on after a failure that may pass.
    _patient: ClassVar[bool]

    async def trigger(
        self,
        workflow: str,
        data: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        traceparent: str | None = None,
    ) -> Triggered:
        """Start a run of a workflow; raises Refused with everything that is missing.

        The key starts one run: a repeated trigger with it answers the first run, as a duplicate. With a `traceparent`
        (W3C) its calls belong to that trace.
        """
        return await self._trigger(workflow, json_of({} if data is None else data), key, checked(traceparent))

    async def deploy_campaign(
        self, campaign: str, *, scheduled_for: datetime | None = None, key: str | None = None
    ) -> Deployed:
        """Deploy a campaign, at once or at a time; raises Refused where its audience or template is not there.

        The key makes one run: a repeated deployment with it answers the first run, as a duplicate.
        """
        if scheduled_for is not None and scheduled_for.tzinfo is None:
            raise refused([Fault("$.scheduled_for", "needs its zone")])
        return await self._deploy(campaign, scheduled_for, key)

    @overload
    async def send(self, messages: Message, *, traceparent: str | None = None) -> Sent: ...
    @overload
    async def send(self, messages: Sequence[Message], *, traceparent: str | None = None) -> list[Sent]: ...
    async def send(self, messages: Message | Sequence[Message], *, traceparent: str | None = None) -> Sent | list[Sent]:
        """Send one message, or many: all of them, or none and Refused with the faults of all.

        With a `traceparent` (W3C) their calls belong to that trace.
        """
        trace = checked(traceparent)
        if isinstance(messages, Message):
            (line,) = encoded([messages])
            return await self._send(line, trace)
        return await self._send_all(encoded(messages), trace)

    @overload
    async def notify(
        self, events: Event, *, fallbacks: Fallbacks | None = None, traceparent: str | None = None
    ) -> list[Decision]: ...
    @overload
    async def notify(self, events: Sequence[Event], *, traceparent: str | None = None) -> list[list[Decision]]: ...
    async def notify(
        self, events: Event | Sequence[Event], *, fallbacks: Fallbacks | None = None, traceparent: str | None = None
    ) -> list[Decision] | list[list[Decision]]:
        """Tell an event, or many: all of them, or none and Refused with the faults of all.

        `fallbacks` are functions by (channel, audience). Where the answer says that the caller falls back, its function
        runs, at most once per event, and what became of it is noted: one that raises has failed, and the others run.
        If the caller dies between the commit and the function, the repeat says `duplicate`, and it never runs. Inside
        a transaction fallbacks are a Conflict: call `run_fallbacks` when it is committed. With a `traceparent` (W3C)
        the calls of its messages belong to that trace.
        """
        trace = checked(traceparent)
        if not isinstance(events, Event):
            if not 1 <= len(events) <= EVENTS_MAX:
                raise refused([Fault("$.events", f"expected 1 to {EVENTS_MAX} of them, got {len(events)}")])
            return await self._notify(encoded_events(events), len(events), trace)
        if fallbacks:
            self._check_fallbacks()
        (decisions,) = await self._notify(encoded_events([events]), 1, trace)
        return await self.run_fallbacks(decisions, fallbacks) if fallbacks else decisions

    async def run_fallbacks(self, decisions: Sequence[Decision], fallbacks: Fallbacks) -> list[Decision]:
        """Run the functions of those decisions that fall back to the caller; return the decisions with the outcomes."""
        self._check_fallbacks()
        return await run_fallbacks(decisions, fallbacks, self._note_fallback)

    @abstractmethod
    async def enrol(self, sequence: str, contact: int | str) -> Enrolled:
        """Enrol a contact, by its id (a number) or its key (a text), in an active sequence.

        A contact is in a sequence once at a time: the enrolment that it has is answered as a duplicate.
        """

    @abstractmethod
    async def contact_event(self, event: str, contact: int | str) -> int:
        """Tell of an event of a contact; return how many of its enrolments have ended because they stop on it."""

    @abstractmethod
    async def status(self, run: int) -> Run:
        """Return the run."""

    async def wait(
        self,
        run: int,
        *,
        on_progress: OnProgress | None = None,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - its error names the run
        poll: float = POLL_SECONDS,
    ) -> Run:
        """Return the run when it has ended, successfully or not; raises WaitTimedOut after `timeout` seconds.

        `on_progress` is called with each new state, the first and the last included. What it raises ends the waiting,
        and the run goes on. Over HTTP the waiting goes on while the server is away; inside a transaction it is a
        Conflict, since a run that was triggered there does not start before the commit.
        """
        self._check_wait()
        return await wait(run, self.status, on_progress, seconds=timeout, poll=poll, patient=self._patient)

    async def signal(self, run: int, event: str, data: Mapping[str, Any] | None = None) -> None:
        """Send an event to a run, stored for the node that waits for it. Conflict if the run has ended."""
        await self._signal(run, event, json_of({} if data is None else data))

    @abstractmethod
    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run: it sends nothing more. Conflict if it has ended."""

    @abstractmethod
    async def delivery(self, delivery: int | str) -> Delivery:
        """Return a delivery by its id (a number) or its key (a text)."""

    @abstractmethod
    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Cancel a delivery by its id or its key. Conflict if it is too late."""

    def _check_wait(self) -> None:  # noqa: B027 - only inside a transaction there is something to check
        """Raise Conflict where a run cannot end while it is waited for."""

    def _check_fallbacks(self) -> None:  # noqa: B027 - only inside a transaction there is something to check
        """Raise Conflict where what falls back may still be rolled back."""

    @abstractmethod
    async def _notify(self, events: bytes, count: int, traceparent: str | None) -> list[list[Decision]]: ...

    @abstractmethod
    async def _note_fallback(self, decision: Decision, outcome: str, error: str | None) -> None: ...

    @abstractmethod
    async def _trigger(self, workflow: str, data: bytes, key: str | None, traceparent: str | None) -> Triggered: ...

    @abstractmethod
    async def _deploy(self, campaign: str, scheduled_for: datetime | None, key: str | None) -> Deployed: ...

    @abstractmethod
    async def _send(self, message: bytes, traceparent: str | None) -> Sent: ...

    @abstractmethod
    async def _send_all(self, messages: Sequence[bytes], traceparent: str | None) -> list[Sent]: ...

    @abstractmethod
    async def _signal(self, run: int, event: str, data: bytes) -> None: ...
