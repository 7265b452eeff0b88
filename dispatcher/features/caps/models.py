"""Models of the requests and answers about caps."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct, field, structs

from dispatcher.features.caps.rules import CHANNELS_MAX, MESSAGES_MAX, TOPICS_MAX
from dispatcher.features.suppressions.models import Topic
from dispatcher.http.models import BEGUN, Asked, ShortText

_MESSAGES = "The most that one recipient gets."
_CHANNELS = "The channels whose messages count, together."
_TOPICS = "Only messages that carry one of these topics; none: all messages."
_PERIOD = "How long a message counts, such as 7d, 24h or PT36H: 1m to 366d."


class NewCap(Asked, frozen=True):
    """A cap: so many messages to one recipient in any period of this length."""

    # Its bounds are looked at beside the period's, so that both are named at once.
    messages: Annotated[int, Meta(description=_MESSAGES, extra_json_schema={"minimum": 1, "maximum": MESSAGES_MAX})]
    period: Annotated[str, Meta(min_length=1, max_length=100, description=_PERIOD)]
    channels: Annotated[list[ShortText], Meta(min_length=1, max_length=CHANNELS_MAX, description=_CHANNELS)]
    topics: Annotated[list[Topic], Meta(max_length=TOPICS_MAX, description=_TOPICS)] = field(default_factory=list)


class Cap(Struct, frozen=True, kw_only=True):
    """A cap, and who saved it when."""

    name: str
    messages: int
    period: str
    channels: list[str]
    topics: list[str]
    updated_at: datetime
    updated_by: str


class SavedCap(Cap, frozen=True, kw_only=True):
    """A cap as it stands now."""

    answer: Literal["created", "changed", "same"]


class Caps(Struct, frozen=True):
    """All caps of the workspace, by name."""

    caps: list[Cap]


class DeletedCap(Struct, frozen=True):
    """The cap that was deleted."""

    name: str


CAP = Cap(
    name="weekly",
    messages=3,
    period="7d",
    channels=["email", "sms"],
    topics=[],
    updated_at=BEGUN,
    updated_by="key ann",
)
CAPS = Caps([CAP])
SAVED = SavedCap(**structs.asdict(CAP), answer="created")
DELETED = DeletedCap("weekly")
