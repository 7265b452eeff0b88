"""Searching deliveries: each filter finds what it is about, and a page goes on where its look ended."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dispatcher.db.database import Database
from dispatcher.features.deliveries import search
from dispatcher.features.deliveries.models import DeliveryQuery
from dispatcher.http.cursors import ID_MAX
from dispatcher.http.endpoints import Part
from tests.support.scene import Connection

HERE = Part("default", "default")
NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)
_WRITE = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, template_name, run_id, created_at)
    SELECT 'k' || n, CASE n % 2 WHEN 0 THEN 'sms' ELSE 'email' END, 'user' || n || '@example.org', '{"body": "x"}',
           't' || n % 3, CASE WHEN n > 15 THEN 7 END, now()
      FROM generate_series(1, 20) AS n
"""


@pytest.fixture
async def written(connection: Connection) -> None:
    """Twenty deliveries, an hour apart; the fifth has failed."""
    await connection.execute(_WRITE)
    # What was written is immutable.
    await connection.execute("ALTER TABLE dispatcher.deliveries DISABLE TRIGGER USER")
    await connection.execute(
        "UPDATE dispatcher.deliveries SET created_at = $1::timestamptz + id * interval '1 h'", NOON
    )
    await connection.execute(
        """UPDATE dispatcher.delivery_state SET ready = false, status = 'failed', finished_at = now(),
                                                error = '550 Unknown user' WHERE id = 5"""
    )


async def _ids(database: Database, below: int = ID_MAX, **asked: Any) -> tuple[list[int], int | None]:
    rows, end = await search.found(database, HERE, DeliveryQuery(**asked), below)
    return [row["id"] for row in rows], end


@pytest.mark.parametrize(
    ("asked", "ids"),
    [
        ({"recipient": "Ann <USER7@example.org>"}, [7]),
        ({"run_id": 7}, [20, 19, 18, 17, 16]),
        ({"run_id": 7, "channel": "sms"}, [20, 18, 16]),
        ({"template_name": "t0", "channel": "email"}, [15, 9, 3]),
        ({"error": "unknown USER"}, [5]),
        ({"life": "failed", "brief": True}, [5]),
        ({"since": NOON + timedelta(hours=18)}, [20, 19, 18]),
        ({"until": NOON + timedelta(hours=3)}, [2, 1]),
        ({"since": NOON + timedelta(hours=4), "until": NOON + timedelta(hours=6)}, [5, 4]),
        ({"campaign": "spring"}, []),
        ({"since": NOON + timedelta(days=9)}, []),
    ],
)
async def test_each_filter_finds_what_it_is_about(
    written: None, database: Database, asked: dict[str, Any], ids: list[int]
) -> None:
    assert await _ids(database, **asked) == (ids, None)


async def test_a_page_goes_on_where_it_ended(written: None, database: Database) -> None:
    assert await _ids(database, channel="sms", brief=True, limit=4) == ([20, 18, 16, 14], 14)
    assert await _ids(database, 14, channel="sms", brief=True, limit=4) == ([12, 10, 8, 6], 6)


async def test_a_look_that_finds_nothing_ends_and_goes_on(
    written: None, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOKED_MAX", 8)
    assert await _ids(database, error="unknown") == ([], 13)
    assert await _ids(database, 13, error="unknown") == ([5], 5)
    assert await _ids(database, 5, error="unknown") == ([], None)
