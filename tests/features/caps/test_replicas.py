"""Two replicas at once: never one message too many, no deadlock, and no place lost."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Again, Back, Claimed, Failed, Outcome, Succeeded
from tests.features.caps.stage import Capped
from tests.support.scene import Connection
from tests.support.waits import until_blocked

PEOPLE = [f"+49170{number:03}" for number in range(40)]
MESSAGES = 3


@pytest.fixture
async def replicas(database: Database) -> tuple[Capped, Capped]:
    """Two, with a cap of three a day."""
    first, second = await Capped.open(database), await Capped.open(database)
    await first.cap(MESSAGES)
    await second.reader.run_once()
    return first, second


@pytest.fixture
async def other(url: str) -> AsyncIterator[Connection]:
    """A second plain connection, for whoever stands in the way."""
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


def _batches(items: Sequence[Claimed], dice: random.Random) -> Iterator[Sequence[Claimed]]:
    behind = 0
    while behind < len(items):
        count = dice.choice((1, 3, 20, 60))
        yield items[behind : behind + count]
        behind += count


SENT, FAILED = Succeeded("p"), Failed("550")
KEPT: tuple[Outcome, ...] = (SENT, Again(0.0, "busy"), Back(0.0, "not called"))


async def _drain(replica: Capped, dice: random.Random, outcomes: Sequence[Outcome], sent: Counter[str]) -> None:
    """Mark and flush until nothing is due, with results of every kind."""
    while items := await replica.scene.claim(200):
        for batch in _batches(items, dice):
            marked = set(await replica.mark(batch))
            results = [(item, dice.choice(outcomes)) for item in batch if item.id in marked]
            await replica.scene.flush(*results)
            sent.update(item.recipient for item, outcome in results if outcome is SENT)


async def _race(replicas: tuple[Capped, Capped], outcomes: Sequence[Outcome]) -> Counter[str]:
    sent: Counter[str] = Counter()
    await replicas[0].write(*(PEOPLE * 15), max_attempts=100)
    dice = [random.Random(seed) for seed in range(2)]  # noqa: S311 - schedules that can be played again
    await asyncio.gather(*(_drain(one, dice[n], outcomes, sent) for n, one in enumerate(replicas)))
    waiting = "SELECT count(*) FROM dispatcher.delivery_state WHERE status = 'queued'"
    assert await replicas[0].scene.value(waiting) == 0
    return sent


async def test_never_one_too_many_and_never_one_too_few(replicas: tuple[Capped, Capped]) -> None:
    assert await _race(replicas, KEPT) == dict.fromkeys(PEOPLE, MESSAGES)


async def test_never_one_too_many_where_some_fail(replicas: tuple[Capped, Capped]) -> None:
    """Their places come back, for whoever asks after that."""
    sent = await _race(replicas, (*KEPT, FAILED))
    assert max(sent.values()) == MESSAGES


async def test_a_mark_waits_for_one_that_is_not_committed(
    replicas: tuple[Capped, Capped], connection: Connection, other: Connection
) -> None:
    """The last place is taken by a transaction under way: whoever asks for it waits, and finds none."""
    ours, theirs = replicas
    assert await ours.send(*PEOPLE[:1] * (MESSAGES - 1)) == [0, 1]
    first, second = await ours.write(PEOPLE[0], PEOPLE[0])
    items = await ours.claim()
    limited = ours.reader.limited(items[:1])
    assert limited is not None
    transaction = connection.transaction()
    await transaction.start()
    asked = ours.scene.epoch, [first], [items[0].token], ["capture"], *limited.arguments
    assert [row["id"] for row in await connection.fetch(limited.statement, *asked)] == [first]
    waits = asyncio.create_task(ours.mark(items[1:]))
    await until_blocked(other)
    await transaction.commit()
    assert await waits == []
    assert (await theirs.scene.row(second))["error"] == "capped (3 in 1 day)"


async def test_a_mark_that_is_rolled_back_leaves_its_place(
    replicas: tuple[Capped, Capped], connection: Connection, other: Connection
) -> None:
    ours, _ = replicas
    await ours.send(*PEOPLE[:1] * (MESSAGES - 1))
    _, second = await ours.write(PEOPLE[0], PEOPLE[0])
    items = await ours.claim()
    limited = ours.reader.limited(items[:1])
    assert limited is not None
    transaction = connection.transaction()
    await transaction.start()
    asked = ours.scene.epoch, [items[0].id], [items[0].token], ["capture"], *limited.arguments
    await connection.fetch(limited.statement, *asked)
    waits = asyncio.create_task(ours.mark(items[1:]))
    await until_blocked(other)
    await transaction.rollback()
    assert await waits == [second]


async def test_a_mark_whose_answer_was_lost_gives_its_places_back(replicas: tuple[Capped, Capped]) -> None:
    """The sender flushes it as not called, whether it was committed or not."""
    ours, theirs = replicas
    await ours.write(*PEOPLE[:1] * MESSAGES)
    items = await ours.claim()
    assert len(await ours.mark(items)) == MESSAGES
    await ours.scene.flush(*((item, Back(0.0, "the mark's outcome is unknown")) for item in items))
    again = await theirs.claim()
    assert await theirs.mark(again) == [item.id for item in items]
    assert await ours.send(PEOPLE[0]) == []
