"""Webhooks of our own: which events there are, what an endpoint may be, and the message that tells it an event."""

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

# The channel whose deliveries tell events.
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
]
EVENTS: tuple[EventType, ...] = get_args(EventType)
WILDCARDS = ("delivery.*", "run.*")

ENDPOINTS_MAX = 50
EVENTS_MAX = 50
URL_CHARACTERS_MAX = 2_000
# An old secret that signs for longer is not rotated, but shared.
OVERLAP_SECONDS_MAX = 90 * 86_400
# As long as an HMAC with SHA-256 is.
SECRET_BYTES = 32
# With the waits that are the default, about a day.
ATTEMPTS_MAX = 30
# The message is as it was made: nothing in it is taken for a template.
TEMPLATE = '{"body": "{{ event }}"}'

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
_PRINTABLE = re.compile(r"[!-~]+")
# As the schema has it.
is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}").fullmatch


def secret(random: Callable[[int], bytes]) -> str:
    """A new secret, as Standard Webhooks write them; `random` makes so many bytes that nobody can guess."""
    return "whsec_" + b64encode(random(SECRET_BYTES)).decode()


def url_fault(url: str, *, plain: bool) -> str | None:
    """What is wrong with the URL of an endpoint; `plain` lets it begin with http://, for addresses that are ours."""
    try:
        parts = urlsplit(url)
        sound = bool(_HOST.fullmatch(parts.hostname or "")) and parts.port != 0 and not parts.fragment
    except ValueError:
        return "is no URL"
    if parts.scheme != "https" and not (plain and parts.scheme == "http"):
        return "must begin with https://" + (" or http://" if plain else "")
    if "@" in parts.netloc:
        return "carries a login: what is signed needs none"
    if not sound or not _PRINTABLE.fullmatch(url) or len(url) > URL_CHARACTERS_MAX:
        return f"must have a host, and up to {URL_CHARACTERS_MAX} printable characters without spaces and fragment"
    return None


def events_faults(events: Collection[str]) -> Iterator[Fault]:
    """What is wrong with the list of events that an endpoint wants to know."""
    if not 1 <= len(events) <= EVENTS_MAX:
        yield Fault("$.events", f"expected 1 to {EVENTS_MAX} events")
        return
    for place, event in enumerate(events):
        if event not in EVENTS and event not in WILDCARDS:
            yield Fault(f"$.events[{place}]", f"no event is called {quoted(event)}" + did_you_mean(event, _KNOWN))


_KNOWN = (*EVENTS, *WILDCARDS)


class Target(Struct, frozen=True):
    """Where messages to an endpoint go, and what signs them, the newest first."""

    url: str
    enabled: bool
    secrets: tuple[str, ...]


class Event(Struct, frozen=True):
    """Something that has happened, for one endpoint. `facts` is JSON: how things stood at that time."""

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
    """What a provider said of a delivery."""

    kind: str
    at: datetime
    provider: str
    reason: str


class DeliveryFacts(Struct, frozen=True, kw_only=True):
    """How a delivery stood."""

    status: str
    attempt: int
    provider_message_id: str | None = None
    error: str | None = None
    finished_at: datetime | None = None
    receipt: Receipt | None = None


class RunFacts(Struct, frozen=True, kw_only=True):
    """How a run stood."""

    status: str
    error: str | None
    error_node: str | None
    retries: int
    started_at: datetime | None
    finished_at: datetime | None


class Message(Struct, frozen=True):
    """A delivery that tells an endpoint what has happened."""

    event: Event
    key: str
    body: str


_delivery_facts = msgspec.json.Decoder(DeliveryFacts).decode
_run_facts = msgspec.json.Decoder(RunFacts).decode
_encode = msgspec.json.Encoder().encode


def is_run_event(event: str) -> bool:
    """Whether an event is about a run, and not about a delivery."""
    return event.startswith("run.")


def message(event: Event, about: dict[str, Any]) -> Message:
    """The message that tells it. `about` is what never changes of its subject."""
    read: Callable[[str], Struct] = _run_facts if is_run_event(event.type) else _delivery_facts
    facts = msgspec.structs.asdict(read(event.facts))
    if facts.get("receipt", 0) is None:
        del facts["receipt"]
    body = {"type": event.type, "timestamp": event.at, "data": about | facts}
    made_of = event.endpoint_id, event.type, event.subject, event.id
    return Message(event, key(CHANNEL, *made_of), _encode(body).decode())
