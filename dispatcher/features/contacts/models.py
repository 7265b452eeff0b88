"""Models of the requests and answers about contacts."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from dispatcher.base.errors import Fault
from dispatcher.base.values.locales import LOCALE
from dispatcher.features.contacts.rules import ADDRESSES_MAX, KEY_FORM, TAGS_MAX, TEXT_MAX, WORD_MAX, ContactKind
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.models import BEGUN, ENDED, SEEN, Asked, Json, Limit, Text, page_model

IMPORT_MAX = 1_000
LongCursor = Annotated[str, Meta(max_length=400, description="next_cursor of the answer before.")]
Name = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX, pattern=SEEN)]
Locale = Annotated[
    str, Meta(max_length=WORD_MAX, pattern=rf"^\s*{LOCALE}\s*$", description="A language and perhaps a region.")
]
Word = Annotated[str, Meta(min_length=1, max_length=WORD_MAX, pattern=SEEN)]
AddressText = Annotated[str, Meta(min_length=1, max_length=1_000)]
OfKind = Annotated[Literal["email", "phone", "other"] | None, Meta(description="Of the address.")]


class ContactAddress(Asked, frozen=True):
    """An address. Without a kind it is an e-mail address or a phone number by its form."""

    address: Annotated[str, Meta(min_length=1, max_length=1_000, pattern=SEEN)]
    kind: ContactKind | None = None


class ContactFields(Asked, frozen=True, kw_only=True):
    """The fields of a contact. Messages go to the first address of a kind."""

    name: Name | None = None
    company: Name | None = None
    status: Annotated[Word | None, Meta(description="A word of the application; active without it.")] = None
    time_zone: Annotated[Word | None, Meta(examples=["Europe/Berlin"])] = None
    locale: Annotated[Locale | None, Meta(examples=["pt-BR"])] = None
    tags: Annotated[list[Word], Meta(max_length=TAGS_MAX)] | None = None
    attributes: Annotated[Json | None, Meta(description="Other data of the application; up to 16 KiB.")] = None
    addresses: Annotated[list[ContactAddress], Meta(max_length=ADDRESSES_MAX)] | None = None


class NewContact(ContactFields, frozen=True, kw_only=True):
    """A contact with its key, which the application chooses."""

    key: Annotated[str, Meta(pattern=rf"^{KEY_FORM}$(?!\n)")]


# An item that is not a contact is refused by itself.
AnyContact = Annotated[
    Any,
    Meta(
        extra_json_schema={
            "anyOf": [
                {"$ref": "#/components/schemas/NewContact"},
                {"description": "Any other item is refused by itself, and the others are written."},
            ]
        }
    ),
]


class NewContacts(Asked, frozen=True):
    """Contacts that are written each by itself: sound ones are, also where others have faults."""

    contacts: Annotated[list[AnyContact], Meta(min_length=1, max_length=IMPORT_MAX)]
    mode: Literal["upsert", "create", "put", "update"] = "upsert"
    each: Annotated[bool, Meta(description="Answer the result of each sound contact, too.")] = False


class PatchQuery(Asked, frozen=True):
    """Options of changing a contact."""

    create: Annotated[bool, Meta(description="Create it if it does not exist.")] = False


class ContactFilter(Asked, frozen=True, kw_only=True):
    """Which contacts: every filter that is given has to match."""

    company: Text | None = None
    status: Text | None = None
    tag: Text | None = None
    after: Annotated[Text | None, Meta(description="Only keys after this one.")] = None


class ContactQuery(ContactFilter, frozen=True, kw_only=True):
    """Which contacts of a list: every filter that is given has to match."""

    address: AddressText | None = None
    kind: OfKind = None
    name: Annotated[Text | None, Meta(description="Words of the name, or their beginnings.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class ContactSearch(ContactFilter, frozen=True, kw_only=True):
    """The address to search for; every filter that is given has to match, too."""

    address: AddressText
    kind: OfKind = None


# An id (a whole number) or a key.
ContactName = Annotated[int, Meta(ge=1, le=ID_MAX)] | Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]


class Audience(Asked, frozen=True, kw_only=True):
    """A choice of contacts: those that match every filter and those that are named, without those that are excluded."""

    all: Annotated[bool | None, Meta(description="True: everybody in the workspace, without a filter.")] = None
    company: Text | None = None
    status: Text | None = None
    tags: Annotated[list[Word], Meta(min_length=1, description="With all of these.")] | None = None
    attributes: Annotated[Json | None, Meta(description="With all of these values.")] = None
    contacts: Annotated[list[ContactName] | None, Meta(description="These, too, by id or key; up to 100,000.")] = None
    exclude: Annotated[list[ContactName] | None, Meta(description="Never these, by id or key; up to 100,000.")] = None


class AudienceQuestion(Asked, frozen=True):
    """An audience to look at."""

    audience: Audience


class AudienceMember(Struct, frozen=True):
    """A contact of an audience in short."""

    id: int
    key: str
    name: str | None
    company: str | None
    status: str


class MatchedCondition(Struct, frozen=True):
    """How many contacts one condition matches by itself."""

    condition: str
    count: int
    at_least: Annotated[bool, Meta(description="There are more: they were not counted.")]


class AudienceSeen(Struct, frozen=True):
    """The size of an audience, each of its conditions by itself, and some of its contacts."""

    count: int
    at_least: Annotated[bool, Meta(description="There are more: they were not counted.")]
    conditions: list[MatchedCondition]
    sample: list[AudienceMember]


class Contact(Struct, frozen=True, kw_only=True):
    """A stored contact."""

    id: int
    key: str
    name: str | None
    company: str | None
    status: str
    time_zone: str | None
    locale: str | None
    tags: list[str]
    # As they were written: reading them would round their numbers.
    attributes: Raw
    addresses: Raw
    version: int
    created_at: datetime
    updated_at: datetime
    updated_by: str


Contacts = page_model("Contacts", "contacts", Contact, "A page, in the order of keys.")


class SavedContact(Struct, frozen=True):
    """The result of writing a contact: created, changed or same."""

    key: str
    answer: str
    version: int


class DeletedContact(Struct, frozen=True):
    """The result of deleting a contact."""

    key: str
    answer: str


class RefusedContact(Struct, frozen=True):
    """A contact that was refused, by its place in the request, with its faults."""

    number: int
    key: str | None
    faults: list[Fault]


class Imported(Struct, frozen=True):
    """Counts of an import, the refused contacts, and with `each` the others."""

    created: int
    changed: int
    same: int
    refused: list[RefusedContact]
    contacts: list[SavedContact]


CONTACT = Contact(
    id=17,
    key="customer-17",
    name="Ann Lee",
    company="Lee & Sons",
    status="customer",
    time_zone="Europe/Berlin",
    locale="de",
    tags=["newsletter"],
    attributes=Raw(b'{"plan":"gold"}'),
    addresses=Raw(b'[{"kind":"email","address":"Ann@example.org"}]'),
    version=2,
    created_at=BEGUN,
    updated_at=ENDED,
    updated_by="key shop",
)
CONTACTS = Contacts([CONTACT], next_cursor=None)
SAVED_CONTACT = SavedContact("customer-17", "changed", 2)
DELETED_CONTACT = DeletedContact("customer-17", "deleted")
_FAULT = Fault("$.contacts[1].time_zone", "there is no such time zone")
IMPORTED = Imported(1, 0, 0, [RefusedContact(1, "customer-18", [_FAULT])], [SavedContact("customer-17", "created", 1)])
AUDIENCE_SEEN = AudienceSeen(
    10_000,
    True,
    [MatchedCondition("tags: newsletter", 10_000, True)],
    [AudienceMember(17, "customer-17", "Ann Lee", None, "customer")],
)
