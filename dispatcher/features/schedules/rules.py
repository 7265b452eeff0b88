"""Cron expressions: when a schedule ticks, by the clocks of its time zone.

Hours that an expression names are those that clocks show: a time that they skip comes as soon as they have skipped it,
one that they show twice comes the first time. An expression for every hour goes by the time that passes. Equal
times are one tick.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from dispatcher.base.errors import Fault, ScheduleRefused
from dispatcher.base.values.counts import counted
from dispatcher.base.values.time_zones import zone_fault

# Five fields with every minute listed have some 300 characters.
EXPRESSION_MAX = 500
HOURS = 24
ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# The fields in their order, and what each takes beside *, lists (1,15), ranges (1-5) and steps (*/10, 8-18/2).
FIELDS = (
    ("minute", "0 to 59"),
    ("hour", "0 to 23"),
    ("day of the month", "1 to 31, L for the last day, or LW for the last from Monday to Friday"),
    ("month", "1 to 12, or JAN to DEC"),
    ("day of the week", "0 to 7 or SUN to SAT (0 and 7 are Sunday), FRI#2 for the second, 5L for the last Friday"),
)
_BEGINNING = datetime(2000, 1, 1, tzinfo=UTC)
_STEP = timedelta(seconds=1)


class Cron:
    """An expression in a time zone. Raises ScheduleRefused with all faults of both."""

    def __init__(self, expression: str, zone: str) -> None:
        faults = list(_expression_faults(expression))
        if words := zone_fault(zone):
            faults.append(Fault("$.time_zone", words))
        if faults:
            raise ScheduleRefused(faults)
        self._zone: tzinfo = UTC if zone == "UTC" else ZoneInfo(zone)
        self._expression = _spelled(_fields(expression))
        if self.after(_BEGINNING) is None:
            raise ScheduleRefused([Fault("$.cron", "there is no such day")])

    def ticks(self, at: datetime) -> Iterator[datetime]:
        """Every tick after a time, in UTC and in order; they end where none comes for 50 years."""
        last = at
        for local in CronSim(self._expression, at.astimezone(self._zone)):
            tick = local.astimezone(UTC)
            # Asked within an hour that is shown twice, it may begin in the first one.
            if tick > last:
                last = tick
                yield tick

    def after(self, at: datetime) -> datetime | None:
        """The first tick after a time."""
        return next(self.ticks(at), None)

    def latest(self, tick: datetime, now: datetime) -> datetime:
        """The last tick that is not after `now`, from this tick on, which is not after `now` either."""
        if not self._comes(tick, now):
            return tick
        # There is a tick after `low` and until `now`, and none after `high`.
        low, high = tick, now
        while high - low > _STEP:
            middle = low + (high - low) / 2
            if self._comes(middle, now):
                low = middle
            else:
                high = middle
        return self.after(low) or tick

    def count(self, tick: datetime, before: datetime, most: int) -> int:
        """Return the number of ticks from this one on and before another; at most `most` are counted."""
        if tick >= before:
            return 0
        return 1 + sum(one < before for one in islice(self.ticks(tick), most - 1))

    def local(self, tick: datetime) -> datetime:
        """A tick as the clocks of its zone show it."""
        return tick.astimezone(self._zone)

    def _comes(self, at: datetime, now: datetime) -> bool:
        """Return whether there is a tick after `at`, and not after `now`."""
        found = self.after(at)
        return found is not None and found <= now


def _expression_faults(expression: str) -> Iterator[Fault]:
    if len(expression) > EXPRESSION_MAX:
        yield Fault("$.cron", f"is longer than {EXPRESSION_MAX} characters")
        return
    if expression.strip().startswith("@") and expression.strip().lower() not in ALIASES:
        yield Fault("$.cron", f"is not an alias: use {', '.join(ALIASES)}, or five fields")
        return
    fields = _fields(expression)
    if len(fields) != len(FIELDS):
        names = ", ".join(name for name, _ in FIELDS)
        yield Fault("$.cron", f"has {counted(len(fields), 'field')}, and needs five: {names}")
        return
    wrong = [number for number in range(len(FIELDS)) if not _is_good(_alone(fields, number))]
    for number in wrong:
        name, words = FIELDS[number]
        yield Fault("$.cron", f"the {name}, {fields[number]}, is not valid: use {words}; lists, ranges and steps")
    if not wrong and not _is_good(" ".join(fields)):
        # Each field is valid, and no day fits all of them.
        yield Fault("$.cron", "there is no such day in these months")


def _fields(expression: str) -> list[str]:
    known = ALIASES.get(expression.strip().lower(), expression)
    return known.upper().split()


def _alone(fields: list[str], number: int) -> str:
    return " ".join(field if place == number else "*" for place, field in enumerate(fields))


def _is_good(expression: str) -> bool:
    try:
        CronSim(expression, _BEGINNING)
    except CronSimError:
        return False
    return True


def _spelled(fields: list[str]) -> str:
    """Return an expression with its hours listed unless they are all: then it goes by the time that passes."""
    read = CronSim(" ".join(fields), _BEGINNING)
    hours = "*" if len(read.hours) == HOURS else ",".join(map(str, sorted(read.hours)))
    return " ".join([",".join(map(str, sorted(read.minutes))), hours, *fields[2:]])
