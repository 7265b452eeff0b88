"""The SQL functions of runs: their answers, and that an ended run sends nothing more."""

import asyncio

import asyncpg
import pytest

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Again, Failed, Held, Succeeded
from dispatcher.features.runs.walk import walking
from tests.support.flows import at_node, fail, ordered, put, stand, status, trigger
from tests.support.scene import RESEND, Connection, Scene
from tests.support.waits import until_blocked, until_waits

VERBS = ("cancel_run", "pause_run", "resume_run", "replay_run", "discard_run")


async def _do(connection: Connection, verb: str, run: int, *more: object) -> str:
    values = "".join(f", ${number}" for number in range(2, 2 + len(more)))
    return str(await connection.fetchval(f"SELECT dispatcher.{verb}($1{values})", run, *more))


@pytest.fixture
async def run(connection: Connection) -> int:
    """A run that waits for what its first node sends."""
    await put(connection)
    run = int((await trigger(connection))["execution_id"])
    await at_node(connection, run)
    return run


ANSWERS = {
    # What it is: what cancel, pause, resume, replay and discard answer.
    "running": ("cancelled", "done", "same", "running", "running"),
    "paused": ("cancelled", "same", "done", "paused", "paused"),
    "failed": ("failed", "failed", "failed", "replayed", "discarded"),
    "cancelled": ("cancelled", "cancelled", "cancelled", "cancelled", "cancelled"),
    "unknown": ("unknown",) * 5,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("what", ANSWERS)
async def test_a_verb_answers_what_it_found(connection: Connection, run: int, what: str, verb: str) -> None:
    match what:
        case "paused":
            await _do(connection, "pause_run", run)
        case "failed":
            await fail(connection, run)
        case "cancelled":
            await _do(connection, "cancel_run", run)
        case "unknown":
            run += 1
        case _:
            pass
    assert await _do(connection, verb, run) == ANSWERS[what][VERBS.index(verb)]


@pytest.mark.parametrize("verb", VERBS)
async def test_nulls_are_what_is_left_out(connection: Connection, run: int, verb: str) -> None:
    if verb in {"replay_run", "discard_run"}:
        await ordered(connection, run)
        await fail(connection, run)
    elif verb == "resume_run":
        await _do(connection, "pause_run", run)
    answer = await _do(connection, verb, run, None, None, None, None)
    assert (
        answer
        == ANSWERS["failed" if verb[0] == "d" or "replay" in verb else "paused" if "resume" in verb else "running"][
            VERBS.index(verb)
        ]
    )
    said = "SELECT error FROM dispatcher.run_entries WHERE run_id = $1 ORDER BY number DESC LIMIT 1"
    assert await connection.fetchval(said, run) == await connection.fetchval("SELECT session_user::text")
    assert await _do(connection, verb, run, "", "elsewhere") == "unknown"


async def test_WF_21_a_cancelled_run_sends_nothing_more(connection: Connection, scene: Scene, run: int) -> None:
    ids = await ordered(connection, run, 4)
    items = {item.id: item for item in await scene.claim(3)}
    marked = list(items)[:2]
    await scene.mark([items[one] for one in marked])
    assert await _do(connection, "cancel_run", run) == "cancelled"
    rest = [one for one in ids if one not in marked]
    assert await stand(connection, rest) == ["skipped", "skipped"]
    assert await stand(connection, marked) == ["sending", "sending"]
    # What was with its provider ends as it does, and is not tried again.
    await scene.flush((items[marked[0]], Again(0.0, "try later")), (items[marked[1]], Succeeded("m")))
    assert await stand(connection, marked) == ["skipped", "sent"]
    assert await connection.fetchval("SELECT error FROM dispatcher.delivery_state WHERE id = $1", marked[0]) == (
        "cancelled: its run was cancelled; try later"
    )
    await _is_sound(scene)


async def test_WF_21_an_unknown_attempt_of_a_cancelled_run_is_held(
    connection: Connection, scene: Scene, run: int
) -> None:
    ids = await ordered(connection, run, 2)
    items = await scene.claim(resend=RESEND)
    await scene.mark(items)
    await _do(connection, "cancel_run", run)
    await scene.flush((items[0], Again(0.0, "no answer", RESEND)))
    assert await stand(connection, ids) == ["held", "sending"]
    await scene.die()
    assert await stand(connection, ids) == ["held", "held"]
    # To be sent again is refused by holding it again; sent or failed is what it can be.
    await connection.execute("UPDATE dispatcher.delivery_state SET settle_after = NULL")
    await connection.execute("SELECT dispatcher.settle_held($1, 'requeue', 'ann', 'look')", ids[1])
    assert await stand(connection, ids) == ["held", "held"]
    await connection.execute("SELECT dispatcher.settle_held($1, 'sent', 'ann', 'look', 'm')", ids[1])
    assert await stand(connection, ids) == ["held", "sent"]
    await _is_sound(scene)


async def test_WF_21_a_retry_waits_for_a_cancellation_that_is_under_way(
    connection: Connection, scene: Scene, run: int, url: str
) -> None:
    (delivery,) = await ordered(connection, run)
    (item,) = await scene.claim()
    await scene.mark([item])
    watcher = await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        await _do(connection, "cancel_run", run)
        async with asyncio.TaskGroup() as group:
            group.create_task(scene.flush((item, Again(0.0, "try later"))))
            await until_blocked(watcher)
            await transaction.commit()
    finally:
        await watcher.close()
    assert await stand(connection, [delivery]) == ["skipped"]


async def test_reopening_a_delivery_is_deliberate(connection: Connection, scene: Scene, run: int) -> None:
    (delivery,) = await ordered(connection, run)
    await _do(connection, "cancel_run", run)
    await connection.execute("SELECT dispatcher.reopen_delivery($1, 'ann', 'all the same')", delivery)
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Again(0.0, "try later")))
    assert await stand(connection, [delivery]) == ["pending"]
    await _is_sound(scene)


