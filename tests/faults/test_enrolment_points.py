"""The fault points of walks, met by the real program over enrolments: each step is sent once, whenever it dies."""

import signal
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from dispatcher.db.database import Database
from tests.faults.test_walk_points import QUICK, WALKING
from tests.features.runs.stage import Stage
from tests.features.sequences.steps import Sequences, sms
from tests.support.program import Program
from tests.support.scene import Scene
from tests.support.waits import until

CONTACTS = ("ann", "bob", "cid", "dan")
# The first walk that takes anything up, and one that a result has woken.
PASSAGES = (1, 2)


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """The program that is started after the first one has died."""
    program = Program(url)
    program.environment = dict(QUICK)
    try:
        yield program
    finally:
        program.end()


@pytest.mark.parametrize("passage", PASSAGES)
@pytest.mark.parametrize("point", WALKING)
async def test_death_in_a_walk_of_enrolments(
    database: Database, program: Program, second: Program, point: str, passage: int
) -> None:
    drip = Sequences(Stage(await Scene.open(database)))
    await drip.publish(sms(1, 0), sms(2, 0), sms(3, 0, channel="push"), sms(4, 0))
    await drip.enrolled(*CONTACTS)
    program.environment = dict(QUICK)
    await program.launch(FAULT=f"{point}:{passage}:kill9")
    assert await program.ended(20) == -signal.SIGKILL, program.lines()[-5:]
    await second.start()

    async def over() -> bool:
        return await drip.stage.statuses() == {"completed": len(CONTACTS)}

    await until(over, "all enrolments are completed")
    assert set((await drip.stage.ordered()).values()) == {1}
    rows = await database.fetch("SELECT delivery_id FROM dispatcher.captured_messages")
    assert sorted(Counter(row["delivery_id"] for row in rows).values()) == [1] * (3 * len(CONTACTS))
    statuses = await database.fetch("SELECT status, count(*) AS n FROM dispatcher.sequence_step_logs GROUP BY 1")
    assert {row["status"]: row["n"] for row in statuses} == {"completed": 3 * len(CONTACTS), "skipped": len(CONTACTS)}
    await drip.stage.sound()
