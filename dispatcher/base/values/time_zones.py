"""Time zones: those of the tz database, by their own names."""

from functools import cache
from zoneinfo import available_timezones

ZONE_MAX = 100
# What these say is another thing on another machine.
OF_MACHINES = {"localtime", "Factory"}


@cache
def _zones() -> dict[str, str]:
    """Every zone by its name in small letters."""
    return {name.lower(): name for name in available_timezones() - OF_MACHINES}


def zone_fault(zone: str) -> str | None:
    """What is wrong with the name of a zone, or None."""
    known = _zones().get(zone.lower()) if len(zone) <= ZONE_MAX else None
    if known is None:
        return "there is no such time zone; write one like Europe/Berlin, or UTC"
    return None if known == zone else f"is written {known}"
