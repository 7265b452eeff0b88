"""The webhooks channel: POSTs an event to its endpoint, signed, under an id that is the same on every attempt.

Receivers of Standard Webhooks de-duplicate by that id, without an end: so what is unknown is asked for again. The time
of each attempt is signed with it, since they refuse old ones; everything else is the same bytes on every attempt.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from importlib import resources

import asyncpg
import structlog
from aiohttp.abc import AbstractResolver
from msgspec import Struct

from channels.capture.channel import Connect
from channels.contract import Accepted, Envelope, Refused, Report, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web import Answer, Bounds, Call, Client, Lost
from channels.shared.web.answers import asked_wait, is_gateway_error, is_redirect, not_called, succeeded
from channels.shared.web.idempotency_keys import delivery_key
from channels.shared.web.posts import Posts, Unsendable
from channels.webhooks import signing
from channels.webhooks.options import WebhooksOptions

log = structlog.get_logger(__name__)

_GONE = resources.files("channels.webhooks").joinpath("disable.sql").read_text(encoding="utf-8")
_TROUBLE = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)

GONE = 410
# Nothing of an answer but its status is of any use.
ANSWER_BYTES_MAX = 16 * 1024
# Under the five seconds for which the most common servers keep an idle connection.
KEEP_SECONDS = 4.0
# Endpoints to which connections are kept.
CLIENTS_MAX = 256
# Messages for one endpoint that may be here at a time, and for how long the others are put off: who hangs would have
# all of the channel's slots otherwise.
WAITING_MAX = 64
PUT_OFF_SECONDS = 5.0
_UNKNOWN = "options.webhook: names no endpoint; the dispatcher writes deliveries of this channel by itself"


class Endpoint(Struct, frozen=True):
    """Where a message goes, as its options say it."""

    id: int
    url: str
    secrets: Sequence[str]
    allow_addresses: str


class _Manner:
    """How endpoints are spoken to. `gone` are those that want nothing any more."""

    def __init__(self, options: WebhooksOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self.gone: set[tuple[int, str]] = set()

    def bounds(self, endpoint: Endpoint) -> Bounds:  # noqa: ARG002 - all are alike
        """What calls of an endpoint may use up."""
        return Bounds(self._options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS)

    def call(self, envelope: Envelope, endpoint: Endpoint) -> Call:
        """The part `body` as it is, signed."""
        body = envelope.parts.get("body", "").encode(errors="replace")
        if not body.strip():
            raise Unsendable("body: is missing or empty")
        headers = signing.headers(delivery_key(envelope), int(self._clock()), body, endpoint.secrets)
        return Call([envelope], endpoint.url, headers, body, self._options.timeout_seconds)

    def judge(self, envelope: Envelope, endpoint: Endpoint, answer: Answer | Lost) -> Verdict:
        """What an answer, or its absence, means: what is no success may pass when its receiver is mended."""
        if isinstance(answer, Lost):
            return Unknown(f"no answer: {answer.why}") if answer.written else _first(envelope, not_called(answer))
        if succeeded(answer):
            return Accepted(delivery_key(envelope))
        if answer.status == GONE:
            self.gone.add((endpoint.id, endpoint.url))
            return _first(envelope, Refused("answered with 410: its endpoint is disabled"))
        if is_gateway_error(answer):
            return Unknown(f"answered with {answer.status} by a gateway")
        words = ", a redirect, and those are not followed" if is_redirect(answer) else ""
        return RetryAfter(f"answered with {answer.status}{words}", asked_wait(answer))


def _first(envelope: Envelope, verdict: Verdict) -> Verdict:
    """A refusal of one attempt says nothing about those before it."""
    if isinstance(verdict, Refused) and envelope.attempt > 1:
        return RetryAfter(verdict.reason)
    return verdict


class Webhooks(Posts[Endpoint]):
    """Posts to endpoints that deliveries bring along, each over connections of its own."""

    idempotency_key_seconds = float("inf")
    keyed_recipients: frozenset[str] = frozenset()

    def __init__(
        self,
        options: WebhooksOptions,
        connect: Connect,
        resolver: Callable[[], AbstractResolver] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._asked = _Manner(options, clock)
        super().__init__(self._asked, {}, _UNKNOWN, resolver)
        self._allow_addresses = options.allow_addresses
        self._connect = connect
        self._kept: OrderedDict[str, Client] = OrderedDict()
        self._calls: Counter[str] = Counter()

    async def close(self) -> None:
        """Let connections go."""
        for client in self._kept.values():
            await client.close()

    async def _deliver(self, envelope: Envelope, report: Report) -> None:
        name = _name(self._target(envelope))
        if self._calls[name] >= WAITING_MAX:
            report(envelope, Throttled(PUT_OFF_SECONDS, name))
            return
        self._calls[name] += 1
        try:
            await super()._deliver(envelope, report)
        finally:
            self._calls[name] -= 1
        await self._disable()
        await self._trim()

    def _target(self, envelope: Envelope) -> Endpoint | None:
        """Where an envelope goes: whoever loads its endpoint puts that there."""
        given = envelope.options.get("webhook")
        if not isinstance(given, dict):
            return None
        return Endpoint(given["id"], given["url"], given["secrets"], self._allow_addresses)

    def _client(self, envelope: Envelope, target: Endpoint) -> Client:  # noqa: ARG002 - its target says all
        name = _name(target)
        if name not in self._kept:
            self._kept[name] = self._open(target)
        self._kept.move_to_end(name)
        return self._kept[name]

    async def _disable(self) -> None:
        """Let nothing more be sent to who is gone. Where that cannot be written now, it will say so again."""
        while self._asked.gone:
            number, url = self._asked.gone.pop()
            try:
                async with self._connect() as connection:
                    rows = await connection.fetch(_GONE, number, url)
            except _TROUBLE as trouble:
                log.warning("webhook.not_disabled", endpoint_id=number, error=type(trouble).__name__)
            else:
                if rows[0][0]:
                    log.warning("webhook.disabled", endpoint_id=number)

    async def _trim(self) -> None:
        """Let connections go that were not needed for the longest time."""
        for name in list(self._kept)[: max(0, len(self._kept) - CLIENTS_MAX)]:
            # Another one may have let it go while we waited for the one before.
            if not self._calls[name] and name in self._kept:
                del self._calls[name]
                await self._kept.pop(name).close()


def _name(endpoint: Endpoint | None) -> str:
    """What its connections are kept under: another URL may be allowed to lead elsewhere."""
    return "" if endpoint is None else f"{endpoint.id} {endpoint.url}"
