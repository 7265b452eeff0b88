"""Models of captured messages: requests and answers."""

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Raw, Struct

from dispatcher.http.models import ENDED, Asked, Cursor, Limit, Text, page_model


class CapturedQuery(Asked, frozen=True):
    """A filter and a page of captured messages."""

    channel: Text | None = None
    recipient: Text | None = None
    cursor: Cursor | None = None
    limit: Limit = 50


class CapturedLine(Struct, frozen=True, kw_only=True):
    """A captured message in a list."""

    id: int
    delivery_id: int
    captured_at: datetime
    channel: str
    recipient: str
    title: Annotated[str, Meta(description="Its subject, title or first words.")]
    text: Annotated[str, Meta(description="The first words of its body.")]
    fault: Annotated[str | None, Meta(description="Why a provider of this channel would refuse it.")]


CapturedMessages = page_model(
    "CapturedMessages", "captured", CapturedLine, "A page of captured messages, newest first."
)


class CapturedMessage(Struct, frozen=True, kw_only=True):
    """A captured message."""

    id: int
    delivery_id: int
    attempt: int
    captured_at: datetime
    channel: str
    recipient: str
    idempotency_key: str
    parts: Raw
    options: Raw
    has_mail: Annotated[bool, Meta(description="Whether there is a mail as a server would get it.")]
    fault: str | None


_LINE = CapturedLine(
    id=3,
    delivery_id=17,
    captured_at=ENDED,
    channel="email",
    recipient="ann@example.org",
    title="Your order 17 is confirmed",
    text="Thank you, Ann.",
    fault=None,
)
CAPTURED_MESSAGES = CapturedMessages([_LINE], next_cursor=None)
CAPTURED_MESSAGE = CapturedMessage(
    id=3,
    delivery_id=17,
    attempt=1,
    captured_at=ENDED,
    channel="email",
    recipient="ann@example.org",
    idempotency_key="order-17:confirmed",
    parts=Raw(b'{"subject":"Your order 17 is confirmed","text":"Thank you, Ann."}'),
    options=Raw(b"{}"),
    has_mail=True,
    fault=None,
)
