"""Outgoing webhooks: types of events, checks of endpoints, and the message that reports an event to an endpoint."""

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault, did_you_mean, quoted
from dispatcher.base.values.idempotency import key

# The channel of the deliveries that report events.
CHANNEL = "webhook"

EventType = Literal[
    "delivery.sent",
    "delivery.failed",
    "delivery.skipped",
    "delivery.held",
    "delivery.delivered",
    "delivery.bounced",
    "delivery.complained",
    "delivery.opened",
    "delivery.clicked",
    "run.completed",
    "run.failed",
    "run.cancelled",
    "campaign_job.completed",
    "campaign_job.partial",
    "campaign_job.failed",
    "campaign_job.dead",
    "campaign_run.completed",
    "campaign_run.partial",
    "campaign_run.failed",
]
EVENTS: tuple[EventType, ...] = get_args(EventType)
Wildcard = Literal["delivery.*", "run.*", "campaign_job.*", "campaign_run.*"]
WILDCARDS: tuple[Wildcard, ...] = get_args(Wildcard)
# The first words of the types: what an event is about.
SubjectKind = Literal["delivery", "run", "campaign_job", "campaign_run"]

ENDPOINTS_MAX = 50
EVENTS_MAX = 50
URL_CHARACTERS_MAX = 2_000
# A rotation ends: an old secret does not sign for longer.
OVERLAP_SECONDS_MAX = 90 * 86_400
# The length of an HMAC with SHA-256.
SECRET_BYTES = 32
# About a day with the default waits.
ATTEMPTS_MAX = 30
# The message is a variable: nothing in it is read as a template.
TEMPLATE = '{"body": "{{ event }}"}'

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PRINTABLE = re.compile(r"[!-~]+")
# The same as in the schema.
is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch


def secret(random: Callable[[int], bytes]) -> str:
    """Return a new secret in the form of Standard Webhooks; `random` returns that many random bytes."""
    return "whsec_" + b64encode(random(SECRET_BYTES)).decode()


def url_fault(url: str, *, http: bool) -> str | None:
    """Return what is wrong with the URL of an endpoint; `http` allows http://, for private addresses."""
    try:
        parts = urlsplit(url)
        sound = bool(_HOST.fullmatch(parts.hostname or "")) and parts.port != 0 and not parts.fragment
    except ValueError:
        return "is not a URL"
    if parts.scheme != "https" and not (http and parts.scheme == "http"):
        return "must begin with https://" + (" or http://" if http else "")
    if "@" in parts.netloc:
        return "must not have a login: messages are signed"
    if not sound or not _PRINTABLE.fullmatch(url) or len(url) > URL_CHARACTERS_MAX:
        return f"must have a host, and up to {URL_CHARACTERS_MAX} printable characters without spaces and fragment"
    return None


def events_faults(events: Collection[str]) -> Iterator[Fault]:
    """Yield what is wrong with the list of events of an endpoint."""
    if not 1 <= len(events) <= EVENTS_MAX:
        yield Fault("$.events", f"expected 1 to {EVENTS_MAX} events")
        return
    for place, event in enumerate(events):
        if event not in EVENTS and event not in WILDCARDS:
            yield Fault(f"$.events[{place}]", f"no event is called {quoted(event)}" + did_you_mean(event, _KNOWN))


_KNOWN = (*EVENTS, *WILDCARDS)


class Target(Struct, frozen=True):
    """The URL of an endpoint, and the secrets that sign its messages, the newest first."""

    url: str
    enabled: bool
    secrets: tuple[str, ...]


class Event(Struct, frozen=True):
    """An event for one endpoint. `facts` is JSON: the state of its subject at that time."""

    id: int
    type: EventType
    subject: int
    at: datetime
    facts: str
    tenant_id: str
    workspace_id: str
    endpoint_id: int
    endpoint: str


class Receipt(Struct, frozen=True, kw_only=True):
    """A provider's receipt for a delivery."""

    kind: str
    at: datetime
    provider: str
    reason: str


class DeliveryFacts(Struct, frozen=True, kw_only=True):
    """The state of a delivery at the time of an event."""

    status: str
    attempt: int
    provider_message_id: str | None = None
    error: str | None = None
    finished_at: datetime | None = None
    receipt: Receipt | None = None


class RunFacts(Struct, frozen=True, kw_only=True):
    """The state of a run at the time of an event."""

    status: str
    error: str | None
    error_node: str | None
    retries: int
    started_at: datetime | None
    finished_at: datetime | None


class CampaignFacts(Struct, frozen=True, kw_only=True):
    """The counters of a job or a run of a campaign at its end."""

    status: str
    intended: int
    sent: int
    failed: int
    skipped: int
    cancelled: int
    expired: int
    held: int
    finished_at: datetime | None


class Message(Struct, frozen=True):
    """The delivery that reports an event to its endpoint."""

    event: Event
    key: str
    body: str


_facts: dict[str, Callable[[str], Struct]] = {
    "delivery": msgspec.json.Decoder(DeliveryFacts).decode,
    "run": msgspec.json.Decoder(RunFacts).decode,
    "campaign_job": msgspec.json.Decoder(CampaignFacts).decode,
    "campaign_run": msgspec.json.Decoder(CampaignFacts).decode,
}
_encode = msgspec.json.Encoder().encode


def subject_kind(event: EventType) -> SubjectKind:
    """Return what a type of events is about."""
    return event.partition(".")[0]  # type: ignore[return-value]  # every type begins with one


def message(event: Event, about: dict[str, Any]) -> Message:
    """Return the message that reports an event. `about` has the constant facts of its subject."""
    facts = msgspec.structs.asdict(_facts[subject_kind(event.type)](event.facts))
    if facts.get("receipt", 0) is None:
        del facts["receipt"]
    body = {"type": event.type, "timestamp": event.at, "data": about | facts}
    unique = key(CHANNEL, event.endpoint_id, event.type, event.subject, event.id)
    return Message(event, unique, _encode(body).decode())