async def test_WF_14_a_replay_sends_again_what_failed_and_nothing_that_was_sent(
    connection: Connection, scene: Scene, run: int
) -> None:
    sent, failed, skipped = await ordered(connection, run, 3)
    items = {item.id: item for item in await scene.claim(2)}
    await scene.mark(list(items.values()))
    await scene.flush((items[sent], Succeeded("m")), (items[failed], Failed("no such number")))
    await fail(connection, run)
    await connection.execute("SELECT dispatcher.cancel_deliveries_of($1, 'dispatcher', 'its run has failed')", run)
    assert await stand(connection, [sent, failed, skipped]) == ["sent", "failed", "skipped"]
    answers = [await _do(connection, "replay_run", run) for _ in range(2)]
    assert answers == ["replayed", "running"]
    assert await stand(connection, [sent, failed, skipped]) == ["sent", "pending", "pending"]
    assert await _standing(connection, run) == "sending"


async def test_WF_14_what_went_out_after_all_is_not_ordered_again(
    connection: Connection, scene: Scene, run: int
) -> None:
    """It had timed out while its provider had it: replayed, its node has succeeded."""
    await ordered(connection, run)
    (item,) = await scene.claim()
    await scene.mark([item])
    await fail(connection, run)
    await scene.flush((item, Succeeded("m")))
    assert await _do(connection, "replay_run", run) == "replayed"
    assert await _standing(connection, run) == "sending"


@pytest.mark.parametrize("standing", ["sending", "joining"])
async def test_a_replay_leaves_the_cursor_to_the_walk(connection: Connection, run: int, standing: str) -> None:
    await at_node(connection, run, standing=standing)
    await fail(connection, run)
    assert await _do(connection, "replay_run", run) == "replayed"
    assert await _standing(connection, run) == standing


async def test_two_replays_at_once_are_one(connection: Connection, run: int, url: str) -> None:
    await ordered(connection, run)
    await fail(connection, run)
    other, watcher = await asyncpg.connect(url), await asyncpg.connect(url)
    try:
        transaction = connection.transaction()
        await transaction.start()
        assert await _do(connection, "replay_run", run) == "replayed"
        async with asyncio.TaskGroup() as group:
            second = group.create_task(_do(other, "replay_run", run))
            await until_waits(watcher, other)
            await transaction.commit()
        assert second.result() == "running"
    finally:
        await other.close()
        await watcher.close()


