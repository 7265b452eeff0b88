"""Models of persons: what requests ask about somebody, wherever they stand, and what answers say."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from dispatcher.api.models import Asked, Cursor, Limit, Reason, Text
from dispatcher.domain.persons import ADDRESSES_MAX as NAMED_MAX

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

    entries: list[Any]
    next_cursor: str | None


class Export(Struct, frozen=True):
    """A page: each record says what it is. It may be empty, and go on all the same."""

    records: list[Any]
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
