"""The door that receipts come in by: what a request is, and what can be said of one."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from dispatcher.features.receipts.providers.receipt import Receipt

# How far the clock of who signs may be from ours.
SKEW_SECONDS = 300.0
# Longer than any of what is signed can be replayed in: its time may be ahead of ours by as much as it may be behind.
KEPT_SECONDS = 2 * SKEW_SECONDS + 60.0


class Request(Struct, frozen=True):
    """What somebody posted, as it came: names of headers in lower case, the query and the body as they are."""

    headers: Mapping[str, str]
    query: str
    body: bytes
    # Seconds since 1970, by our clock.
    now: float


class Heard(Struct, frozen=True):
    """What was said, by somebody who may: under which name, for how long that name must be remembered, and receipts.

    `confirm` is a link by which an operator confirms that we want to hear more.
    """

    event: str
    receipts: tuple[Receipt, ...] = ()
    kept_seconds: float = KEPT_SECONDS
    confirm: str = ""


class Forged(Struct, frozen=True):
    """Nobody who may say anything has signed it, or not now. Who asks is told nothing more; `why` is for our log."""

    why: str


class Garbled(Struct, frozen=True):
    """It was signed, and cannot be understood."""

    why: str


Answer = Heard | Forged | Garbled
Door = Callable[[Request], Answer]
Doors = Mapping[str, Door]
