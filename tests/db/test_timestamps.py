"""Times: whatever Postgres keeps can be read, and what is written comes back."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from dispatcher.db.database import Database

FIRST = datetime.min.replace(tzinfo=UTC)
LAST = datetime.max.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("kept", "read"),
    [
        ("-infinity", FIRST),
        ("0044-03-15 BC", FIRST),
        ("4713-01-01 BC", FIRST),
        ("0001-01-01 00:00:00Z", FIRST),
        ("0001-01-01 00:00:00.000001Z", FIRST + timedelta(microseconds=1)),
        ("1969-12-31 23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)),
        ("2026-03-30 09:00:00.000007+05:45", datetime(2026, 3, 30, 3, 15, 0, 7, UTC)),
        ("9999-12-31 23:59:59.999999Z", LAST),
        ("9999-12-31 23:59:59.999999-12", LAST),
        ("294276-12-31", LAST),
        ("infinity", LAST),
    ],
)
async def test_every_time_can_be_read(database: Database, kept: str, read: datetime) -> None:
    (row,) = await database.fetch(
        "SELECT $1::text::timestamptz AS one, ARRAY[NULL, $1::text::timestamptz] AS many", kept
    )
    assert (row["one"], row["many"]) == (read, [None, read])
    assert row["one"].tzinfo is UTC


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (datetime(2026, 3, 30, 9, 0, 0, 7, timezone(timedelta(hours=5, minutes=45))), "2026-03-30 03:15:00.000007+00"),
        (datetime(1, 1, 1, 0, 0, 0, 1, UTC), "0001-01-01 00:00:00.000001+00"),
        (FIRST, "-infinity"),
        (LAST, "infinity"),
        (None, None),
    ],
)
async def test_a_time_is_written_as_it_is(database: Database, written: datetime | None, kept: str | None) -> None:
    assert await database.value("SELECT $1::timestamptz::text", written) == kept
    assert await database.value("SELECT ($1::timestamptz[])[1]::text", [written]) == kept
