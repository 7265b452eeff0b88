"""Timestamps of Postgres as Python's datetimes.

Postgres knows years before 1 and after 9999, and infinity. An application may write any of them into its delivery;
asyncpg by itself fails on such years, and returns infinity without a zone.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from dispatcher.db.statements import statements

_SQL = statements(__name__)
# What Postgres counts microseconds from.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
# The first and the last time of all stand for whatever is before and after, as with asyncpg.
_ENDS = {_FIRST: -(2**63), _LAST: 2**63 - 1}


async def set_timestamp_codec(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Let a connection read every timestamp: what Python cannot express becomes the nearest that it can."""
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=_encoded, decoder=_decoded, format="tuple"
    )


def _encoded(at: datetime) -> tuple[int]:
    value = (at.astimezone(UTC) - _EPOCH) // _MICROSECOND
    return (_ENDS.get(value, value),)


def _decoded(value: tuple[int]) -> datetime:
    return _EPOCH + min(max(value[0], _FIRST), _LAST) * _MICROSECOND


async def now(connection: Any) -> datetime:  # noqa: ANN401 - a Database, which imports this, or a connection
    found: datetime = await connection.value(_SQL["now"])
    return found
