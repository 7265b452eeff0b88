"""The clock that is passed to whatever needs time, so that tests can pass another."""

import time
from collections.abc import Callable

from msgspec import Struct

# A suspended machine stops CLOCK_MONOTONIC on Linux but not its leases; only Linux has BOOTTIME, elsewhere monotonic
# time runs on through a suspend.
_BOOTTIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Return the seconds since boot, including suspended time."""
    return time.clock_gettime(_BOOTTIME)


class Clock(Struct, frozen=True):
    """`monotonic` measures durations, `boottime` judges licences and leases."""

    monotonic: Callable[[], float] = time.monotonic
    boottime: Callable[[], float] = boottime
