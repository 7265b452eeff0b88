"""The client: what an application imports to send messages, to trigger workflows, and to read their status.

    async with Client("https://dispatcher.example.org", key) as client:
        run = await client.trigger("welcome", {"email": "ann@example.org"}, key="user-17")

    async with connection.transaction():                    # or inside the application's own transaction
        await Client.on(connection).trigger("welcome", {"email": "ann@example.org"}, key="user-17")

Both satisfy `AnyClient`: the same methods, the same answers, the same errors.
"""

from typing import TYPE_CHECKING

from dispatcher.base.errors import Fault
from dispatcher.client.answers import Delivery, Deployed, Enrolled, Lane, Message, Run, Sent, Triggered
from dispatcher.client.client import Client
from dispatcher.client.errors import (
    Changed,
    ClientError,
    Closed,
    Conflict,
    Forbidden,
    KeyReused,
    NotFound,
    OtherCell,
    Overloaded,
    Refused,
    TimedOut,
    TooMany,
    Unauthenticated,
    Unavailable,
    Unexpected,
    WaitTimedOut,
)
from dispatcher.client.events import Decision, Event, Fallbacks
from dispatcher.client.interface import AnyClient
from dispatcher.client.waiting import OnProgress

if TYPE_CHECKING:
    from dispatcher.client.in_transaction import TransactionClient

__all__ = [
    "AnyClient",
    "Changed",
    "Client",
    "ClientError",
    "Closed",
    "Conflict",
    "Decision",
    "Delivery",
    "Deployed",
    "Enrolled",
    "Event",
    "Fallbacks",
    "Fault",
    "Forbidden",
    "KeyReused",
    "Lane",
    "Message",
    "NotFound",
    "OnProgress",
    "OtherCell",
    "Overloaded",
    "Refused",
    "Run",
    "Sent",
    "TimedOut",
    "TooMany",
    "TransactionClient",
    "Triggered",
    "Unauthenticated",
    "Unavailable",
    "Unexpected",
    "WaitTimedOut",
]


def __getattr__(name: str) -> object:
    """Import the client inside a transaction when it is asked for: it needs asyncpg, which HTTP does without."""
    if name != "TransactionClient":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dispatcher.client.in_transaction import TransactionClient  # noqa: PLC0415 - as above

    return TransactionClient
