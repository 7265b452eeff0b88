"""The rate limit: how many calls may begin, by what the provider's answers say about its limits.

Until an answer has told the limit, and again after each closure, one call goes alone. From then on only as many begin
as the provider says remain, those under way counted against them, so that none is refused for coming too soon as long
as no other program uses the account.
"""

import asyncio
import math
from collections.abc import Callable, Mapping

# A window of the API is a second. A longer wait is answered instead of waited for.
PATIENCE_SECONDS = 1.5
# No limit is told in days: what says more is taken for this.
RESET_SECONDS_MAX = 86_400.0


class RateLimit:
    """Counts the calls that may begin in the provider's present window."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        # What may still begin in this window; None: not known.
        self._left: float | None = None
        self._limit = math.inf
        self._resets_at = math.inf
        self._closed_until = -math.inf
        self._under_way = 0
        self._changed = asyncio.Event()

    async def acquire(self) -> float:
        """Return 0.0 when a call may begin, which is then counted; or for how many seconds none may."""
        while True:
            wait = self._take()
            if wait is not None and (wait <= 0 or wait > PATIENCE_SECONDS):
                return wait
            self._changed.clear()
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _take(self) -> float | None:
        """0.0 where the call was counted, else the seconds until it may be; None: when an answer has come."""
        now = self._clock()
        if now < self._closed_until:
            return self._closed_until - now
        if now >= self._resets_at:
            self._left, self._resets_at = self._limit, math.inf
        used_up = self._left is not None and self._left < 1
        if used_up and self._resets_at == math.inf and not self._under_way:
            # Every answer that could have told more was lost.
            self._left, used_up = None, False
        if used_up or (self._left is None and self._under_way):
            return self._resets_at - now if used_up and self._resets_at < math.inf else None
        if self._left is not None:
            self._left -= 1
        self._under_way += 1
        return 0.0

    def release(self) -> None:
        self._under_way -= 1
        if self._left is not None:
            self._left += 1
        self._changed.set()

    def answered(self, headers: Mapping[str, str] | None) -> None:
        """A counted call has ended, with these headers or without an answer."""
        self._under_way -= 1
        self._changed.set()
        if headers is None or self._clock() < self._closed_until:
            return
        remaining, reset = _number(headers, "ratelimit-remaining"), _number(headers, "ratelimit-reset")
        if remaining is None or reset is None:
            # It tells no limit: it will say so when there is one.
            self._left = math.inf if self._left is None else self._left
            return
        self._limit = max(_number(headers, "ratelimit-limit") or 1.0, 1.0)
        # Calls under way may be counted in it or not.
        left = max(0.0, remaining - self._under_way)
        self._left = left if self._left is None else min(self._left, left)
        self._resets_at = self._clock() + min(reset, RESET_SECONDS_MAX)

    def close(self, seconds: float) -> None:
        """Let nothing begin for so long, and then one call alone."""
        self._closed_until = max(self._closed_until, self._clock() + seconds)
        self._left, self._resets_at = None, math.inf
        self._changed.set()


def _number(headers: Mapping[str, str], name: str) -> float | None:
    """The number in a header, if it is finite and not negative."""
    try:
        number = float(headers.get(name, ""))
    except ValueError:
        return None
    return number if number >= 0 and math.isfinite(number) else None
