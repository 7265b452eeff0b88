"""Models of suppressions and topics: what requests say and what answers say about addresses."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from dispatcher.base.values.addresses import Kind
from dispatcher.engine.rules.suppression import Source
from dispatcher.http.models import Asked, Limit, LongCursor, Moment, Reason, Text, page_model

ADDRESSES_MAX = 5_000
AddressText = Annotated[str, Meta(min_length=1, max_length=4_096, description="An e-mail address, a phone number …")]
OfKind = Annotated[Kind | None, Meta(description="Seen from the address without it.")]
Addresses = Annotated[list[AddressText], Meta(min_length=1, max_length=ADDRESSES_MAX)]
Topic = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)", description="What messages are about.")]


class SuppressionQuery(Asked, frozen=True):
    """Which suppressed addresses."""

    source: Source | None = None
    kind: Kind | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class StandingSuppression(Struct, frozen=True, kw_only=True):
    """What stands about an address."""

    channel: Annotated[str, Meta(description="The one that it is about; empty: every channel.")]
    source: str
    added_at: datetime
    expires_at: datetime | None
    actor: str
    reason: str


class Suppression(StandingSuppression, frozen=True, kw_only=True):
    """An address that gets nothing more."""

    kind: str
    address: str


Suppressions = page_model("Suppressions", "suppressions", Suppression, "A page, in the order of addresses.")


class NewSuppression(Asked, frozen=True, omit_defaults=True):
    """An address that is to get nothing more."""

    address: AddressText
    kind: OfKind = None
    channel: Annotated[Text | None, Meta(description="On one channel; on every one without it.")] = None
    expires_at: Annotated[Moment | None, Meta(description="Until when; for good without it.")] = None
    source: Annotated[Source | None, Meta(description="In place of the source of all.")] = None
    reason: Annotated[Reason | None, Meta(description="In place of the reason of all.")] = None


class AddSuppressions(Asked, frozen=True):
    """Addresses that are to get nothing more: all of them are put on the list, or none."""

    suppressions: Annotated[list[NewSuppression], Meta(min_length=1, max_length=ADDRESSES_MAX)]
    reason: Reason
    source: Annotated[Source, Meta(description="Where that is known from.")] = "operator"
    check: Annotated[bool, Meta(description="Say what is wrong with them, and write nothing.")] = False


class Suppressed(Struct, frozen=True):
    """An address in the form in which it is kept."""

    address: str
    kind: str
    suppressed: bool


class AddedSuppressions(Struct, frozen=True):
    """Each address once."""

    suppressions: list[Suppressed]


class RemoveSuppressions(Asked, frozen=True):
    """Addresses that are taken off the list, or what one source said, or what is about one channel."""

    addresses: Addresses
    reason: Reason
    kind: OfKind = None
    source: Source | None = None
    channel: Annotated[str, Meta(max_length=255, description="Empty: what is about every channel.")] | None = None


class Removed(Struct, frozen=True):
    """The sources whose entries about an address went; none where it was not on the list."""

    address: str
    kind: str
    removed: list[str]


class RemovedSuppressions(Struct, frozen=True):
    """Each address once."""

    suppressions: list[Removed]


class CheckAddress(Asked, frozen=True):
    """What would be sent, and to whom."""

    address: AddressText
    kind: OfKind = None
    channel: Annotated[Text | None, Meta(description="By which channel.")] = None
    topic: Annotated[Topic | None, Meta(description="What it would be about.")] = None
    lane: Literal["transactional", "normal", "bulk"] = "normal"


class Preference(Struct, frozen=True, kw_only=True):
    """What an address said about a topic."""

    topic: str
    subscribed: bool
    changed_at: datetime
    actor: str


class AddressAction(Struct, frozen=True, kw_only=True):
    """One thing that was said about an address."""

    at: datetime
    actor: str
    action: str
    channel: str
    source: str | None
    topic: str | None
    expires_at: datetime | None
    reason: str


class CheckedAddress(Struct, frozen=True, kw_only=True):
    """Whether it would be sent now, and what was ever said about the address."""

    address: str
    kind: str
    barred: bool
    reason: Annotated[str | None, Meta(description="Why it would not be sent.")]
    entries: list[StandingSuppression]
    topics: list[Preference]
    log: Annotated[list[AddressAction], Meta(description="The newest first.")]


class TopicQuery(Asked, frozen=True):
    """What was said about which topic."""

    topic: Topic | None = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class AddressPreference(Preference, frozen=True, kw_only=True):
    """What an address said about a topic, and why."""

    kind: str
    address: str
    reason: str


Preferences = page_model(
    "Preferences",
    "preferences",
    AddressPreference,
    "A page, in the order of addresses. Who said nothing gets every topic.",
)


class SetTopicPreference(Asked, frozen=True):
    """Addresses that want a topic, or do not want it."""

    topic: Topic
    addresses: Addresses
    reason: Reason
    kind: OfKind = None


class TopicPreference(Struct, frozen=True):
    """What holds for an address now."""

    address: str
    kind: str
    topic: str
    subscribed: bool


class TopicPreferences(Struct, frozen=True):
    """Each address once."""

    preferences: list[TopicPreference]


_AT = datetime(2030, 1, 31, 8, 0, 0, tzinfo=UTC)
_BOB = ("bob@example.org", "email")
_NAMED: dict[str, Any] = {"address": _BOB[0], "kind": _BOB[1]}
_WHO: dict[str, Any] = {"actor": "key ann", "reason": "asked by mail"}
_ENTRY: dict[str, Any] = {"channel": "", "source": "complaint", "added_at": _AT, "expires_at": None, **_WHO}
_TOPIC: dict[str, Any] = {"topic": "news", "subscribed": False, "changed_at": _AT, "actor": "key ann"}
SUPPRESSIONS = Suppressions([Suppression(**_ENTRY, **_NAMED)], next_cursor=None)
ADDED_SUPPRESSIONS = AddedSuppressions([Suppressed(*_BOB, suppressed=True)])
REMOVED_SUPPRESSIONS = RemovedSuppressions([Removed(*_BOB, removed=["complaint"])])
CHECKED_ADDRESS = CheckedAddress(
    **_NAMED,
    barred=True,
    reason="suppressed: complaint: asked by mail",
    entries=[StandingSuppression(**_ENTRY)],
    topics=[Preference(**_TOPIC)],
    log=[AddressAction(at=_AT, action="suppress", channel="", source="complaint", topic=None, expires_at=None, **_WHO)],
)
PREFERENCES = Preferences([AddressPreference(**_TOPIC, **_NAMED, reason="asked by mail")], next_cursor=None)
TOPIC_PREFERENCES = TopicPreferences([TopicPreference(*_BOB, topic="news", subscribed=False)])
