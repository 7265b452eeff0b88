"""Times on the wall: SQL and Python say the same, also where clocks skip an hour or show it twice."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.db.database import Database
from dispatcher.plans.walk.wall_clock import step_time

SQL = "SELECT extract(epoch FROM dispatcher.step_time(to_timestamp($1), $2, $3, $4))::float8"
# From, days, hour, zone, and the time in UTC.
VECTORS = (
    ("2026-01-10T12:00:00", 0, None, "UTC", "2026-01-10T12:00:00"),
    ("2026-01-10T12:34:56", 3, None, "UTC", "2026-01-13T12:34:56"),
    ("2026-01-10T12:00:00", 0, 9, "UTC", "2026-01-10T09:00:00"),
    ("2026-01-10T23:30:00", 1, 9, "Europe/Berlin", "2026-01-12T08:00:00"),
    # The same time of day, by clocks that have changed meanwhile.
    ("2026-03-27T12:00:00", 3, None, "Europe/Berlin", "2026-03-30T11:00:00"),
    # Clocks go from 2 to 3, and from 3 back to 2.
    ("2026-03-28T12:00:00", 1, 2, "Europe/Berlin", "2026-03-29T01:00:00"),
    ("2026-03-28T01:30:00", 1, None, "Europe/Berlin", "2026-03-29T01:00:00"),
    ("2026-10-24T12:00:00", 1, 2, "Europe/Berlin", "2026-10-25T01:00:00"),
    ("2026-03-07T12:00:00", 1, 2, "America/New_York", "2026-03-08T07:00:00"),
    ("2026-10-31T12:00:00", 1, 1, "America/New_York", "2026-11-01T06:00:00"),
    # Half an hour; two hours; a whole day; and at midnight.
    ("2026-10-03T12:00:00", 1, 2, "Australia/Lord_Howe", "2026-10-03T15:30:00"),
    ("2026-04-04T02:00:00", 1, 1, "Australia/Lord_Howe", "2026-04-04T14:00:00"),
    ("2026-03-28T12:00:00", 1, 2, "Antarctica/Troll", "2026-03-29T01:00:00"),
    ("2026-03-28T12:00:00", 1, 1, "Antarctica/Troll", "2026-03-29T01:00:00"),
    ("2011-12-29T12:00:00", 1, 9, "Pacific/Apia", "2011-12-30T10:00:00"),
    ("2026-04-23T12:00:00", 1, 0, "Africa/Cairo", "2026-04-23T22:00:00"),
)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(("start", "days", "hour", "zone", "expected"), VECTORS)
async def test_a_time_on_the_wall(
    database: Database, start: str, days: int, hour: int | None, zone: str, expected: str
) -> None:
    asked = _seconds(start), days, hour
    assert step_time(*asked, ZoneInfo(zone)) == _seconds(expected)
    assert await database.value(SQL, *asked, zone) == _seconds(expected)


ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "America/Santiago", "UTC")


async def test_sql_and_python_agree_around_every_change_of_clocks(database: Database) -> None:
    asked = [
        (_seconds(f"2026-{month:02}-{day:02}T{hour_of_day:02}:15:00"), days, hour, zone)
        for zone in ZONES
        for month, first in ((3, 6), (3, 27), (4, 3), (9, 4), (10, 2), (10, 23), (10, 29))
        for day in range(first, first + 3)
        for hour_of_day in (1, 14)
        for days in (0, 1)
        for hour in (None, 0, 1, 2, 3, 23)
    ]
    rows = await database.fetch(
        """SELECT extract(epoch FROM dispatcher.step_time(to_timestamp(a.start), a.days, a.hour, a.zone))::float8 AS at
             FROM unnest($1::float8[], $2::int[], $3::int[], $4::text[]) WITH ORDINALITY
               AS a (start, days, hour, zone, place) ORDER BY a.place""",
        *map(list, zip(*asked, strict=True)),
    )
    ours = [step_time(start, days, hour, ZoneInfo(zone)) for start, days, hour, zone in asked]
    wrong = [one for one, mine, row in zip(asked, ours, rows, strict=True) if mine != row["at"]]
    assert wrong == []


@given(
    st.integers(1_700_000_000, 1_900_000_000),
    st.integers(0, 400),
    st.sampled_from(ZONES),
    st.one_of(st.none(), st.integers(0, 23)),
)
def test_clocks_show_the_hour_unless_they_skip_it(start: int, days: int, zone: str, hour: int | None) -> None:
    found = datetime.fromtimestamp(step_time(start, days, hour, ZoneInfo(zone)), ZoneInfo(zone))
    local = datetime.fromtimestamp(start, ZoneInfo(zone))
    assert 0 <= (found.date() - local.date()).days - days <= 0
    if hour is not None:
        assert found.hour in (hour, hour + 1, hour + 2)
