"""Time as it is handed to whoever needs it, so that tests can hand over another."""

import time
from collections.abc import Callable

from msgspec import Struct

# A suspended machine stops CLOCK_MONOTONIC on Linux but not its leases; only Linux has BOOTTIME, elsewhere monotonic
# time runs on through a suspend.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, time asleep included."""
    return time.clock_gettime(_BOOTTIME)


class Clock(Struct, frozen=True):
    """`monotonic` measures durations, `boottime` judges licences and leases."""

    monotonic: Callable[[], float] = time.monotonic
    boottime: Callable[[], float] = boottime
