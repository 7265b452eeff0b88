"""Lanes of runs: a wave of enrolments takes a part of a batch where others wait, and the whole of it alone."""

from dispatcher.features.runs.walk import walking
from dispatcher.features.runs.walk.worker import ANY_WAKE
from dispatcher.plans.plan import Plan, Send
from tests.features.sequences.steps import Sequences, sms

CONTACTS = 60


def _urgent(lane: int | None) -> Plan:
    say = Send(step=1, channel="email", to=("ann@example.org",), parts={"subject": "Now", "text": "Now"}, lane=lane)
    return Plan(name="plan", entry="say", nodes={"say": say})


async def _taken(drip: Sequences) -> list[int]:
    """The lanes of one batch of 50."""
    async with drip.database.connection() as session, session.transaction():
        return [row["lane"] for row in await walking.take_batch(session, 50, ANY_WAKE)]


async def test_a_batch_with_an_urgent_run_has_a_small_part_of_the_wave(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    await drip.enrolled(*(f"c{number}" for number in range(CONTACTS)))
    assert await _taken(drip) == [2] * 50
    await drip.stage.put(_urgent(0))
    run = await drip.stage.trigger()
    assert (await drip.stage.run(run))["lane"] == 0
    assert sorted(await _taken(drip)) == [0] + [2] * 7


async def test_a_wave_of_results_takes_a_small_part_as_well(drip: Sequences) -> None:
    await drip.publish(sms(1, 0))
    await drip.enrolled(*(f"c{number}" for number in range(CONTACTS)))
    await drip.stage.walk_on()
    await drip.stage.put(_urgent(None))
    run = await drip.stage.trigger()
    await drip.stage.walk_on()
    await drip.stage.end()
    assert sorted(await _taken(drip)) == [1] + [2] * 7
    await drip.stage.walk_on()
    assert (await drip.stage.run(run))["status"] == "completed"
    assert await drip.stage.count("wakes") == 0
