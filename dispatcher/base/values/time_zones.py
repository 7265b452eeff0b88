"""Time zones: the names of the tz database."""

from functools import cache
from zoneinfo import available_timezones

ZONE_MAX = 100
# These depend on the machine.
OF_MACHINES = {"localtime", "Factory"}


@cache
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in available_timezones() - OF_MACHINES}


def zone_fault(zone: str) -> str | None:
    """Return the fault of a zone's name, or None."""
    known = _zones().get(zone.lower()) if len(zone) <= ZONE_MAX else None
    if known is None:
        return "there is no such time zone; write one like Europe/Berlin, or UTC"
    return None if known == zone else f"is written {known}"
