"""Claims: taking due deliveries under a token that is never issued again."""

from collections.abc import Sequence

from msgspec import Struct

from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Claimed, Lane, PoisonStep, Resend

_SQL = statements(__name__)
_CLAIM = _SQL["claim"]


class Due(Struct, frozen=True):
    """A lane that has something ready: due, or due in so many seconds."""

    channel: str
    lane: Lane
    due: bool
    wait_seconds: float


class Depth(Struct, frozen=True):
    """What waits in a lane, and how late the oldest is."""

    channel: str
    lane: Lane
    deliveries: int
    age_seconds: float


class Wanted(Struct, frozen=True):
    """What a claim asks for: so many of one lane, under a token, and what becomes of them if the owner dies."""

    channel: str
    lane: Lane
    count: int
    token: int
    resend: Resend
    # How long a call may go on after the fence of an owner that is not dead but slow.
    settle_seconds: float


async def claim(database: Database, epoch: int, wanted: Wanted) -> list[Claimed]:
    """Take due deliveries. Not to be repeated: a token names one claim."""
    token, channel, lane = wanted.token, wanted.channel, wanted.lane
    rows = await database.fetch(_CLAIM, *_asked(epoch, wanted), lane.value, wanted.count, _keyed(wanted))
    return [Claimed(*row, token, channel, lane) for row in rows]  # type: ignore[call-arg]  # a row is its first fields


async def claim_recovered(database: Database, epoch: int, wanted: Wanted, step: PoisonStep) -> list[Claimed]:
    """Take deliveries whose owners have died, from whichever lanes: no more of them together than is wise."""
    count = min(wanted.count, step.count_max)
    deaths = step.deaths_min, step.deaths_max
    rows = await database.fetch(_SQL["claim_recovered"], *_asked(epoch, wanted), *deaths, count, _keyed(wanted))
    return [Claimed(*row[:-1], wanted.token, wanted.channel, Lane(row["lane"])) for row in rows]  # type: ignore[call-arg]  # as above


def _asked(epoch: int, wanted: Wanted) -> tuple[object, ...]:
    resend = wanted.resend
    return epoch, wanted.token, resend.by, resend.key_seconds, wanted.settle_seconds, wanted.channel


def _keyed(wanted: Wanted) -> list[str]:
    return list(wanted.resend.keyed_recipients)


async def recovered_due(database: Database, asked: Sequence[tuple[str, PoisonStep]]) -> list[tuple[str, PoisonStep]]:
    """Of these channels and poison steps, those that have a delivery due."""
    channels = [channel for channel, _ in asked]
    fewest = [step.deaths_min for _, step in asked]
    most = [step.deaths_max for _, step in asked]
    rows = await database.fetch(_SQL["recovered_due"], channels, fewest, most) if asked else []
    return [asked[row["position"] - 1] for row in rows]


async def due(database: Database, lanes: Sequence[tuple[str, Lane]]) -> list[Due]:
    """Of the lanes asked about, those that have something ready."""
    rows = await database.fetch(_SQL["due"], [channel for channel, _ in lanes], [lane.value for _, lane in lanes])
    return [Due(row["channel"], Lane(row["lane"]), row["due"], row["wait_seconds"]) for row in rows]


async def depth(database: Database, lanes: Sequence[tuple[str, Lane]], counted_max: int) -> list[Depth]:
    """What waits in each lane, counted up to a bound: an exact count of millions is not worth its scan."""
    names = [channel for channel, _ in lanes]
    rows = await database.fetch(_SQL["depth"], names, [lane.value for _, lane in lanes], counted_max)
    return [Depth(row["channel"], Lane(row["lane"]), row["depth"], row["age_seconds"]) for row in rows]


async def fail_unserved(database: Database, page: int) -> int:
    """Fail due deliveries of channels that no instance serves; says how many it were."""
    return int(await database.value(_SQL["fail_unserved"], page))


async def drop_spent(database: Database, page: int, age_seconds: float) -> None:
    """Drop old claims in which nothing is queued any more; the flush drops nearly all of them itself."""
    await database.fetch(_SQL["spent"], page, age_seconds)


async def older_than(database: Database, epoch: int, age_seconds: float) -> list[int]:
    """Tokens of an epoch's own claims that are older than this and still have something neither ended nor held."""
    return [row["token"] for row in await database.fetch(_SQL["older"], epoch, age_seconds)]


async def forget(database: Database, epoch: int, token: int) -> int:
    """Free what a claim of ours took without our knowing (its answer was lost); says how many deliveries it was."""
    return int(await database.value(_SQL["forget"], epoch, token))
