"""Receipts: later reports of a provider about a message, matched with the delivery that each is about."""

import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Literal, get_args

from msgspec import Struct

from dispatcher.base.values.addresses import Address, address

# In the order of their rank: what a delivery has come to is the highest one, so that none takes another back.
# `sent` says that the provider has it. A soft bounce may still become anything, a message that failed at one carrier
# may arrive by another, and what has bounced for good, or was complained about, stays so whatever opens it afterwards.
Kind = Literal["sent", "bounced_soft", "failed", "delivered", "opened", "clicked", "bounced_hard", "complained"]
KINDS: tuple[Kind, ...] = get_args(Kind)
RANKS: Mapping[Kind, int] = {kind: rank for rank, kind in enumerate(KINDS, 1)}

Source = Literal["bounce", "complaint"]
_SUPPRESSES: Mapping[Kind, Source] = {"bounced_hard": "bounce", "complained": "complaint"}

# A provider's words and ids are foreign input.
REASON_CHARACTERS_MAX = 500
NAME_CHARACTERS_MAX = 255
ID_MAX = 2**63 - 1

_MAIL_ADDRESS = re.compile(r"<?[^\s<>@;,:]+@[^\s<>@;,:]+>?")
_NUMBER = re.compile(r"[1-9][0-9]{0,18}")
# What an erasure leaves of a recipient, and of a key.
_ERASED = "erased"
_HASH = re.compile(r"(sha256:)?[0-9a-f]{64}")


class Receipt(Struct, frozen=True, omit_defaults=True):
    """A report about one delivery, named by its id, its key, or its names at the provider and its recipient.

    `names` are the provider's ids and the mail's Message-ID.
    """

    kind: Kind
    at: datetime | None = None
    delivery_id: int | None = None
    key: tuple[str, str, str] | None = None
    names: tuple[str, ...] = ()
    recipient: str = ""
    reason: str = ""

    @property
    def suppresses(self) -> Source | None:
        """The source of the suppression that follows, if any."""
        return _SUPPRESSES.get(self.kind)


class Reply(Struct, frozen=True):
    """What a person has written back: nothing more by this channel, or `starts` again. It is about one tenant, or where
    that is empty about all that have written to them."""

    contact: Address
    channel: str
    starts: bool
    tenant_id: str = ""


class Candidate(Struct, frozen=True):
    """A delivery that a receipt may be about."""

    id: int
    tenant_id: str
    workspace_id: str
    idempotency_key: str
    channel: str
    recipient: str
    dated: int
    provider_message_id: str | None

    @property
    def contact(self) -> Address:
        """The address that it was sent to."""
        return address(self.channel, self.recipient)

    @property
    def is_erased(self) -> bool:
        """Whether its recipient was erased."""
        return self.recipient == _ERASED and _HASH.fullmatch(self.idempotency_key) is not None


# Returns what the Message-ID of a delivery's mail begins with.
Identity = Callable[[Candidate], str]


def match(receipt: Receipt, candidates: Collection[Candidate], identity: Identity) -> Candidate | None:
    """Return the delivery that a receipt is about.

    An account may serve several databases, in each of which the same id means another delivery: the recipient or a
    name must match as well.
    """
    for one in candidates:
        known = map(hashed, receipt.names) if one.is_erased else receipt.names
        if one.provider_message_id and one.provider_message_id in known:
            return one
        if any(name.partition("@")[0] == identity(one) for name in receipt.names if "@" in name):
            return one
    if receipt.delivery_id is None and receipt.key is None:
        return None
    for one in candidates:
        if not receipt.recipient or one.contact == address(one.channel, receipt.recipient):
            return one
    return None


def hashed(name: str) -> str:
    """Return the form of a provider's name that an erasure leaves."""
    return name if _HASH.fullmatch(name) else f"sha256:{sha256(name.encode()).hexdigest()}"


def wait_seconds(looks: int) -> float:
    """Return the wait before the next search for the delivery of a receipt."""
    return 5.0 * 2.0 ** min(looks, 20)


def bounced(bounce: object, field: str) -> Kind:
    """Return the kind of a bounce: hard only where it is said to be, so that no other bounce suppresses an address."""
    return "bounced_hard" if isinstance(bounce, dict) and bounce.get(field) == "Permanent" else "bounced_soft"


def words(*parts: object) -> str:
    """Return a provider's words, cut, without mail addresses, and as Postgres can store them."""
    text = ": ".join(part for part in parts if isinstance(part, str) and part)
    return _MAIL_ADDRESS.sub("…", _storable(text, 2 * REASON_CHARACTERS_MAX))[:REASON_CHARACTERS_MAX]


def named(*names: object) -> tuple[str, ...]:
    """Return those of a message's names that can be used: a Message-ID without its brackets."""
    found = (_storable(name, NAME_CHARACTERS_MAX + 1).strip().strip("<>") for name in names if isinstance(name, str))
    return tuple(name for name in found if 0 < len(name) <= NAME_CHARACTERS_MAX)


def recipient(text: object) -> str:
    """Return a recipient; empty where it is not a text."""
    return _storable(text, NAME_CHARACTERS_MAX * 4) if isinstance(text, str) else ""


def number(text: object) -> int | None:
    """Return the id of a delivery; None where the text is not an id."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text) or int(text) > ID_MAX:
        return None
    return int(text)


def instant(text: object) -> datetime | None:
    """Return a time in RFC 3339, or None."""
    try:
        found = datetime.fromisoformat(text) if isinstance(text, str) else None
        return None if found is None or found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _storable(text: str, length: int) -> str:
    return text[:length].encode("utf-8", "replace").decode().replace("\0", "?")
