"""The time zone of a recipient: that of the contact, else that of the phone number, else that of the workspace."""

from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from dispatcher.base.values.addresses import Address
from dispatcher.plans.walk.wall_clock import UTC_ZONE, zone_of

NUMBERS_CACHED_MAX = 65_536
# Of the first digits of numbers and the zones of workspaces.
ZONES_CACHED_MAX = 10_000
# The calling codes of countries have one to three digits, and none is the beginning of another.
CODE_DIGITS_MAX = 3


def zone_for(contact: str | None, one: Address, workspace: str) -> ZoneInfo:
    """Return the zone of a recipient."""
    if contact is None and one.kind == "phone":
        found = _zone_by_country(one.text[1 : 1 + CODE_DIGITS_MAX], workspace)
        if found is not None:
            return found
    return (
        zone_of(contact)
        or (zone_of(phone_zone(one.text)) if one.kind == "phone" else None)
        or zone_of(workspace)
        or UTC_ZONE
    )


def zones_without_contacts(some: Iterable[Address], workspace: str) -> set[ZoneInfo | None]:
    """Return the zones of recipients whose contacts have none; None stands for those that depend on a number's area."""
    begins = {one.text[1 : 1 + CODE_DIGITS_MAX] if one.kind == "phone" else "" for one in some}
    return {_zone_by_country(digits, workspace) if digits else zone_of(workspace) or UTC_ZONE for digits in begins}


def phone_zone(number: str) -> str | None:
    """Return the zone of a number in E.164; None where it has several, or none that is known."""
    found = _country_zone(number[1 : 1 + CODE_DIGITS_MAX])
    return _area_zone(number) if found == "" else found


@lru_cache(maxsize=ZONES_CACHED_MAX)
def _zone_by_country(digits: str, workspace: str) -> ZoneInfo | None:
    """Return the zone of all numbers that begin with these digits; None where it depends on the others."""
    country = _country_zone(digits)
    return None if country == "" else zone_of(country) or zone_of(workspace) or UTC_ZONE


def _country_zone(digits: str) -> str | None:
    """Return the zone of the country whose code these digits begin with: empty where it has several."""
    countries = _countries()
    codes = (digits[:length] for length in range(1, CODE_DIGITS_MAX + 1))
    return next((countries[code] for code in codes if code in countries), None)


@cache
def _countries() -> Mapping[str, str]:
    """Return the zone of each calling code; empty for a country that has several."""
    # Imported where a workspace has quiet hours: it takes 80 ms.
    from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, tzdata  # noqa: PLC0415 - as above

    zones = {str(code): tzdata.TIMEZONE_DATA.get(str(code), ()) for code in COUNTRY_CODE_TO_REGION_CODE}
    return {code: known[0] if len(known) == 1 else "" for code, known in zones.items()}


@lru_cache(maxsize=NUMBERS_CACHED_MAX)
def _area_zone(number: str) -> str | None:
    """Return the zone of a number by its area. It takes 50 us."""
    import phonenumbers  # noqa: PLC0415 - as above
    from phonenumbers import timezone  # noqa: PLC0415 - as above

    try:
        found = timezone.time_zones_for_number(phonenumbers.parse(number))
    except phonenumbers.NumberParseException:
        return None
    return str(found[0]) if len(found) == 1 else None
