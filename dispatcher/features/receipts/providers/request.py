"""Requests of providers, and the results of reading one."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from dispatcher.features.receipts.providers.receipt import Receipt, Reply

# Difference allowed between the clock of the signer and ours.
SKEW_SECONDS = 300.0
# A signed request can be replayed for twice the skew: its time may be ahead of ours or behind.
KEPT_SECONDS = 2 * SKEW_SECONDS + 60.0


class Request(Struct, frozen=True):
    """A POST request: header names in lower case, the query and the body unchanged."""

    headers: Mapping[str, str]
    query: str
    body: bytes
    # Seconds since 1970, by our clock.
    now: float


class Accepted(Struct, frozen=True):
    """Receipts or a reply, with a good signature. `event` is remembered for `kept_seconds`, to recognize repetitions.

    `confirm` is a link by which an operator confirms a subscription.
    """

    event: str
    receipts: tuple[Receipt, ...] = ()
    kept_seconds: float = KEPT_SECONDS
    confirm: str = ""
    reply: Reply | None = None


class Forged(Struct, frozen=True):
    """A request without a good, recent signature. `why` is for the log, not for the answer."""

    why: str


class Garbled(Struct, frozen=True):
    """A signed request that cannot be read."""

    why: str


Answer = Accepted | Forged | Garbled
Provider = Callable[[Request], Answer]
Providers = Mapping[str, Provider]
