"""The loop watch: how long one step of the program has kept the event loop from everything else.

A tick that comes late shows that something held the loop. On a machine that is busy with other programs it comes late
as well: no more counts than what this process used of a processor meanwhile, in whichever thread.
"""

import asyncio
import time

# A hold that begins directly after a tick is seen shorter by this.
TICK_SECONDS = 0.02
# Fifty ticks a second were half of what an idle process used of a core: it ticks less, until it works again.
IDLE_TICK_SECONDS = 0.25
IDLE_SHARE_MAX = 0.05
# The longest hold is that of this time and of the one before it, so that each is shown for a minute at least.
WINDOW_SECONDS = 60.0


class LoopWatch:
    """The longest hold of the loop that runs it."""

    def __init__(self) -> None:
        self._longest = 0.0
        self._longest_before = 0.0
        self._turned_at = time.monotonic()

    async def run(self) -> None:
        tick = TICK_SECONDS
        now, cpu = time.monotonic(), time.process_time()
        while True:
            before, cpu_before = now, cpu
            await asyncio.sleep(tick)
            now, cpu = time.monotonic(), time.process_time()
            self.note(min(now - before - tick, cpu - cpu_before), now)
            is_idle = cpu - cpu_before < IDLE_SHARE_MAX * (now - before)
            tick = IDLE_TICK_SECONDS if is_idle else TICK_SECONDS

    def note(self, held_seconds: float, now: float) -> None:
        """Note that the loop was held for so long."""
        if now - self._turned_at >= WINDOW_SECONDS:
            self._longest_before, self._longest, self._turned_at = self._longest, 0.0, now
        self._longest = max(self._longest, held_seconds)

    def longest_seconds(self) -> float:
        """The longest hold of the last minute or two."""
        return max(self._longest, self._longest_before)
