"""Claims: taking due deliveries under a token that is never issued again."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.json import encode

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Claimed, Lane, PoisonStep, Resend

_SQL = statements(__name__)
_CLAIM = _SQL["claim"]
_ANSWER = _CLAIM.index("SELECT t.id"), _CLAIM.index("\n  -- Sorted")
# Those may be of any lane.
_CLAIM_RECOVERED = f"{_SQL['claim_recovered']}\n{_CLAIM[slice(*_ANSWER)]}, t.lane{_CLAIM[_ANSWER[1] :]}"
_LANES = tuple(Lane)


class Due(Struct, frozen=True):
    """A lane with ready deliveries: due, or due in so many seconds."""

    channel: str
    lane: Lane
    due: bool
    wait_seconds: float


class Depth(Struct, frozen=True):
    """The number of deliveries that wait in a lane, and the delay of the oldest."""

    channel: str
    lane: Lane
    deliveries: int
    age_seconds: float


class Wanted(Struct, frozen=True):
    """The request of a claim: deliveries of one lane, under a token, and the terms of their recovery."""

    channel: str
    lane: Lane
    count: int
    token: int
    resend: Resend
    # How long a call may go on after the fence of an owner that is not dead but slow.
    settle_seconds: float


async def claim(database: Database, epoch: int, wanted: Wanted) -> list[Claimed]:
    """Take due deliveries. Not to be repeated: a token names one claim."""
    rows = await _claim(database, _CLAIM, epoch, wanted, wanted.lane.value, wanted.count)
    lane, token, channel = wanted.lane, wanted.token, wanted.channel
    return [Claimed(*row, lane, token, channel) for row in rows]  # type: ignore[call-arg]  # a row has the others


async def claim_recovered(database: Database, epoch: int, wanted: Wanted, step: PoisonStep) -> list[Claimed]:
    """Take deliveries whose owners have died, from any lane: no more in one claim than the step allows."""
    chosen = step.deaths_min, step.deaths_max, min(wanted.count, step.count_max)
    rows = await _claim(database, _CLAIM_RECOVERED, epoch, wanted, *chosen)
    token, channel = wanted.token, wanted.channel
    return [Claimed(*row[:-1], _LANES[row[-1]], token, channel) for row in rows]  # type: ignore[call-arg]  # as above


async def _claim(database: Database, statement: str, epoch: int, wanted: Wanted, *chosen: int) -> Sequence[Any]:
    resend = wanted.resend
    terms = resend.by, resend.key_seconds, wanted.settle_seconds, wanted.channel
    keys = None if resend.provider_keys is None else encode(resend.provider_keys).decode()
    return await database.fetch(statement, epoch, wanted.token, *terms, *chosen, list(resend.keyed_recipients), keys)


async def recovered_due(database: Database, asked: Sequence[tuple[str, PoisonStep]]) -> list[tuple[str, PoisonStep]]:
    """Return those of these channels and poison steps that have a due delivery."""
    channels = [channel for channel, _ in asked]
    fewest = [step.deaths_min for _, step in asked]
    most = [step.deaths_max for _, step in asked]
    rows = await database.fetch(_SQL["recovered_due"], channels, fewest, most) if asked else []
    return [asked[row["position"] - 1] for row in rows]


async def due(database: Database, lanes: Sequence[tuple[str, Lane]]) -> tuple[list[Due], bool]:
    """Return those of these lanes that have ready deliveries, and whether owners of any ready delivery have died."""
    rows = await database.fetch(_SQL["due"], [channel for channel, _ in lanes], [lane.value for _, lane in lanes])
    lanes_due = [Due(row[0], Lane(row[1]), row[2], row[3]) for row in rows if row[0] is not None]
    return lanes_due, any(row[2] for row in rows if row[0] is None)


async def depth(database: Database, lanes: Sequence[tuple[str, Lane]], counted_max: int) -> list[Depth]:
    """Return what waits in each lane, counted up to a bound: an exact count of millions is not worth its scan."""
    names = [channel for channel, _ in lanes]
    rows = await database.fetch(_SQL["depth"], names, [lane.value for _, lane in lanes], counted_max)
    return [Depth(row["channel"], Lane(row["lane"]), row["depth"], row["age_seconds"]) for row in rows]


async def fail_unserved(database: Database, page: int) -> int:
    """Fail due deliveries of channels that no instance serves; return their number."""
    return int(await database.value(_SQL["fail_unserved"], page))


async def drop_spent(database: Database, page: int, age_seconds: float) -> None:
    """Drop old claims in which nothing is queued any more; the flush drops nearly all of them itself."""
    await database.fetch(_SQL["spent"], page, age_seconds)


async def older_than(database: Database, epoch: int, age_seconds: float) -> list[int]:
    """Return the tokens of an epoch's older claims with deliveries that are neither ended nor held."""
    return [row["token"] for row in await database.fetch(_SQL["older"], epoch, age_seconds)]


async def forget(database: Database, epoch: int, token: int) -> int:
    """Free the deliveries of a claim of ours whose answer was lost; return their number."""
    return int(await database.value(_SQL["forget"], epoch, token))
