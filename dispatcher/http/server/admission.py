"""Admission: whether a request is served, judged by its key, the key's rate, and the backlog of deliveries."""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import structlog
from msgspec import Struct

from dispatcher.config.settings import Channel, Config
from dispatcher.db.database import Database
from dispatcher.engine.rules.token_bucket import Bucket
from dispatcher.http import bearer
from dispatcher.http.problems import FORBIDDEN, OVERLOADED, TOO_MANY, UNAUTHENTICATED, Problem
from dispatcher.http.roles import Right, may, roles_with
from dispatcher.http.server import authentication, placement
from dispatcher.http.server.authentication import Key

log = structlog.get_logger(__name__)

# A revoked key is accepted for at most this long: a key is not read for each request.
FRESH_SECONDS = 1.0
TOUCH_SECONDS = 60.0
# Past this all are forgotten, which costs each of them one query.
KEYS_KNOWN_MAX = 10_000
# Fewer than all that are served at a time, so that one key leaves room for the others.
KEY_REQUESTS_AT_ONCE_MAX = 200
BACKLOG_SECONDS = 1.0
RETRY_SECONDS_MAX = 300
_CHALLENGE = {"www-authenticate": "Bearer"}


# How long the oldest due delivery has been waiting, by channel.
Ages = Callable[[Database, Mapping[str, Channel]], Awaitable[Mapping[str, float]]]


class _Known(Struct):
    key: Key
    read_at: float


class Admission:
    def __init__(
        self,
        config: Callable[[], Config],
        database: Callable[[], Database],
        ages: Ages,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ages_of = ages
        self._config = config
        self._database = database
        self._now = now
        self._known: dict[str, _Known] = {}
        self._touched: dict[int, float] = {}
        self._buckets: dict[int, Bucket] = {}
        self._busy: Counter[int] = Counter()
        self._ages: Mapping[str, float] = {}
        self._looked_at = float("-inf")

    async def key(self, header: str | None) -> Key:
        """Return the key that a request shows. Raises Problem unless it is valid."""
        if header is None:
            raise Problem(UNAUTHENTICATED, "show a key: Authorization: Bearer dsp_…", headers=_CHALLENGE)
        scheme, _, text = header.partition(" ")
        shown = bearer.read(text.strip()) if scheme.lower() == "bearer" else None
        found = None if shown is None else await self._find(shown.prefix)
        if shown is None or found is None or not shown.matches(found.hash):
            raise Problem(UNAUTHENTICATED, "this is no key of ours", headers=_CHALLENGE)
        return self._served_here(found)

    async def key_of(self, prefix: str) -> Key:
        """Return the key of a prefix, for a session that shows no secret. Raises Problem unless it is valid."""
        found = await self._find(prefix)
        if found is None:
            raise Problem(UNAUTHENTICATED, "this is no key of ours", headers=_CHALLENGE)
        return self._served_here(found)

    def _served_here(self, found: Key) -> Key:
        placement.require(_live(found), self._config().api.operators)
        return found

    async def _find(self, prefix: str) -> Key | None:
        now = self._now()
        known = self._known.get(prefix)
        if known is not None and now - known.read_at < FRESH_SECONDS:
            return known.key
        found = await authentication.find(self._database(), prefix)
        if found is None:
            self._known.pop(prefix, None)
            return None
        if len(self._known) >= KEYS_KNOWN_MAX:
            self._known.clear()
            self._touched.clear()
            self._buckets.clear()
        self._known[prefix] = _Known(found, now)
        return found

    async def admit(self, key: Key, right: Right | None) -> None:
        """Raise Problem unless the key has the right, and is below its rate."""
        if right is not None and not may(key.role, right):
            roles = " or ".join(role.value for role in roles_with(right))
            raise Problem(FORBIDDEN, f"the key {key.name} is a {key.role.value}; this takes a {roles}")
        settings, now = self._config().api, self._now()
        bucket = self._buckets.get(key.id)
        rate, burst = settings.key_rate_per_second, settings.key_rate_burst
        if bucket is None:
            bucket = self._buckets[key.id] = Bucket.full(rate, burst, now)
        else:
            bucket.tune(now, rate, burst)
        if not bucket.take(now, 1):
            wait = _seconds(bucket.wait(now))
            words = f"the key {key.name} is used over {rate:g} times a second"
            raise Problem(TOO_MANY, words, headers={"retry-after": wait})
        if now - self._touched.get(key.id, float("-inf")) >= TOUCH_SECONDS:
            self._touched[key.id] = now
            await authentication.touch(self._database(), key.id)

    @contextmanager
    def place(self, key: Key) -> Iterator[None]:
        """Take one of the key's places while a request is served."""
        if self._busy[key.id] >= KEY_REQUESTS_AT_ONCE_MAX:
            words = f"{self._busy[key.id]} requests with the key {key.name} are being served"
            raise Problem(TOO_MANY, words, headers={"retry-after": _seconds(0)})
        self._busy[key.id] += 1
        try:
            yield
        finally:
            self._busy[key.id] -= 1
            if not self._busy[key.id]:
                del self._busy[key.id]

    async def shed(self, channels: Sequence[str] | None) -> None:
        """Raise Problem if the oldest due delivery of one of these channels (None: of any) was waiting for too long."""
        limit = self._config().api.shed_after_seconds
        if limit <= 0:
            return
        late = {name: age for name, age in self._ages.items() if age > limit and (channels is None or name in channels)}
        if late:
            name, age = max(late.items(), key=lambda one: one[1])
            words = f"deliveries by {name} that are due have been waiting for {age:.0f} s"
            raise Problem(OVERLOADED, words, headers={"retry-after": _seconds(age - limit)})

    async def look(self) -> None:
        """Read how late each channel is; concurrent requests use what was read before."""
        if self._config().api.shed_after_seconds <= 0 or self._now() - self._looked_at < BACKLOG_SECONDS:
            return
        self._looked_at = self._now()
        self._ages = await self._ages_of(self._database(), self._config().channels)


def _live(key: Key) -> Key:
    if key.state != "live":
        # Its holder may know its state.
        raise Problem(UNAUTHENTICATED, f"the key {key.name} is {key.state}", headers=_CHALLENGE)
    return key


def _seconds(wait: float) -> str:
    """Return a Retry-After in whole seconds, within bounds."""
    return str(min(max(int(wait) + 1, 1), RETRY_SECONDS_MAX))
