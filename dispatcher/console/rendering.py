"""Rendering: the templates' environment, and how values are written on pages."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Raw

from dispatcher.base.version import VERSION
from dispatcher.console import drawing
from dispatcher.console.assets import asset

# Counts are not taken further than this.
COUNT_MAX = 10_000
# In place of a value that is not there.
MISSING = "\N{EN DASH}"
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400
_KIB = 1_024
# Larger rates need no tenths.
TENTHS_BELOW = 10

# A life's or status's class: the eight states and what else looks like them.
_WORDS = {
    "pending": "pending queued retry draft scheduled",
    "claimed": "claimed waiting locked",
    "sending": "sending running processing",
    "held": "held unknown",
    "parked": "parked paused",
    "sent": "sent called posted delivered completed done finished succeeded active live published accepted",
    "failed": "failed dead refused partial",
    "skipped": "skipped cancelled canceled expired revoked inactive disabled replaced",
}
STATES: Mapping[str, str] = {word: state for state, words in _WORDS.items() for word in words.split()}


def state(word: object) -> str:
    """Return the class of a state's word."""
    return STATES.get(str(word), "none")


def moment(at: datetime | None, missing: str = MISSING) -> str:
    """Return a time in UTC: without its day where that is today."""
    if at is None:
        return missing
    there, now = at.astimezone(UTC), datetime.now(UTC)
    if there.date() == now.date():
        return f"{there:%H:%M:%S}"
    return f"{there.day} {there:%b %H:%M}" if there.year == now.year else f"{there.day} {there:%b %Y}"


def exact(at: datetime | None, missing: str = MISSING) -> str:
    """Return a time in UTC with its milliseconds."""
    return missing if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def clock(at: datetime) -> str:
    """Return the time of day in UTC with its milliseconds."""
    return f"{at.astimezone(UTC):%H:%M:%S.%f}"[:-3]


def day(at: datetime) -> str:
    """Return the day of a time in UTC."""
    there = at.astimezone(UTC)
    return f"{there.day} {there:%b %Y}"


def minute(at: int) -> str:
    """Return the hour and minute of a number of seconds since 1970."""
    return f"{datetime.fromtimestamp(at, UTC):%H:%M}"


def rate(number: float) -> str:
    """Return a rate a second: with its tenth, where it is small."""
    return f"{number:,.0f}" if number >= TENTHS_BELOW or number == 0 else f"{number:.1f}"


def duration(seconds: float | None) -> str:
    """Return a duration in its two largest units."""
    if seconds is None:
        return MISSING
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < _HOUR:
        return f"{seconds // _MINUTE:.0f} min {seconds % _MINUTE:.0f} s"
    if seconds < _DAY:
        return f"{seconds // _HOUR:.0f} h {seconds % _HOUR // _MINUTE:.0f} min"
    return f"{seconds // _DAY:.0f} d {seconds % _DAY // _HOUR:.0f} h"


def ago(at: datetime | None, missing: str = "never") -> str:
    """Return how long ago a time was, or in how long it will be."""
    if at is None:
        return missing
    seconds = (datetime.now(UTC) - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    return f"{duration(seconds)} ago" if seconds > 0 else f"in {duration(-seconds)}"


def count(number: float | None) -> str:
    """Return a number with its thousands apart."""
    return MISSING if number is None else f"{number:,}"


def capped(number: float, most: int = COUNT_MAX) -> str:
    """Return a count that was not taken further than `most`."""
    return f"{most:,}+" if number >= most else f"{number:,}"


def size(number: float) -> str:
    """Return a size in bytes."""
    return f"{number:,} B" if number < _KIB else f"{number / _KIB:,.1f} KB"


def pretty(value: Any) -> str:  # noqa: ANN401 - any JSON
    """Return a value as JSON over several lines."""
    raw = bytes(value) if isinstance(value, Raw) else msgspec.json.encode(value)
    return msgspec.json.format(raw, indent=2).decode()


def plain(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a struct or raw JSON as lists and objects."""
    return msgspec.json.decode(bytes(value)) if isinstance(value, Raw) else msgspec.to_builtins(value)


def plural(number: float, one: str, many: str = "") -> str:
    """Return a number with its noun."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


@cache
def environment() -> Environment:
    """Return the one environment: every value is escaped, and a missing name is an error."""
    made = Environment(
        loader=PackageLoader("dispatcher.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )
    made.globals.update(
        asset=asset,
        bar=drawing.bar,
        spark=drawing.spark,
        throughput=drawing.throughput,
        dag=drawing.dag,
        VERSION=VERSION,
        COUNT_MAX=COUNT_MAX,
    )
    made.filters.update(
        state=state,
        clock=clock,
        minute=minute,
        rate=rate,
        day=day,
        moment=moment,
        exact=exact,
        duration=duration,
        ago=ago,
        count=count,
        capped=capped,
        size=size,
        pretty=pretty,
        plain=plain,
        plural=plural,
        part=lambda text: quote(str(text), safe=""),
    )
    return made
