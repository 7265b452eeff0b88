"""Quiet hours: whether a message may go at a time, when it may next, and what becomes of one that may not go now.

Periods are on the wall of the recipient's time zone. A time that clocks skip comes when they have skipped it, one that
they show twice comes the second time: quiet hours that end at 02:30 end at the second 02:30.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from dispatcher.plans.walk.wall_clock import UTC_ZONE, on_the_wall

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_DAY = frozenset(range(len(DAYS)))
DAY_MINUTES = 24 * 60
# Two weeks ahead: a weekly window that falls into the gap of one week opens in the next.
AHEAD_DAYS = 15
# A period that began two days ago may still be going on.
BACK_DAYS = 2
# Where nothing opens within that time, which no rule that is saved comes to: look again after this.
LOOK_AGAIN = timedelta(days=1)
# Of the life of a provider's key, what is left for the queue after the quiet hours.
RESEND_MARGIN = timedelta(minutes=10)
# Any Monday.
_MONDAY = datetime(2030, 1, 7, tzinfo=UTC)


class Period(Struct, frozen=True):
    """Minutes of the day from which and to which it lasts, on the days on which it begins (0 is Monday). One that ends
    no later than it begins ends on the next day."""

    opens: int
    closes: int
    days: frozenset[int] = EVERY_DAY


class Hours(Struct, frozen=True):
    """The quiet periods, in which nothing goes, and the windows, outside which nothing goes where there are any."""

    quiet: tuple[Period, ...] = ()
    windows: tuple[Period, ...] = ()


class Span(Struct, frozen=True):
    """Whether messages may go, and until when that holds."""

    is_open: bool
    until: datetime


class Move(Struct, frozen=True):
    """It goes later."""

    run_at: datetime
    reason: str


class Skip(Struct, frozen=True):
    """It has expired by the time that it may go."""

    reason: str


def span(hours: Hours, zone: ZoneInfo, at: datetime) -> Span:
    """Return whether messages may go at a time, and until when that holds."""
    today = at.astimezone(zone).date()
    days = [today + timedelta(days=number) for number in range(-BACK_DAYS, AHEAD_DAYS + 1)]
    midnights = [datetime(day.year, day.month, day.day) for day in days]
    quiet, windows = (_times(periods, midnights, zone) for periods in (hours.quiet, hours.windows))
    # A window that begins on the first day that is not looked at is not known.
    end = on_the_wall(midnights[-1], zone)

    def is_open(moment: datetime) -> bool:
        return not _within(quiet, moment) and (not hours.windows or _within(windows, moment))

    now = is_open(at)
    changes = sorted({moment for pair in (*quiet, *windows) for moment in pair if at < moment < end})
    for moment in changes:
        if is_open(moment) != now:
            return Span(now, moment)
    return Span(now, at + LOOK_AGAIN)


def _times(periods: Sequence[Period], midnights: Sequence[datetime], zone: ZoneInfo) -> list[tuple[datetime, datetime]]:
    return [
        (_wall(midnight, period.opens, zone), _wall(midnight, _end(period), zone))
        for period in periods
        for midnight in midnights
        if midnight.weekday() in period.days
    ]


def _end(period: Period) -> int:
    return period.closes if period.closes > period.opens else period.closes + DAY_MINUTES


def _wall(midnight: datetime, minutes: int, zone: ZoneInfo) -> datetime:
    return on_the_wall(midnight + timedelta(minutes=minutes), zone)


def _within(times: Sequence[tuple[datetime, datetime]], moment: datetime) -> bool:
    return any(opens <= moment < closes for opens, closes in times)


def never_opens(hours: Hours) -> bool:
    """Whether quiet hours leave nothing of any week."""
    now = span(hours, UTC_ZONE, _MONDAY)
    return not now.is_open and not span(hours, UTC_ZONE, now.until).is_open


def decide(
    closed: Span, zone: ZoneInfo, expires_at: datetime | None, resend_until: datetime | None
) -> Move | Skip | None:
    """Return what becomes of a message that may not go before the end of a span; None: it goes all the same.

    One that may have gone out already is sent again by the key that its provider knows. Moved past the life of that key
    it could never be sent, nor be known as not sent: it goes now, as the attempt that it repeats did.
    """
    shown = f"{closed.until.astimezone(zone):%Y-%m-%d %H:%M} {zone.key}"
    if resend_until is not None and resend_until < closed.until + RESEND_MARGIN:
        return None
    if expires_at is not None and expires_at <= closed.until:
        return Skip(f"expired: its quiet hours last until {shown}")
    return Move(closed.until, f"quiet hours until {shown}")
