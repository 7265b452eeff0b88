"""Times on the wall, by the clocks of a time zone: of the days of sequences and of quiet hours. `step_time` in SQL says
the same.

An hour that clocks skip comes when they have skipped it, one that they show twice comes the second time.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_MINUTE = timedelta(minutes=1)
UTC_ZONE = ZoneInfo("UTC")


@lru_cache(maxsize=1_000)
def zone_of(name: str | None) -> ZoneInfo | None:
    """The zone of a name; None where there is none."""
    try:
        return None if not name else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def step_time(start: float, days: int, hour: int | None, zone: ZoneInfo) -> float:
    """When clocks show an hour so many days after the day of a time; without an hour, the time of day of that time."""
    if not days and hour is None:
        return start
    local = datetime.fromtimestamp(start, UTC).astimezone(zone).replace(tzinfo=None, fold=0) + timedelta(days=days)
    if hour is not None:
        local = local.replace(hour=hour, minute=0, second=0, microsecond=0)
    return on_the_wall(local, zone).timestamp()


def on_the_wall(local: datetime, zone: ZoneInfo) -> datetime:
    """When clocks of a zone show a time: the second time that they do, or the end of the gap that skips it."""
    # Of two, the second.
    found = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None, fold=0) != local:
        found = _gap_end(local, zone)
    return found


def _gap_end(local: datetime, zone: ZoneInfo) -> datetime:
    """The end of the gap that a time is in, to the minute: clocks change on one."""
    low = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    high = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    low, high = (one.replace(second=0, microsecond=0) for one in (low, high))
    after = high.astimezone(zone).utcoffset()
    # Clocks have not changed at `low`, and have at `high`.
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        if middle.astimezone(zone).utcoffset() == after:
            high = middle
        else:
            low = middle
    return high