async def test_runs_that_others_hold_keep_no_others_from_walking(
    connection: Connection, scene: Scene, url: str
) -> None:
    """A transaction that stays open over the runs that are due first, and over those with the most wakes."""
    await put(connection)
    runs = [(await trigger(connection))["execution_id"] for _ in range(6)]
    for woken in runs[3:]:
        await at_node(connection, woken)
    await connection.execute("INSERT INTO dispatcher.wakes SELECT $1 FROM generate_series(1, 10)", runs[3])
    await connection.execute("INSERT INTO dispatcher.wakes VALUES ($1), ($2), (-1)", runs[4], runs[5])
    # One that nobody walks, since it killed its walker and is paused.
    await connection.execute("UPDATE dispatcher.runs SET takes = 1, status = 'paused' WHERE id = $1", runs[4])
    holder = await asyncpg.connect(url)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute(
            "SELECT dispatcher.signal_run(id, 'x') FROM unnest($1::bigint[]) AS id", [*runs[:2], runs[3]]
        )
        async with scene.database.connection() as session, session.transaction():
            taken = await walking.take_batch(session, 1, 2**63 - 1)
        await transaction.rollback()
    finally:
        await holder.close()
    assert [row["id"] for row in taken] == [runs[2], runs[5]]


async def test_dead_runs_are_listed_until_they_are_discarded(connection: Connection, scene: Scene, run: int) -> None:
    await fail(connection, run)
    (alone,) = await scene.write()
    (item,) = await scene.claim()
    await scene.mark([item])
    await scene.flush((item, Failed("no such number")))
    listed = "SELECT kind, id, error FROM dispatcher.dead_letters ORDER BY kind"
    rows = [(row["kind"], row["id"]) for row in await connection.fetch(listed)]
    assert rows == [("delivery", alone), ("run", run)]
    assert await _do(connection, "discard_run", run) == "discarded"
    assert await _do(connection, "discard_run", run) == "same"
    assert await _do(connection, "discard_delivery", alone) == "discarded"
    assert await _do(connection, "discard_delivery", alone) == "same"
    assert await connection.fetch(listed) == []
    assert await status(connection, run) == "failed"


async def test_OB_22_what_is_held_keeps_its_run_open_and_is_counted(
    connection: Connection, scene: Scene, run: int
) -> None:
    await ordered(connection, run, 3)
    items = await scene.claim(2)
    await scene.mark(items)
    await scene.flush((items[0], Held("unknown: x")), (items[1], Succeeded("m")))
    row = await connection.fetchrow("SELECT * FROM dispatcher.run_deliveries WHERE run_id = $1", run)
    assert row is not None
    assert {name: row[name] for name in ("deliveries", "queued", "held", "sent", "failed", "skipped")} == {
        "deliveries": 3,
        "queued": 1,
        "held": 1,
        "sent": 1,
        "failed": 0,
        "skipped": 0,
    }
    assert row["held_since"] is not None
    assert await status(connection, run) == "running"


async def test_the_older_view_shows_paused_runs_as_running(connection: Connection, run: int) -> None:
    await _do(connection, "pause_run", run)
    row = await connection.fetchrow("SELECT * FROM dispatcher.workflow_executions WHERE id = $1", run)
    assert row is not None
    assert (row["workflow_name"], row["workflow_version"], row["status"]) == ("welcome", 1, "running")
    assert (row["current_step"], row["total_steps"]) == (0, 2)


async def _standing(connection: Connection, run: int) -> str:
    state = "SELECT state -> 'cursor' -> 'mail' ->> 'standing' FROM dispatcher.runs WHERE id = $1"
    return str(await connection.fetchval(state, run))


async def _is_sound(scene: Scene) -> None:
    found = [await checks.check(scene.database, one) for one in checks.invariants()]
    assert [one for one in found if one is not None] == []
