"""The webhooks channel: POSTs an event to its endpoint, signed, under an id that is the same on every attempt.

Receivers of Standard Webhooks de-duplicate by that id, without an end: so what is unknown is asked for again. The time
of each attempt is signed with it, since they refuse old ones; everything else is the same bytes on every attempt.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from importlib import resources

import structlog
from aiohttp.abc import AbstractResolver
from msgspec import Struct

from channels.capture.channel import DATABASE_ERRORS, Connect
from channels.contract import Accepted, Envelope, Refused, Report, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import asked_wait, is_gateway_error, is_redirect, lost_verdict, succeeded
from channels.shared.web.client import Answer, Bounds, Call, Client, Lost, delivery_key
from channels.shared.web.post_channel import KEEP_SECONDS, PostChannel, Unsendable
from channels.webhooks import signing
from channels.webhooks.options import WebhooksOptions

log = structlog.get_logger(__name__)

_DISABLE = resources.files("channels.webhooks").joinpath("disable.sql").read_text(encoding="utf-8")

GONE = 410
# Nothing of an answer but its status is of any use.
ANSWER_BYTES_MAX = 16 * 1024
# Endpoints with open connections.
CLIENTS_MAX = 256
# Messages for one endpoint that may be here at a time, and for how long the others are put off: an endpoint that hangs
# would have all of the channel's slots otherwise.
WAITING_MAX = 64
PUT_OFF_SECONDS = 5.0


class Endpoint(Struct, frozen=True):
    """Where a message goes, as its options say it."""

    id: int
    url: str
    secrets: Sequence[str]
    allow_addresses: str


class Webhooks(PostChannel[Endpoint]):
    """Posts to endpoints that deliveries bring along, each over connections of its own."""

    idempotency_key_seconds = float("inf")
    unknown = "options.webhook: names no endpoint; the dispatcher writes deliveries of this channel by itself"

    def __init__(
        self,
        options: WebhooksOptions,
        connect: Connect,
        resolver: Callable[[], AbstractResolver] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__({}, resolver)
        self._options = options
        self._connect = connect
        self._clock = clock
        # Endpoints that answered with 410, to be disabled.
        self._gone: set[tuple[int, str]] = set()
        # The connections by name, those used last at the end.
        self._recent: OrderedDict[str, Client] = OrderedDict()
        self._calls: Counter[str] = Counter()

    def bounds(self, target: Endpoint) -> Bounds:  # noqa: ARG002 - all are alike
        return Bounds(self._options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS)

    def call(self, envelope: Envelope, target: Endpoint) -> Call:
        """The part `body` as it is, signed."""
        body = envelope.parts.get("body", "").encode(errors="replace")
        if not body.strip():
            raise Unsendable("body: is missing or empty")
        headers = signing.headers(delivery_key(envelope), int(self._clock()), body, target.secrets)
        return Call([envelope], target.url, headers, body, self._options.timeout_seconds)

    def judge(self, envelope: Envelope, target: Endpoint, answer: Answer | Lost) -> Verdict:
        """The verdict of an answer, or of its absence: a failure may pass when its receiver is mended."""
        if isinstance(answer, Lost):
            return _first(envelope, lost_verdict(answer))
        if succeeded(answer):
            return Accepted(delivery_key(envelope))
        if answer.status == GONE:
            self._gone.add((target.id, target.url))
            return _first(envelope, Refused("answered with 410: its endpoint is disabled"))
        if is_gateway_error(answer):
            return Unknown(f"answered with {answer.status} by a gateway")
        words = ", a redirect, and those are not followed" if is_redirect(answer) else ""
        return RetryAfter(f"answered with {answer.status}{words}", asked_wait(answer))

    async def close(self) -> None:
        for client in self._recent.values():
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
        """The endpoint, from the options that the dispatcher loaded."""
        given = envelope.options.get("webhook")
        if not isinstance(given, dict):
            return None
        return Endpoint(given["id"], given["url"], given["secrets"], self._options.allow_addresses)

    def _client(self, envelope: Envelope, target: Endpoint) -> Client:  # noqa: ARG002 - the target says all
        name = _name(target)
        if name not in self._recent:
            self._recent[name] = self._open(target)
        self._recent.move_to_end(name)
        return self._recent[name]

    async def _disable(self) -> None:
        """Disable the endpoints that are gone. Where that cannot be written now, they will answer with 410 again."""
        while self._gone:
            number, url = self._gone.pop()
            try:
                async with self._connect() as connection:
                    rows = await connection.fetch(_DISABLE, number, url)
            except DATABASE_ERRORS as error:
                log.warning("webhook.not_disabled", endpoint_id=number, error=type(error).__name__)
            else:
                if rows[0][0]:
                    log.warning("webhook.disabled", endpoint_id=number)

    async def _trim(self) -> None:
        """Close the connections that were not needed for the longest time."""
        for name in list(self._recent)[: max(0, len(self._recent) - CLIENTS_MAX)]:
            # Another task may have closed it while this one waited.
            if not self._calls[name] and name in self._recent:
                del self._calls[name]
                await self._recent.pop(name).close()


def _name(endpoint: Endpoint | None) -> str:
    """The name of its connections: another URL may be allowed to lead elsewhere."""
    return "" if endpoint is None else f"{endpoint.id} {endpoint.url}"


def _first(envelope: Envelope, verdict: Verdict) -> Verdict:
    """A refusal of one attempt says nothing about those before it."""
    if isinstance(verdict, Refused) and envelope.attempt > 1:
        return RetryAfter(verdict.reason)
    return verdict
