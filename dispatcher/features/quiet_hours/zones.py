"""The time zone of a recipient: that of the contact, else that of the phone number, else that of the workspace."""

from functools import lru_cache
from zoneinfo import ZoneInfo

from dispatcher.base.values.addresses import Address
from dispatcher.plans.walk.wall_clock import UTC_ZONE, zone_of

NUMBERS_CACHED_MAX = 65_536
# The calling codes of countries have one to three digits, and none is the beginning of another.
CODE_DIGITS_MAX = 3


def zone_for(contact: str | None, one: Address, workspace: str) -> ZoneInfo:
    """Return the zone of a recipient."""
    return (
        zone_of(contact)
        or (zone_of(phone_zone(one.text)) if one.kind == "phone" else None)
        or zone_of(workspace)
        or UTC_ZONE
    )


@lru_cache(maxsize=NUMBERS_CACHED_MAX)
def phone_zone(number: str) -> str | None:
    """Return the zone of a number in E.164; None where it has several, or none that is known."""
    # Imported where a workspace has quiet hours: it takes 80 ms.
    import phonenumbers  # noqa: PLC0415 - as above
    from phonenumbers import timezone, tzdata  # noqa: PLC0415 - as above

    digits = number.removeprefix("+")
    for code in (digits[:length] for length in range(1, CODE_DIGITS_MAX + 1)):
        # A country with one zone needs no look at its numbers, which takes 50 us.
        known = tzdata.TIMEZONE_DATA.get(code, ())
        if len(known) == 1 and int(code) in phonenumbers.COUNTRY_CODE_TO_REGION_CODE:
            return str(known[0])
    try:
        found = timezone.time_zones_for_number(phonenumbers.parse(number))
    except phonenumbers.NumberParseException:
        return None
    return str(found[0]) if len(found) == 1 else None
