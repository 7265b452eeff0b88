"""The contract of a channel: the sealed envelope that it gets, the verdicts that it gives, and what it must do.

A channel MUST
 1. take nothing but envelopes: they exist only for deliveries that were claimed and marked;
 2. call `envelope.licence.expired()` directly before the first byte of a call leaves, and report `NotCalled` if so;
 3. report exactly one verdict for each envelope, as soon as it is known; what is unreported when `deliver` returns,
    raises or is cancelled counts as `Unknown`, so a channel that knows better reports before it goes;
 4. judge by phase, not by exception class: before the first byte was handed to the transport nothing was sent
    (`NotCalled` or `RetryAfter`); a refusal is a refusal; no answer after the request was written is `Unknown`;
 5. never retry a call by itself and never let a client library do it; but where the answer was lost it may ask with the
    same bytes under the same key, of a provider that de-duplicates by it, while the licence holds;
 6. send the same bytes for the same delivery and attempt number: nothing random, no clock, but for the time of the call
    where the protocol has that signed, or counts from it how long the message may wait. (`traceparent` goes into a
    header of its own, and only to servers of the operator's);
 7. pass `idempotency_key` to a provider that honours one, and say with `idempotency_key_seconds` for how long it does
    (or with `keyed_recipients` which recipients do, each for itself);
    `Refused` then speaks for every earlier call with that key too: from the second attempt on, a refusal that does not
    (for a key that came with another message) is `RetryAfter`, and one for wrong credentials has `provider_fault`;
 8. let cancellation through at once;
 9. hold no lock and no database transaction across a call;
10. never write a recipient, a rendered part or a secret to a log or into a reason.

A channel SHOULD report in the order in which answers arrive, keep connections, and bound each of its buffers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Never, Protocol, final

from msgspec import Struct


@final
class Licence:
    """The proof that a batch was marked, with the end of its validity. Only the mark can mint one."""

    __slots__ = ("_clock", "deadline")

    deadline: float
    _clock: Callable[[], float]

    def __init__(self, proof: Never) -> None:  # noqa: ARG002 - it is there for the type checker: none exists
        raise TypeError("a licence is minted by the mark and by nothing else")

    def expired(self) -> bool:
        """True when it is too late to begin a call."""
        return self._clock() >= self.deadline


@final
class Envelope(Struct, frozen=True, gc=False):
    """One message, ready to go: rendered, marked and licensed."""

    licence: Licence
    delivery_id: int
    tenant_id: str
    workspace_id: str
    idempotency_key: str
    channel: str
    recipient: str
    parts: Mapping[str, str]
    options: Mapping[str, Any]
    attempt: int
    # When it was due or written, whichever is later, in seconds since 1970: the same on every attempt.
    dated: int = 0
    # When it expires, in seconds since 1970; 0: never.
    expires_at: float = 0.0
    # The W3C traceparent for a call to a server of the operator's own. Each attempt may have another one.
    traceparent: str | None = None


class Accepted(Struct, frozen=True, gc=False):
    """The provider has it and will not lose it."""

    provider_message_id: str
    data: Mapping[str, Any] | None = None


class Refused(Struct, frozen=True, gc=False):
    """The provider will never take this message: no further attempt.

    `suppresses` says that it is the address that is at fault for good, so that nothing more is sent to it. `by_key`
    says that it speaks for every earlier call with the key, though the channel as a whole promises nothing of its keys.
    `provider_fault` says that the provider refuses us (credentials, account) and not the message: another provider of
    the channel may take it. It says nothing of earlier calls.
    """

    reason: str
    suppresses: bool = False
    by_key: bool = False
    provider_fault: bool = False


class RetryAfter(Struct, frozen=True, gc=False):
    """Not taken now. `delay_seconds` is the provider's wish; without one the policy's wait applies.

    `provider_fault` says that the provider was not reached, or refuses us, so that another one of the channel may take
    the message at once.
    """

    reason: str
    delay_seconds: float | None = None
    provider_fault: bool = False


class Throttled(Struct, frozen=True, gc=False):
    """Too fast: the bucket closes for `seconds`, and no attempt is used up.

    It is the provider's bucket, or only that of one recipients' domain, where one is named.
    """

    seconds: float
    domain: str | None = None


class Unknown(Struct, frozen=True, gc=False):
    """The call was begun and its outcome cannot be known; `phase` says how far it came.

    `hold` says that the same call again would never tell, whatever the provider does with keys.
    """

    phase: str
    hold: bool = False


class NotCalled(Struct, frozen=True, gc=False):
    """Nothing left this process: the delivery goes back, no attempt is used up."""

    why: str


EXPIRED = NotCalled("the licence ran out")
CUT_OFF = NotCalled("cut off before the call")


class Unready(OSError):  # noqa: N818 - an adjective: the state of the channel
    """No call can begin. Its text says why, and where it is a person's fault what to change; it names no secret."""


Verdict = Accepted | Refused | RetryAfter | Throttled | Unknown | NotCalled
Report = Callable[[Envelope, Verdict], None]


def unexpired(batch: Sequence[Envelope], report: Report) -> list[Envelope]:
    """The envelopes that may still be sent; the others are reported."""
    live: list[Envelope] = []
    for envelope in batch:
        if envelope.licence.expired():
            report(envelope, EXPIRED)
        else:
            live.append(envelope)
    return live


class Channel(Protocol):
    """The interface that the sender calls."""

    @property
    def idempotency_key_seconds(self) -> float:
        """For how long the provider contractually de-duplicates by the envelope's key: 0 not at all, inf for ever."""

    @property
    def keyed_recipients(self) -> frozenset[str]:
        """Recipients that de-duplicate by the envelope's key for ever, whatever the provider does. It never changes."""

    async def prepare(self, count: int) -> None:
        """Return when `count` calls can begin without waiting for a connection. Called before the mark.

        An OSError, best an `Unready` with its reason, says that they cannot: then nothing is marked.
        """

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Hand each envelope over and report each verdict."""

    async def close(self) -> None:
        """Let connections go. Called once, after the last `deliver` has ended."""


class BaseChannel(Channel):
    """A channel that promises nothing of its keys, connects when it must, and has nothing to close."""

    idempotency_key_seconds = 0.0
    keyed_recipients: frozenset[str] = frozenset()

    async def prepare(self, count: int) -> None:
        """Nothing has to be connected before the mark."""

    async def close(self) -> None:
        """There is nothing to close."""
