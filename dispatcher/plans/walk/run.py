"""The values of a walk: the run and its state, the facts that it is given, and its outcome."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

RunStatus = Literal["pending", "running", "waiting", "paused", "completed", "failed", "cancelled"]
RUN_STATUSES: tuple[RunStatus, ...] = ("pending", "running", "waiting", "paused", "completed", "failed", "cancelled")
Standing = Literal["joining", "sending", "delaying", "waiting", "digesting"]
EventName = Literal["started", "succeeded", "failed", "skipped"]


class Visit(Struct, frozen=True, omit_defaults=True):
    """A node that the run is at. Times are seconds since 1970 by the database's clock."""

    standing: Standing
    since: float
    until: float | None = None


class Then(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an enrolment goes on when the one step that is under way is sent: the day of its next step, or its end."""

    node: str
    # When the step was ordered: it holds unless a pause of the sequence has ended after that.
    since: float
    cursor: Mapping[str, Visit] = {}
    until: float | None = None
    anchor: float | None = None


class State(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where a run stands: the cursor is the set of nodes that it is at, `vars` what its nodes have added."""

    vars: Mapping[str, Any] = {}
    cursor: Mapping[str, Visit] = {}
    # Log entries so far: the next one's number.
    entries: int = 0
    # Seconds of work before `working_since`, which is set while deliveries are under way.
    worked_seconds: float = 0.0
    working_since: float | None = None
    # Pauses of an enrolment, and of its sequence, that ended until then are counted in its anchor; its own since.
    paced: float = 0.0
    rests: tuple["Pause", ...] = ()
    then: Then | None = None


class Contact(Struct, frozen=True, kw_only=True):
    """The contact of an enrolment: what templates read of it, its addresses by kind, and its time zone."""

    id: int
    fields: Mapping[str, Any]
    addresses: Mapping[str, str]
    zone: str | None = None
    locale: str | None = None


class Pause(Struct, frozen=True):
    """A pause of an enrolment, or of its sequence, that is over."""

    since: float
    ended: float


class Run(Struct, frozen=True, kw_only=True):
    """A run that is to be walked. Its context is `input` with `state.vars` over it."""

    id: int
    created_at: float
    status: RunStatus
    input: Mapping[str, Any]
    state: State
    # An enrolment's: whom it is of, and what its days are counted from.
    contact_id: int | None = None
    anchor: float | None = None


class DeliveryResult(Struct, frozen=True, kw_only=True):
    """One delivery of a node: `status` is that of the outbox, `queued` until it has ended."""

    recipient: str
    status: str
    held: bool = False
    held_seconds: float = 0.0
    message_id: str | None = None
    finished_at: float | None = None
    error: str | None = None
    # What a function answered.
    data: Mapping[str, Any] | None = None


class Signal(Struct, frozen=True):
    """An event that came for the run, not yet taken by a node."""

    id: int
    name: str
    data: Mapping[str, Any]


class DigestLeader(Struct, frozen=True):
    """The run was the first of its digest's key: it collects until then."""

    until: float


class DigestMember(Struct, frozen=True):
    """Another run collects this key already, and has what this one brought."""

    run: int


class DigestItems(Struct, frozen=True):
    """The window is over: what was collected, oldest first, the leader's own included."""

    items: Sequence[Mapping[str, Any]]


DigestState = DigestLeader | DigestMember | DigestItems


class Facts(Struct, frozen=True, kw_only=True):
    """The input of a walk: the time, deliveries of the nodes that are sending, events, digests."""

    now: float
    results: Mapping[str, Sequence[DeliveryResult]] = field(default_factory=dict)
    signals: Sequence[Signal] = ()
    digests: Mapping[str, DigestState] = field(default_factory=dict)
    # Why a node's order cannot be written, by node: its template is not there to be frozen.
    refused: Mapping[str, str] = field(default_factory=dict)
    # An enrolment's: its contact, None where that is gone; pauses of its sequence, oldest first; and the steps that an
    # earlier version has sent already.
    contact: Contact | None = None
    pauses: Sequence[Pause] = ()


class Order(Struct, frozen=True, kw_only=True):
    """Deliveries that a node wants written, one for each recipient, in the transaction that moves the cursor.

    `variables` is what the parts read; with a stored template everything there is, to be cut down to what the version
    that it is frozen to reads.
    """

    node: str
    channel: str
    recipients: Sequence[str]
    template: str | None
    parts: Mapping[str, str] | None
    variables: Mapping[str, Any]
    options: Mapping[str, Any]
    attempts: int
    locale: str | None = None
    topic: str | None = None
    lane: int | None = None
    expires_seconds: float | None = None
    # Nothing is sent: the delivery is written with this end.
    ended: str | None = None


class DigestRequest(Struct, frozen=True, kw_only=True):
    """A digest that the run has come to; the database decides whether the run leads or joins."""

    node: str
    key: str
    window_seconds: float
    items_max: int
    item: Mapping[str, Any]


class Entry(Struct, frozen=True, kw_only=True):
    """A line of the run's log. `context` is what the node saw, `added` what it added to it."""

    node: str
    step: int
    event: EventName
    context: Mapping[str, Any] | None = None
    added: Mapping[str, Any] | None = None
    error: str | None = None


class Advance(Struct, frozen=True, kw_only=True):
    """The outcome of a walk. `available_at` is when to walk the run again without a wake; None: never."""

    state: State
    status: RunStatus
    available_at: float | None = None
    error: str | None = None
    error_node: str | None = None
    orders: Sequence[Order] = ()
    digest_requests: Sequence[DigestRequest] = ()
    entries: Sequence[Entry] = ()
    # Signals that a node has taken.
    taken: Sequence[int] = ()
    # The run ended early: its deliveries that are not marked are not to be sent.
    cancels: bool = False
    # An enrolment's: what its days are counted from now.
    anchor: float | None = None


def failed(run: Run, words: str) -> Advance:
    """The outcome for a run that cannot be walked at all."""
    return Advance(state=run.state, status="failed", error=words, cancels=True)


encode_state = msgspec.json.Encoder().encode
decode_state = msgspec.json.Decoder(State).decode
