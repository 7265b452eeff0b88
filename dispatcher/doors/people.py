"""People: what is asked about the contacts of a workspace, whichever door it is asked through."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from dispatcher.domain.addresses import Address
from dispatcher.domain.contacts import Said
from dispatcher.doors.nouns import Refusal, Row, Whose
from dispatcher.store.contacts import Mode


class Kept(Struct, frozen=True):
    """What became of a contact that was written, and the version at which it is now."""

    answer: Literal["created", "changed", "same"]
    version: int


class Traits(Struct, frozen=True, kw_only=True):
    """Which contacts are meant: all that is given holds of them."""

    company: str | None = None
    status: str | None = None
    tag: str | None = None
    address: Address | None = None


class Contacts(Protocol):
    """The people of a workspace, by the keys that the application has chosen."""

    async def put(self, whose: Whose, contacts: Sequence[Said], mode: Mode, actor: str) -> list[Kept | Refusal]:
        """Write each for itself, in this order; a fault's path is $ for the contact. May be asked twice."""

    async def show(self, whose: Whose, key: str) -> Row | None:
        """One by its key."""

    async def listed(self, whose: Whose, which: Traits, after: str, count: int) -> list[Row]:
        """Those after a key, by key."""

    async def delete(self, whose: Whose, key: str) -> str:
        """Delete one: deleted or unknown. What was sent to it stays."""
