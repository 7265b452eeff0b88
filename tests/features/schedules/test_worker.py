"""The ticker on a real database: each tick has one run, whoever dies, and however many tickers there are."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from dispatcher.base import fault_points
from dispatcher.base.fault_points import FaultPointError
from dispatcher.base.metrics import Metrics
from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Database as Settings
from dispatcher.config.settings import Walk
from dispatcher.db.database import Database
from dispatcher.features.schedules import store as schedules
from dispatcher.features.schedules.store import Definition
from dispatcher.features.schedules.worker import MISSED_COUNTED_MAX, Ticker
from tests.features.runs.plans import idle, put_plan
from tests.support.scene import Connection
from tests.support.waits import until

HERE = Workspace()
HOUR = timedelta(hours=1)


class Clockwork:
    """Schedules, tickers on pools of their own, and what they have triggered."""

    def __init__(self, url: str, connection: Connection) -> None:
        self.url = url
        self.connection = connection
        self.databases: list[Database] = []
        self.triggered = 0

    async def ticker(self) -> Ticker:
        """Another ticker, as another replica has it."""
        database = Database(Settings(), self.url)
        await database.open()
        self.databases.append(database)
        return Ticker(database, Walk(), Metrics(), self._note)

    def _note(self) -> None:
        self.triggered += 1

    async def put(self, name: str = "weekly", cron: str = "@hourly", due: int | None = 0, **more: Any) -> datetime:
        """A schedule whose next tick was so many hours ago; answers when that was."""
        await schedules.put(
            self.databases[0], HERE, Definition(name, more.pop("workflow", "report"), cron, **more), "ann"
        )
        at = await self.connection.fetchval("SELECT date_trunc('hour', now())") - HOUR * (due or 0)
        if due is not None:
            await self.connection.execute("UPDATE dispatcher.schedules SET next_at = $2 WHERE name = $1", name, at)
        return at  # type: ignore[no-any-return]  # a timestamptz

    async def row(self, name: str = "weekly") -> Any:
        """The schedule."""
        return await self.connection.fetchrow("SELECT * FROM dispatcher.schedules WHERE name = $1", name)

    async def runs(self) -> Sequence[Any]:
        """The triggered runs."""
        query = (
            "SELECT id, idempotency_key, triggered_by, input->>'scheduled_for' AS at FROM dispatcher.runs ORDER BY id"
        )
        return await self.connection.fetch(query)


@pytest.fixture
async def clockwork(url: str, connection: Connection) -> AsyncIterator[Clockwork]:
    """A workflow that is active, and a pool."""
    await put_plan(connection, idle())
    clockwork = Clockwork(url, connection)
    await clockwork.ticker()
    yield clockwork
    fault_points.ARMED.clear()
    for database in clockwork.databases:
        await database.close()


def _text(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


async def test_due_schedules_trigger_and_advance(clockwork: Clockwork) -> None:
    ticker = await clockwork.ticker()
    at = await clockwork.put()
    await clockwork.put("later", due=None)
    (ticked,) = await ticker.run_once()
    (run,) = await clockwork.runs()
    assert (ticked.run_id, ticked.refusal, ticked.tick.missed) == (run["id"], None, 0)
    assert run["idempotency_key"] == f"schedule:weekly:{_text(at)}"
    assert (run["triggered_by"], run["at"]) == ("schedule:weekly", _text(at))
    row = await clockwork.row()
    assert (row["last_tick"], row["last_run"], row["next_at"]) == (at, run["id"], at + HOUR)
    assert clockwork.triggered == 1
    assert await ticker.run_once() == []


async def test_an_input_may_have_a_scheduled_for_of_its_own(clockwork: Clockwork) -> None:
    await clockwork.put(input='{"scheduled_for": "never", "more": 1}')
    await (await clockwork.ticker()).run_once()
    assert [run["at"] for run in await clockwork.runs()] == ["never"]


async def test_of_what_was_missed_the_latest_runs_and_the_rest_is_counted(clockwork: Clockwork) -> None:
    ticker = await clockwork.ticker()
    first = await clockwork.put(due=7)
    with capture_logs() as logs:
        await ticker.run_once()
    assert [run["at"] for run in await clockwork.runs()] == [_text(first + 7 * HOUR)]
    row = await clockwork.row()
    assert (row["missed"], row["next_at"]) == (7, first + 8 * HOUR)
    assert [(log["ticks"], log["schedule"]) for log in logs if log["event"] == "schedule.missed"] == [(7, "weekly")]
    assert await ticker.run_once() == []


async def test_years_of_minutes_are_made_up_for_by_one_run(clockwork: Clockwork) -> None:
    await clockwork.put(cron="* * * * *", due=20_000)
    (ticked,) = await (await clockwork.ticker()).run_once()
    assert ticked.tick.missed == MISSED_COUNTED_MAX
    assert ticked.tick.due.now - ticked.tick.at < timedelta(minutes=1)
    assert len(await clockwork.runs()) == 1


async def test_two_tickers_at_once_have_one_run_a_tick(clockwork: Clockwork) -> None:
    names = [f"schedule-{number}" for number in range(30)]
    for name in names:
        await clockwork.put(name)
    tickers = [await clockwork.ticker(), await clockwork.ticker(), await clockwork.ticker()]
    for _ in range(5):
        await clockwork.connection.execute("UPDATE dispatcher.schedules SET next_at = next_at - interval '1 hour'")
        await asyncio.gather(*(ticker.run_once() for ticker in tickers for _ in range(3)))
    keys = [run["idempotency_key"] for run in await clockwork.runs()]
    assert len(keys) == len(set(keys)) == len(names)
    assert await clockwork.connection.fetchval("SELECT count(*) FROM dispatcher.schedules WHERE next_at < now()") == 0


async def test_a_schedule_that_another_one_has_locked_is_left_to_it(clockwork: Clockwork, url: str) -> None:
    await clockwork.put("taken")
    await clockwork.put("free")
    other = await asyncpg.connect(url)
    try:
        transaction = other.transaction()
        await transaction.start()
        await other.execute("SELECT FROM dispatcher.schedules WHERE name = 'taken' FOR UPDATE")
        ticker = await clockwork.ticker()
        assert [one.tick.due.name for one in await ticker.run_once()] == ["free"]
        await transaction.rollback()
        assert [one.tick.due.name for one in await ticker.run_once()] == ["taken"]
    finally:
        await other.close()


async def test_a_crash_before_the_commit_neither_triggers_nor_moves_on(clockwork: Clockwork) -> None:
    ticker = await clockwork.ticker()
    at = await clockwork.put()
    fault_points.arm({"FAULT": "tick.before_commit:1:raise"})
    with pytest.raises(FaultPointError):
        await ticker.run_once()
    assert await clockwork.runs() == []
    assert (await clockwork.row())["next_at"] == at
    assert clockwork.triggered == 0
    await (await clockwork.ticker()).run_once()
    assert len(await clockwork.runs()) == 1


async def test_a_crash_after_the_commit_has_triggered_and_moved_on(clockwork: Clockwork) -> None:
    ticker = await clockwork.ticker()
    at = await clockwork.put()
    fault_points.arm({"FAULT": "tick.committed:1:raise"})
    with pytest.raises(FaultPointError):
        await ticker.run_once()
    assert await ticker.run_once() == []
    assert [run["at"] for run in await clockwork.runs()] == [_text(at)]


async def test_a_tick_that_has_a_run_has_no_other_one(clockwork: Clockwork) -> None:
    """The clock of a schedule is put back."""
    ticker = await clockwork.ticker()
    at = await clockwork.put()
    await ticker.run_once()
    await clockwork.connection.execute("UPDATE dispatcher.schedules SET next_at = $1", at)
    (ticked,) = await ticker.run_once()
    assert [run["id"] for run in await clockwork.runs()] == [ticked.run_id]


async def _deactivate(connection: Connection) -> None:
    await connection.execute("SELECT dispatcher.set_workflow_active('default', 'default', 'report', false, 'ann')")


async def _demand(connection: Connection) -> None:
    await put_plan(connection, idle("report", "customer"))


async def _remove(connection: Connection) -> None:
    await connection.execute("SELECT dispatcher.delete_workflow('default', 'default', 'report', 'ann')")


@pytest.mark.parametrize(
    ("change", "words"), [(_deactivate, "is not active"), (_demand, "customer"), (_remove, "there is no workflow")]
)
async def test_a_refusal_is_kept_and_the_next_tick_comes_all_the_same(
    clockwork: Clockwork, change: Any, words: str
) -> None:
    ticker = await clockwork.ticker()
    at = await clockwork.put()
    await put_plan(clockwork.connection, idle("other"))
    await clockwork.put("sound", workflow="other")
    await change(clockwork.connection)
    with capture_logs() as logs:
        await ticker.run_once()
    row = await clockwork.row()
    assert words in row["refusal"]
    assert (row["last_tick"], row["last_run"], row["next_at"]) == (at, None, at + HOUR)
    (refused,) = [log for log in logs if log["event"] == "schedule.refused"]
    assert words in refused["reason"]
    # It keeps no other one from its tick, and is forgotten when it is mended.
    assert [run["triggered_by"] for run in await clockwork.runs()] == ["schedule:sound"]
    await put_plan(clockwork.connection, idle())
    await clockwork.connection.execute("UPDATE dispatcher.schedules SET next_at = last_tick WHERE name = 'weekly'")
    await ticker.run_once()
    row = await clockwork.row()
    assert (row["refusal"], row["last_run"] is None) == (None, False)


async def test_an_unreadable_schedule_is_left_to_other_instances(clockwork: Clockwork) -> None:
    """A time zone that a newer version has brought."""
    ticker = await clockwork.ticker()
    await clockwork.put("new")
    await clockwork.put("old")
    await clockwork.connection.execute("UPDATE dispatcher.schedules SET time_zone = 'Mars/Base' WHERE name = 'new'")
    with capture_logs() as logs:
        assert [one.tick.due.name for one in await ticker.run_once()] == ["old"]
        assert await ticker.run_once() == []
    assert [log["schedule"] for log in logs if log["event"] == "schedule.unreadable"] == ["new"]
    # Put anew it can be read again.
    await clockwork.put("new", time_zone="Europe/Berlin")
    assert [one.tick.due.name for one in await ticker.run_once()] == ["new"]


async def test_an_inactive_schedule_does_not_tick_and_runs_the_latest_tick_when_activated(clockwork: Clockwork) -> None:
    ticker, database = await clockwork.ticker(), clockwork.databases[0]
    at = await clockwork.put(due=3)
    assert await schedules.deactivate(database, HERE, "weekly", "ann") == "done"
    assert await ticker.run_once() == []
    assert await schedules.activate(database, HERE, "weekly", "ann", skip_missed=False) == "done"
    (ticked,) = await ticker.run_once()
    assert (ticked.tick.at, ticked.tick.missed) == (at + 3 * HOUR, 3)


async def test_it_ticks_by_itself_and_sleeps_in_between(clockwork: Clockwork) -> None:
    ticker = await clockwork.ticker()
    running = asyncio.create_task(ticker.run())
    try:
        await clockwork.put()
        await until(clockwork.runs, "it has a run")
    finally:
        running.cancel()
        await asyncio.wait([running])
    assert len(await clockwork.runs()) == 1
