"""Durations and times: parsing and formatting."""

import re
from datetime import UTC, datetime

import msgspec

# Two forms: ISO 8601 (`P1DT2H30M`), and as one says it (`1d 2h30m`). The largest unit first, each once.
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,6})?)"
_ISO = re.compile(
    rf"P(?=[0-9T])(?:{_NUMBER}W)?(?:{_NUMBER}D)?(?:T(?=[0-9])(?:{_NUMBER}H)?(?:{_NUMBER}M)?(?:{_NUMBER}S)?)?",
    re.IGNORECASE,
)
_SAID = re.compile(
    rf"(?=[0-9])(?:{_NUMBER} ?w ?)?(?:{_NUMBER} ?d ?)?(?:{_NUMBER} ?h ?)?(?:{_NUMBER} ?m ?)?(?:{_NUMBER} ?s ?)?"
    rf"(?:{_NUMBER} ?ms)?"
)
_UNIT_SECONDS = (7 * 86_400.0, 86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_CALENDAR = re.compile(r"P[0-9.WD]*[0-9](?:Y|M(?!S))", re.IGNORECASE)
DURATION_WORDS = "ISO 8601 such as PT2H30M or P3D, or 2h30m, 3d, 45s"
# RFC 3339: a day, a time and a zone, nothing left out.
_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"
)
MOMENT_WORDS = "RFC 3339 such as 2030-01-31T12:00:00Z"


def duration(text: str) -> float | None:
    """Return the seconds of a duration; None for a text that is not a duration."""
    text = text.strip()
    found = _ISO.fullmatch(text) or _SAID.fullmatch(text)
    if found is None or not any(found.groups()):
        return None
    return sum(
        float(number) * seconds for number, seconds in zip(found.groups(), _UNIT_SECONDS, strict=False) if number
    )


def format_duration(seconds: float) -> str:
    """Return a duration in short form: `2h30m`."""
    left, text = round(seconds * 1_000), ""
    for unit, unit_seconds in zip(("d", "h", "m", "s", "ms"), _UNIT_SECONDS[1:], strict=True):
        count, left = divmod(left, round(unit_seconds * 1_000))
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def has_months(text: str) -> bool:
    """Whether a duration has years or months, whose length varies."""
    return bool(_CALENDAR.match(text.strip()))


def moment(text: str) -> float | None:
    """Return a time in seconds since 1970; None for a text that is not a time with its zone."""
    text = text.strip()
    if not _MOMENT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()).timestamp()
    except (ValueError, OverflowError):
        return None


def instant(text: str) -> datetime:
    """Return a time of RFC 3339 with its zone. Raises ValueError with its fault."""
    try:
        found = msgspec.convert(text, datetime)
    except msgspec.ValidationError as fault:
        raise ValueError("expected a time in RFC 3339, such as 2030-12-31T08:00:00Z") from fault
    if found.tzinfo is None:
        raise ValueError("needs its zone: Z, or an offset such as +02:00")
    try:
        return found.astimezone(UTC)
    except OverflowError as fault:
        raise ValueError("is out of range") from fault
