"""Times: what Postgres keeps of a moment, as Python can say it.

Postgres knows years before 1 and after 9999, and moments before and after all others. An application may write any of
them into its delivery; asyncpg by itself fails over the first two, and leaves the others without their zone.
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


async def say_times(connection: Any) -> None:  # noqa: ANN401 - the pool's connection carries no types of ours
    """Have a connection read every time that Postgres keeps: what Python cannot say is the nearest that it can."""
    await connection.set_type_codec(
        "timestamptz", schema="pg_catalog", encoder=_encoded, decoder=_decoded, format="tuple"
    )


def _encoded(at: datetime) -> tuple[int]:
    kept = (at.astimezone(UTC) - _EPOCH) // _MICROSECOND
    return (_ENDS.get(kept, kept),)


def _decoded(kept: tuple[int]) -> datetime:
    return _EPOCH + min(max(kept[0], _FIRST), _LAST) * _MICROSECOND


async def now(connection: Any) -> datetime:  # noqa: ANN401 - a Database, which imports this, or a connection
    """The time by which the database goes."""
    found: datetime = await connection.value(_SQL["now"])
    return found
