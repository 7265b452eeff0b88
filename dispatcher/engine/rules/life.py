"""A delivery's life: its lanes, its statuses, the form in which a claim hands it over, and every way it can end."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Literal

from msgspec import Struct

Status = Literal["queued", "sent", "called", "posted", "failed", "skipped"]
STATUSES: tuple[Status, ...] = ("queued", "sent", "called", "posted", "failed", "skipped")
ResendBy = Literal["key", "at_least_once"]

_SUCCESS: dict[str, Status] = {"voice": "called", "social": "posted"}


def success_status(channel: str) -> Status:
    """The status of an accepted delivery of this channel."""
    return _SUCCESS.get(channel, "sent")


class Lane(IntEnum):
    """The smaller goes first; each has room of its own, so that none can shut another out."""

    TRANSACTIONAL = 0
    NORMAL = 1
    BULK = 2

    # That of an enumeration hashes the name in Python, for each delivery that is counted by its lane.
    __hash__ = int.__hash__


# By their names in JSON and TOML.
LANES = {lane.name.lower(): lane for lane in Lane}
# What the schema allows: all attempts of a delivery, the first one included.
ATTEMPTS_MAX = 100
# The longest e-mail address with a name; the SQL interface has the same.
RECIPIENT_CHARACTERS_MAX = 2_000


class Resend(Struct, frozen=True):
    """Whether an unknown attempt may be sent again: why, and for how long its provider knows the key. The
    `keyed_recipients` know every key that they were given, whatever their provider does. `provider_keys`: of a channel
    with several providers, those that know keys, and for how long (None: for ever)."""

    by: ResendBy | None = None
    key_seconds: float | None = None
    keyed_recipients: frozenset[str] = frozenset()
    provider_keys: Mapping[str, float | None] | None = None


class PoisonStep(Struct, frozen=True):
    """A bound on one claim of deliveries whose owners have died from `deaths_min` to `deaths_max` times."""

    deaths_min: int
    deaths_max: int
    count_max: int


# The first two deaths say little: a worker that dies takes along all that it had. Then a delivery is claimed with few
# others, and from the third death on alone, so that what it does to its worker it does to no other delivery.
POISON_STEPS = (PoisonStep(2, 2, 32), PoisonStep(3, 1 << 14, 1))


# The prefix of a stored version's key in one locale: `v:17:de`. A template in its delivery begins with a brace.
STORED = "v:"


class Claimed(Struct, frozen=True, gc=False):
    """One delivery as its claim handed it over. `used` counts the attempts before this one; `watched`: some address is
    suppressed, so that this one's must be looked up; `dated`: when it was due or written, the later of both, in seconds
    since 1970; `template`: Liquid by part as JSON, or the key of a stored version. `bound_to`: the provider of an
    unknown attempt, and the only one that it may go to; `passed_by`: the provider that has just passed it on."""

    id: int
    tenant_id: str
    workspace_id: str
    idempotency_key: str
    recipient: str
    template: str
    variables: str
    options: str
    used: int
    max_attempts: int
    template_name: str | None
    topic: str | None
    # The run of a workflow that waits for it.
    run_id: int | None
    # The campaign run that counts it.
    campaign_run_id: int | None
    # The sequence whose step it is.
    sequence_id: int | None
    watched: bool
    expired: bool
    dated: int
    bound_to: str | None
    passed_by: str | None
    # In seconds since 1970; 0: never.
    expires_at: float
    # The W3C traceparent that its call carries.
    traceparent: str | None
    lane: Lane
    token: int
    channel: str


class Succeeded(Struct, frozen=True, gc=False):
    """The provider has it; `data` is a function's answer."""

    provider_message_id: str
    data: Mapping[str, Any] | None = None


class Failed(Struct, frozen=True, gc=False):
    """It will never be sent: the reason names the field, or says `exhausted`. `conclusive`: this is known of every
    attempt, since the provider refused their common key; else it is held where an earlier attempt is unknown.
    `suppresses`: nothing else will ever reach its address either."""

    reason: str
    conclusive: bool = False
    suppresses: bool = False


class Skipped(Struct, frozen=True, gc=False):
    """It need not be sent any more; held where an earlier attempt is unknown, unless that is `conclusive`."""

    reason: str
    conclusive: bool = False


class Again(Struct, frozen=True, gc=False):
    """The attempt is used up, and another follows; after an unknown attempt only where `resend` allows it. One that is
    `passed` on to the channel's next provider does not count."""

    delay_seconds: float
    reason: str
    resend: Resend | None = None
    passed: bool = False


class Back(Struct, frozen=True, gc=False):
    """Nothing was called: it goes back as if it had not been claimed, and is due after the delay; `passed` on to the
    channel's next provider, where its own had no time for it."""

    delay_seconds: float
    why: str
    throttled: bool = False
    passed: bool = False


class Parked(Struct, frozen=True, gc=False):
    """It waits for a pause to end."""

    pause_id: int


class Held(Struct, frozen=True, gc=False):
    """A call was begun, and its outcome is unknown."""

    reason: str


class Lost(Struct, frozen=True, gc=False):
    """It was taken from us before the mark (cancelled, moved, recovered): nothing is written."""


Outcome = Succeeded | Failed | Skipped | Again | Back | Parked | Held | Lost
Result = tuple[Claimed, Outcome]
