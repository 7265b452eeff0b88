"""Models of persons: what requests ask about somebody, wherever they stand, and what answers say."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.api.models import Asked, Cursor, Limit, Reason, Text

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


class Timeline(Struct, frozen=True):
    """A page, the newest first: deliveries, and what was said about the address. It may be short, and go on."""

    entries: list[Any]
    next_cursor: str | None


class Export(Struct, frozen=True):
    """A page: each record says what it is. It may be empty, and go on all the same."""

    records: list[Any]
    next_cursor: str | None


class NewErasure(Asked, frozen=True, kw_only=True):
    """Whom to erase: the one behind an address, or a contact with all its addresses."""

    reason: Reason
    address: AddressText | None = None
    kind: KindName = None
    contact: Text | None = None


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
