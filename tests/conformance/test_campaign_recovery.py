"""CA-05, OB-14 and the contract's recovery scenarios: wherever a process dies or stands still, each item ends once."""

import signal
from collections.abc import AsyncIterator

import asyncpg
import psutil
import pytest

from dispatcher.base.fault_points import POINTS
from dispatcher.db.health import checks
from tests.conformance.campaigns import SETTINGS, Live, looking
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.waits import until, until_blocked

QUICK = SETTINGS | {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_CAMPAIGNS__LOCK_SECONDS": "0.5",
    "DISPATCHER_CHANNELS__SMS__CALL_SECONDS_MAX": "1",
}
EXPANDING = tuple(point for point in POINTS if point.startswith("expand."))
SENDING = ("mark.written", "call.ended", "flush.asked", "flush.written")
ITEMS, JOB_SIZE = 12, 4
DEPLOY = "SELECT run_id FROM dispatcher.deploy_campaign($1, NULL, 'launch')"


class Case:
    """A look at the database, the program that dies, and the one that comes after it."""

    def __init__(self, live: Live, first: Program, second: Program) -> None:
        self.live, self.first, self.second = live, first, second
        first.environment = second.environment = dict(QUICK)

    async def dies_at(self, point: str, count: int = 1) -> None:
        """The first program meets its fault."""
        await self.first.launch(FAULT=f"{point}:{count}:kill9")
        assert await self.first.ended(20) == -signal.SIGKILL, self.first.lines()[-5:]

    async def stands_still_at(self, point: str) -> None:
        """The first program is stopped there, and answers nothing."""
        await self.first.launch(FAULT=f"{point}:1:stop")
        assert self.first.process is not None
        stopped = psutil.Process(self.first.process.pid)
        await until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it stands still")

    async def settled(self, run_id: int) -> int:
        """Settle what is held by what the provider was given, as the contract has it; answers how many it were."""
        done = 0
        written = await self.live.written_to(run_id)
        for one in await self.live.ids(run_id):
            settle_as = "sent" if one in written else "requeue"

            async def settled(one: int = one, settle_as: str = settle_as) -> str:
                settle = "SELECT dispatcher.settle_held($1, $2, 'ann', 'looked it up')"
                said = str(await self.live.value(settle, one, settle_as))
                return "" if said == "early" else said

            done += await until(settled, "its call is over") == "settled"
        return done

    async def stands(self, run_id: int) -> int:
        """Wait until nothing moves any more: each item has ended or is held; answers how many are held."""

        async def there() -> bool:
            run = await self.live.run(run_id)
            ended = run["sent"] + run["failed"] + run["skipped"]
            return bool(ended + run["held"] == run["intended"])

        await until(there, "each item has ended or is held")
        return int((await self.live.run(run_id))["held"])

    async def completed(self, run_id: int) -> None:
        """Wait for the end; nothing is lost, nothing is doubled, nothing contradicts itself."""
        assert await self.live.ended(run_id) == "completed"
        assert sorted((await self.live.written_to(run_id)).values()) == [1] * ITEMS
        assert [job["status"] for job in await self.live.jobs(run_id)] == ["completed"] * (ITEMS // JOB_SIZE)
        found = [await checks.check(self.live.database, name) for name in checks.invariants()]
        assert [one for one in found if one is not None] == []


@pytest.fixture
async def case(url: str, program: Program) -> AsyncIterator[Case]:
    """A template and two programs; nothing has happened yet."""
    second = Program(url)
    try:
        async with looking(url) as live:
            yield Case(live, program, second)
    finally:
        second.end()


# Death


@pytest.mark.parametrize("point", EXPANDING)
async def test_CA_05_death_in_an_expansion_loses_and_doubles_nothing(case: Case, point: str) -> None:
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.dies_at(point)
    written = await case.live.ids(run_id)
    assert len(written) == (JOB_SIZE if point == "expand.committed" else 0)
    await case.second.start()
    await case.completed(run_id)
    attempts = [job["attempts"] for job in await case.live.jobs(run_id)]
    # What was committed is not expanded again; what was not is, and that is another attempt.
    assert attempts == ([1, 1, 1] if point == "expand.committed" else [2, 1, 1])
    assert set(written) <= set(await case.live.ids(run_id))


@pytest.mark.parametrize("point", SENDING)
async def test_OB_14_death_while_a_job_is_sent_loses_and_doubles_nothing(case: Case, point: str) -> None:
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.dies_at(point)
    await case.second.start()
    held = await case.stands(run_id)
    if held:
        # What may have gone out is nobody's to send again: the run waits for somebody, and says for how many.
        assert (await case.live.run(run_id))["status"] == "running"
        assert await case.settled(run_id) == held
    await case.completed(run_id)
    # One that it had locked and not expanded when it died was locked again.
    assert [job["attempts"] for job in await case.live.jobs(run_id)] in ([1, 1, 1], [1, 2, 1], [1, 1, 2])


async def test_CA_05_a_job_whose_workers_die_three_times_is_dead_and_keeps_no_other(case: Case) -> None:
    run_id = await case.live.deployed(JOB_SIZE)
    for _ in range(3):
        await case.dies_at("expand.before_commit")
        await case.live.database.fetch("UPDATE dispatcher.job_queue SET locked_at = now() - interval '1 h'")
    other = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.second.start()
    assert await case.live.ended(run_id) == "failed"
    assert await case.live.items(run_id) == {"failed: job dead: its worker died": JOB_SIZE}
    (job,) = await case.live.jobs(run_id)
    assert (job["status"], job["attempts"]) == ("dead", 3)
    await case.completed(other)


async def test_death_in_the_middle_of_closing_loses_no_result(case: Case, connection: Connection) -> None:
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.live.database.fetch("UPDATE dispatcher.campaign_runs SET paused_at = now()")
    await case.first.start()
    transaction = connection.transaction()
    await transaction.start()
    # The closer has counted, and waits to write down what it has found.
    await connection.execute("LOCK TABLE dispatcher.campaign_run_reasons IN ACCESS EXCLUSIVE MODE")
    await case.live.database.fetch("UPDATE dispatcher.campaign_runs SET paused_at = NULL")
    await until_blocked(connection)
    blocked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%close_jobs%'"
    pid = await until(lambda: connection.fetchval(blocked), "it is the closer that waits")
    await case.first.kill()
    await connection.execute("SELECT pg_terminate_backend($1)", pid)
    await transaction.rollback()
    await case.second.start()
    await case.stands(run_id)
    await case.settled(run_id)
    await case.completed(run_id)


async def test_the_death_of_a_caller_in_its_deployment_leaves_nothing(case: Case, url: str) -> None:
    await case.second.start()
    name = await case.live.campaign((await case.live.people(ITEMS))[0])
    caller = await asyncpg.connect(url)
    await caller.execute("BEGIN")
    assert await caller.fetchval(DEPLOY, name) is not None
    await case.live.database.fetch("SELECT pg_terminate_backend($1, 5000)", caller.get_server_pid())
    for table in ("campaign_runs", "job_queue", "campaign_events", "deliveries"):
        assert await case.live.value(f"SELECT count(*) FROM dispatcher.{table}") == 0
    # Its key is free.
    run_id = int(await case.live.value(DEPLOY, name))
    assert await case.live.ended(run_id) == "completed"
    assert len(await case.live.written_to(run_id)) == ITEMS


# Standing still


async def test_OB_14_a_job_of_a_worker_that_stands_still_is_anothers(case: Case) -> None:
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.stands_still_at("expand.locked")
    await case.second.start()
    await case.completed(run_id)
    assert [job["attempts"] for job in await case.live.jobs(run_id)] == [2, 1, 1]
    case.first.signal(signal.SIGCONT)
    # It is a stranger now, and notices that before it writes anything.
    await until(lambda: len(case.first.events("pipeline.started")) > 1, "it begins anew")
    assert len(await case.live.ids(run_id)) == ITEMS
    assert await case.live.unsound(run_id) == []


async def test_an_expansion_that_stands_still_keeps_no_other_run_waiting(case: Case) -> None:
    """Its transaction is open, with the run and the job locked."""
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.stands_still_at("expand.before_commit")
    await case.second.start()
    other = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.completed(other)
    assert await case.live.ids(run_id) == []
    case.first.signal(signal.SIGCONT)
    await case.stands(run_id)
    await case.settled(run_id)
    await case.completed(run_id)


# An orderly end


async def test_an_orderly_end_frees_what_is_locked(case: Case) -> None:
    run_id = await case.live.deployed(ITEMS, JOB_SIZE)
    await case.stands_still_at("expand.locked")
    case.first.signal(signal.SIGTERM)
    case.first.signal(signal.SIGCONT)
    assert await case.first.ended(20) == 0
    jobs = await case.live.jobs(run_id)
    assert {job["status"] for job in jobs if job["expanded_at"] is None} <= {"queued"}
    assert sum(job["attempts"] for job in jobs) == sum(job["expanded_at"] is not None for job in jobs)
    await case.second.start()
    await case.completed(run_id)


# Poison


async def test_a_job_that_cannot_be_expanded_stops_neither_others_nor_the_process(case: Case) -> None:
    status, ids = await case.live.people(2)
    async with case.live.database.session() as session:
        await session.execute(
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$"
        )
        await session.execute(
            f"""CREATE TRIGGER no BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW
                WHEN (NEW.contact_id = {ids[0]} AND NEW.ended IS NULL) EXECUTE FUNCTION no()"""
        )
    poisoned = await case.live.deploy(status)
    await case.second.start()
    others = [await case.live.deployed(ITEMS, JOB_SIZE) for _ in range(2)]
    for run_id in others:
        await case.completed(run_id)

    async def tried_again() -> bool:
        await case.live.database.fetch("UPDATE dispatcher.job_queue SET available_at = now() WHERE status = 'queued'")
        return (await case.live.run(poisoned))["finished_at"] is not None

    await until(tried_again, "it is given up")
    assert await case.live.statuses(poisoned) == ("failed", ["dead"])
    assert all("job dead: expansion:" in reason for reason in await case.live.items(poisoned))
    assert case.second.metric("dispatcher_restarts_total") == 0
    assert case.second.metric("dispatcher_campaign_jobs_total", result="dead") == 1


# Replicas


async def test_CA_04_two_replicas_expand_a_run_without_doubling(case: Case) -> None:
    await case.first.start()
    await case.second.start()
    run_id = await case.live.deployed(600, 20)
    assert await case.live.ended(run_id) == "completed"
    assert sorted((await case.live.written_to(run_id)).values()) == [1] * 600
    assert [job["attempts"] for job in await case.live.jobs(run_id)] == [1] * 30
    expanded = [one.metric("dispatcher_campaign_jobs_total", result="expanded") for one in (case.first, case.second)]
    assert sum(expanded) == 30
    assert await case.live.value("SELECT count(*) FROM dispatcher.campaign_events WHERE event = 'repair'") == 0
