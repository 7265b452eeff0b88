"""Models of contacts: what requests say and what answers say about the people of a workspace."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.api.models import Asked, Json, Limit, Text
from dispatcher.domain.contacts import ADDRESSES_MAX, TAGS_MAX, ContactKind

IMPORT_MAX = 1_000
LongCursor = Annotated[str, Meta(max_length=400, description="next_cursor of the answer before.")]


class Place(Asked, frozen=True):
    """An address. Without a kind it is seen whether it is an e-mail address or a phone number."""

    address: Annotated[str, Meta(min_length=1, max_length=1_000)]
    kind: ContactKind | None = None


class ContactFields(Asked, frozen=True, kw_only=True):
    """What is said of a person. The first address of a kind is the one that is written to."""

    name: str | None = None
    company: str | None = None
    status: Annotated[str | None, Meta(description="A word of the application's own; active without one.")] = None
    time_zone: Annotated[str | None, Meta(examples=["Europe/Berlin"])] = None
    locale: Annotated[str | None, Meta(examples=["pt-BR"])] = None
    tags: Annotated[list[str], Meta(max_length=TAGS_MAX)] | None = None
    attributes: Annotated[Json | None, Meta(description="Whatever else the application knows; 16 KiB.")] = None
    addresses: Annotated[list[Place], Meta(max_length=ADDRESSES_MAX)] | None = None


class NewContact(ContactFields, frozen=True, kw_only=True):
    """A contact with its key, which the application chooses."""

    key: Annotated[str, Meta(min_length=1, max_length=200)]


class NewContacts(Asked, frozen=True):
    """Many at once, each for itself: sound ones are written, whatever the others are."""

    contacts: Annotated[list[NewContact], Meta(min_length=1, max_length=IMPORT_MAX)]
    mode: Literal["upsert", "create", "put"] = "upsert"


class PatchQuery(Asked, frozen=True):
    """How a contact is changed."""

    create: Annotated[bool, Meta(description="Create it where there is none.")] = False


class ContactQuery(Asked, frozen=True):
    """Which contacts: all that is given has to hold."""

    company: Text | None = None
    status: Text | None = None
    tag: Text | None = None
    address: Annotated[str, Meta(min_length=1, max_length=1_000)] | None = None
    kind: Annotated[Literal["email", "phone", "other"] | None, Meta(description="Of the address.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class Contact(Struct, frozen=True, kw_only=True):
    """A contact as it is kept."""

    key: str
    name: str | None
    company: str | None
    status: str
    time_zone: str | None
    locale: str | None
    tags: list[str]
    attributes: Any
    addresses: Any
    version: int
    created_at: datetime
    updated_at: datetime
    updated_by: str


class Contacts(Struct, frozen=True):
    """A page, in the order of keys."""

    contacts: list[Contact]
    next_cursor: str | None


class SavedContact(Struct, frozen=True):
    """What became of it: created, changed or same."""

    key: str
    answer: str
    version: int


class DeletedContact(Struct, frozen=True):
    """It is gone."""

    key: str
    answer: str


class Refused(Struct, frozen=True):
    """One that was not written, by its place in the request, and why."""

    number: int
    key: str | None
    faults: list[Any]


class Imported(Struct, frozen=True):
    """What became of them, and each that was refused."""

    created: int
    changed: int
    same: int
    refused: list[Refused]
