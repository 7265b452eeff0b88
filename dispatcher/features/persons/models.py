"""Models of persons: what requests ask about somebody, wherever they stand, and what answers say."""

from datetime import UTC, datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field, json

from dispatcher.features.persons.rules import ADDRESSES_MAX as NAMED_MAX
from dispatcher.http.models import Asked, Cursor, Limit, Reason, Text

# With those that their contacts have, which a client may name as well.
ADDRESSES_MAX = 20 * NAMED_MAX

AddressText = Annotated[str, Meta(min_length=1, max_length=1_000, description="An address of theirs.")]
KindName = Annotated[
    Literal["email", "phone", "other"] | None, Meta(description="Of the address; seen from it without this.")
]


class PersonQuery(Asked, frozen=True, kw_only=True):
    """About whom."""

    address: AddressText
    kind: KindName = None
    cursor: Cursor | None = None
    limit: Limit = 50


class NamedAddress(Asked, frozen=True):
    """An address, and which kind it is where that cannot be seen from it."""

    address: AddressText
    kind: KindName = None


Addresses = Annotated[list[NamedAddress], Meta(max_length=ADDRESSES_MAX)]


class Whom(Asked, frozen=True, kw_only=True):
    """Somebody: by addresses, by the key of a contact, or by both. The contact behind an address is them, too."""

    addresses: Addresses = field(default_factory=list)
    contact: Text | None = None


class WholePerson(Whom, frozen=True, kw_only=True):
    """Everything about whom."""

    cursor: Cursor | None = None
    limit: Limit = 50


class PersonAddress(Struct, frozen=True):
    """An address in the form in which it is compared."""

    kind: Literal["email", "phone", "other"]
    address: str


class Person(Struct, frozen=True):
    """Somebody, as far as addresses tell: those that were named, and those of contacts that they lead to."""

    addresses: list[PersonAddress]


class Timeline(Struct, frozen=True):
    """A page, the newest first: deliveries, and what was said about the address. It may be short, and go on."""

    # As they were written: reading them would round their numbers.
    entries: list[Raw]
    next_cursor: str | None


class Export(Struct, frozen=True):
    """A page: each record says what it is. It may be empty, and go on all the same."""

    records: list[Raw]
    next_cursor: str | None


class NewErasure(Whom, frozen=True, kw_only=True):
    """Whom to erase, with all their addresses; `address` and `kind` are for a single one."""

    reason: Reason
    address: AddressText | None = None
    kind: KindName = None


class ErasureQuery(Asked, frozen=True):
    """Which part of the list."""

    cursor: Cursor | None = None
    limit: Limit = 50


class Erasure(Struct, frozen=True, kw_only=True):
    """An erasure: what was erased so far, and how many deliveries it waits for. `subjects` are hashes of addresses."""

    id: int
    asked_at: datetime
    looked_at: datetime | None
    finished_at: datetime | None
    deliveries: int
    runs: int
    waits_for: int
    actor: str
    reason: str
    subjects: list[str]


class Erasures(Struct, frozen=True):
    """A page, the newest first."""

    erasures: list[Erasure]
    next_cursor: str | None


_BEGUN = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_ENDED = datetime(2030, 1, 31, 8, 0, 1, tzinfo=UTC)
_ENTRY = {
    "kind": "delivery",
    "id": 17,
    "at": _BEGUN,
    "channel": "email",
    "subject": "Order {{ id }}",
    "life": "sent",
    "run_id": 23,
    "node": "mail",
    "reason": "node mail of run 23 of the workflow order_shipped, triggered by key shop",
}
PERSON = Person([PersonAddress("email", "ann@example.org")])
TIMELINE = Timeline([Raw(json.encode(_ENTRY))], next_cursor=None)
EXPORT = Export([Raw(b'{"record":"contact","key":"customer-17"}')], next_cursor="ZXhwb3J0IDEgMQ")
ERASURE = Erasure(
    id=3,
    asked_at=_BEGUN,
    looked_at=_ENDED,
    finished_at=_ENDED,
    deliveries=12,
    runs=2,
    waits_for=0,
    actor="key shop",
    reason="she asked for it",
    subjects=["sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"],
)
ERASURES = Erasures([ERASURE], next_cursor=None)
