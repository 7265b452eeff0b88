"""Models of the requests and answers about suppressions and topics."""

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.base.values.addresses import Kind
from dispatcher.engine.rules.suppression import TOPIC_WORDS, Source
from dispatcher.http.models import BEGUN, Asked, Limit, LongCursor, Moment, Reason, Text, page_model

ADDRESSES_MAX = 5_000
AddressText = Annotated[str, Meta(min_length=1, max_length=4_096, description="An e-mail address, a phone number …")]
OfKind = Annotated[Kind | None, Meta(description="Derived from the address without it.")]
Addresses = Annotated[list[AddressText], Meta(min_length=1, max_length=ADDRESSES_MAX)]
TOPIC_FORM = {"form": TOPIC_WORDS}
Topic = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)", extra=TOPIC_FORM, description="Of messages.")]


class SuppressionQuery(Asked, frozen=True):
    """Which suppressed addresses."""

    source: Source | None = None
    kind: Kind | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class StandingSuppression(Struct, frozen=True, kw_only=True):
    """An entry about an address."""

    channel: Annotated[str, Meta(description="Of the entry; empty: all channels.")]
    source: str
    added_at: datetime
    expires_at: datetime | None
    actor: str
    reason: str


class Suppression(StandingSuppression, frozen=True, kw_only=True):
    """A suppressed address."""

    kind: str
    address: str


Suppressions = page_model("Suppressions", "suppressions", Suppression, "A page, in the order of addresses.")


class NewSuppression(Asked, frozen=True, omit_defaults=True):
    """An address to suppress."""

    address: AddressText
    kind: OfKind = None
    channel: Annotated[Text | None, Meta(description="On one channel; on all without it.")] = None
    expires_at: Annotated[Moment | None, Meta(description="Until when; forever without it.")] = None
    source: Annotated[Source | None, Meta(description="Instead of the common source.")] = None
    reason: Annotated[Reason | None, Meta(description="Instead of the common reason.")] = None


class AddSuppressions(Asked, frozen=True):
    """Addresses to suppress, all or none."""

    suppressions: Annotated[list[NewSuppression], Meta(min_length=1, max_length=ADDRESSES_MAX)]
    reason: Reason
    source: Annotated[Source, Meta(description="Common source.")] = "operator"
    check: Annotated[bool, Meta(description="Only check them, and write nothing.")] = False


class Suppressed(Struct, frozen=True):
    """An address in its stored form."""

    address: str
    kind: str
    suppressed: bool


class AddedSuppressions(Struct, frozen=True):
    """Each address once."""

    suppressions: list[Suppressed]


class RemoveSuppressions(Asked, frozen=True):
    """Addresses to remove from the list; with a source or channel only those entries."""

    addresses: Addresses
    reason: Reason
    kind: OfKind = None
    source: Source | None = None
    channel: Annotated[str, Meta(max_length=255, description="Empty: entries about all channels.")] | None = None


class Removed(Struct, frozen=True):
    """The sources of the removed entries of an address; none if it was not on the list."""

    address: str
    kind: str
    removed: list[str]


class RemovedSuppressions(Struct, frozen=True):
    """Each address once."""

    suppressions: list[Removed]


class CheckAddress(Asked, frozen=True):
    """A message that would be sent to an address."""

    address: AddressText
    kind: OfKind = None
    channel: Annotated[Text | None, Meta(description="Of the message.")] = None
    topic: Annotated[Topic | None, Meta(description="Of the message.")] = None
    lane: Literal["transactional", "normal", "bulk"] = "normal"


class Preference(Struct, frozen=True, kw_only=True):
    """Whether an address wants a topic."""

    topic: str
    subscribed: bool
    changed_at: datetime
    actor: str


class AddressAction(Struct, frozen=True, kw_only=True):
    """An entry of the log of an address."""

    at: datetime
    actor: str
    action: str
    channel: str
    source: str | None
    topic: str | None
    expires_at: datetime | None
    reason: str


class CheckedAddress(Struct, frozen=True, kw_only=True):
    """Whether the message would be sent now, and the entries and log of the address."""

    address: str
    kind: str
    barred: bool
    reason: Annotated[str | None, Meta(description="Why it would not be sent.")]
    entries: list[StandingSuppression]
    topics: list[Preference]
    log: Annotated[list[AddressAction], Meta(description="The newest first.")]


class TopicQuery(Asked, frozen=True):
    """Which topic preferences."""

    topic: Topic | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class AddressPreference(Preference, frozen=True, kw_only=True):
    """Whether an address wants a topic, and why."""

    kind: str
    address: str
    reason: str


_PREFERENCES_WORDS = "A page, in the order of addresses. An address that is not in the list gets every topic."
Preferences = page_model("Preferences", "preferences", AddressPreference, _PREFERENCES_WORDS)


class SetTopicPreference(Asked, frozen=True):
    """Addresses that subscribe to a topic or unsubscribe from it."""

    topic: Topic
    addresses: Addresses
    reason: Reason
    kind: OfKind = None


class TopicPreference(Struct, frozen=True):
    """Whether an address now gets a topic."""

    address: str
    kind: str
    topic: str
    subscribed: bool


class TopicPreferences(Struct, frozen=True):
    """Each address once."""

    preferences: list[TopicPreference]


_BOB = ("bob@example.org", "email")
_NAMED: dict[str, Any] = {"address": _BOB[0], "kind": _BOB[1]}
_WHO: dict[str, Any] = {"actor": "key ann", "reason": "asked by mail"}
_ENTRY: dict[str, Any] = {"channel": "", "source": "complaint", "added_at": BEGUN, "expires_at": None, **_WHO}
_TOPIC: dict[str, Any] = {"topic": "news", "subscribed": False, "changed_at": BEGUN, "actor": "key ann"}
SUPPRESSIONS = Suppressions([Suppression(**_ENTRY, **_NAMED)], next_cursor=None)
ADDED_SUPPRESSIONS = AddedSuppressions([Suppressed(*_BOB, suppressed=True)])
REMOVED_SUPPRESSIONS = RemovedSuppressions([Removed(*_BOB, removed=["complaint"])])
CHECKED_ADDRESS = CheckedAddress(
    **_NAMED,
    barred=True,
    reason="suppressed: complaint: asked by mail",
    entries=[StandingSuppression(**_ENTRY)],
    topics=[Preference(**_TOPIC)],
    log=[
        AddressAction(at=BEGUN, action="suppress", channel="", source="complaint", topic=None, expires_at=None, **_WHO)
    ],
)
PREFERENCES = Preferences([AddressPreference(**_TOPIC, **_NAMED, reason="asked by mail")], next_cursor=None)
TOPIC_PREFERENCES = TopicPreferences([TopicPreference(*_BOB, topic="news", subscribed=False)])
