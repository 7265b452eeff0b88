"""Models of the requests and answers about persons and erasures."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field, json

from dispatcher.features.persons.rules import ADDRESSES_MAX as NAMED_MAX
from dispatcher.http.models import BEGUN, ENDED, Asked, Cursor, Limit, Reason, Text, page_model

# Including those of their contacts, which a client may name as well.
ADDRESSES_MAX = 20 * NAMED_MAX

AddressText = Annotated[str, Meta(min_length=1, max_length=1_000, description="An address of the person.")]
KindName = Annotated[
    Literal["email", "phone", "other"] | None, Meta(description="Of the address; derived from it without this.")
]


class PersonQuery(Asked, frozen=True, kw_only=True):
    """The person to look up, by an address."""

    address: AddressText
    kind: KindName = None
    cursor: Cursor | None = None
    limit: Limit = 50


class NamedAddress(Asked, frozen=True):
    """An address, with its kind where that cannot be derived from it."""

    address: AddressText
    kind: KindName = None


Addresses = Annotated[list[NamedAddress], Meta(max_length=ADDRESSES_MAX)]


class PersonSelector(Asked, frozen=True, kw_only=True):
    """A person: by addresses, by the key of a contact, or by both. The contact with an address belongs to them."""

    addresses: Addresses = field(default_factory=list)
    contact: Text | None = None


class PersonExport(PersonSelector, frozen=True, kw_only=True):
    """The person to export."""

    cursor: Cursor | None = None
    limit: Limit = 50


class PersonAddress(Struct, frozen=True):
    """An address in the form in which addresses are compared."""

    kind: Literal["email", "phone", "other"]
    address: str


class Person(Struct, frozen=True):
    """The addresses of a person: those that were named, and those of their contacts."""

    addresses: list[PersonAddress]


# Records stay as they were written: reading them would round their numbers.
_TIMELINE_WORDS = "A page of deliveries and list entries, newest first. It may be short and have a next page."
Timeline = page_model("Timeline", "entries", Raw, _TIMELINE_WORDS)
_EXPORT_WORDS = "A page of records, each with its kind. It may be empty and have a next page."
Export = page_model("Export", "records", Raw, _EXPORT_WORDS)


class NewErasure(PersonSelector, frozen=True, kw_only=True):
    """The person to erase, with all their addresses; `address` and `kind` are for a single one."""

    reason: Reason
    address: AddressText | None = None
    kind: KindName = None


class Erasure(Struct, frozen=True, kw_only=True):
    """An erasure: what it has erased, and how many deliveries it waits for. `subjects` are hashes of addresses."""

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


Erasures = page_model("Erasures", "erasures", Erasure, "A page, the newest first.")
_ENTRY = {
    "kind": "delivery",
    "id": 17,
    "at": BEGUN,
    "channel": "email",
    "subject": "Order 17",
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
    asked_at=BEGUN,
    looked_at=ENDED,
    finished_at=ENDED,
    deliveries=12,
    runs=2,
    waits_for=0,
    actor="key shop",
    reason="she asked for it",
    subjects=["sha256:9c56cc51b374c3ba189210d5b6d4bf57790d351c96c47c02190ecf1e430635ab"],
)
ERASURES = Erasures([ERASURE], next_cursor=None)
