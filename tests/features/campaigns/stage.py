"""A stage for campaigns: a template, contacts and runs, expanded, sent and closed step by step as the test says."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed, Lane, Outcome, Resend, Succeeded
from tests.features.templates.support import draft, save
from tests.support.scene import HOLD, Connection, Scene

HERE = Workspace()
AHEAD = 20_000
TEMPLATE = "news"
ACCEPTED = Succeeded("provider-1")

CANCEL = "SELECT dispatcher.cancel_campaign_run($1, 'enough')"
PAUSE = "SELECT dispatcher.pause_campaign_run($1, 'wait')"
RESUME = "SELECT dispatcher.resume_campaign_run($1)"
RATE = "SELECT dispatcher.set_campaign_rate($1, $2)"
REPLAY = "SELECT replayed FROM dispatcher.replay_campaign_run($1, 0, 1000, 'once more')"
SETTLE = "SELECT count(dispatcher.settle_held(id, $2, 'ann', '')) FROM unnest($1::bigint[]) AS id"
SETTLE_NOW = "UPDATE dispatcher.delivery_state SET settle_after = NULL WHERE settle_after IS NOT NULL"

_numbers = count(1)

_PEOPLE = """
WITH made AS (
    INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, name, status, updated_by, attributes)
    SELECT $3, $4, $1 || '-' || n, 'Ann ' || n, $1, 'ann', jsonb_build_object('plan', 'pro')
      FROM generate_series(1, $2::int) AS n RETURNING id
), reached AS (
    INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
    SELECT m.id, 1, $3, $4, 'phone', a.text, a.text
      FROM made m, LATERAL (SELECT '+49170' || lpad(m.id::text, 8, '0') AS text) AS a
)
SELECT id FROM made ORDER BY id
"""
_CAMPAIGN = """
INSERT INTO dispatcher.campaigns
       (tenant_id, workspace_id, updated_by, name, channel, template_name, audience, rate, topic)
VALUES ('default', 'default', 'ann', $1, $2, $3, jsonb_build_object('status', $4::text), $5, $6)
"""
# Jobs as deploy_campaign makes them, but smaller.
_SPLIT = """
WITH old AS (
    DELETE FROM dispatcher.job_queue WHERE run_id = $1 RETURNING *
), made AS (
    INSERT INTO dispatcher.job_queue (run_id, tenant_id, workspace_id, job_type, intended, contact_ids)
    SELECT o.run_id, o.tenant_id, o.workspace_id, o.job_type, cardinality(s.ids), s.ids
      FROM old o, LATERAL (SELECT o.contact_ids[n:n + $2 - 1] AS ids
                             FROM generate_series(1, cardinality(o.contact_ids), $2) AS n) AS s
    RETURNING id
)
UPDATE dispatcher.campaign_runs SET jobs = (SELECT count(*) FROM made) WHERE id = $1
"""
# What counters say, beside what the rows say: of jobs, and of runs.
_BOOKS = """
WITH rows AS (
    SELECT j.id AS job_id, j.run_id, dispatcher.result_class(s.status, s.held, s.error) AS class
      FROM dispatcher.job_queue j JOIN dispatcher.delivery_state s ON s.job_id = j.id
), jobs AS (
    SELECT j.id, j.run_id, ARRAY[j.sent, j.failed, j.skipped, j.cancelled, j.expired, j.held]::bigint[] AS says,
           ARRAY(SELECT count(r.job_id) FROM unnest('{sent,failed,skipped,cancelled,expired,held}'::text[])
                   WITH ORDINALITY AS c (class, place) LEFT JOIN rows r ON r.class = c.class AND r.job_id = j.id
                  GROUP BY c.place ORDER BY c.place) AS has
      FROM dispatcher.job_queue j
), runs AS (
    SELECT r.id, ARRAY[r.sent, r.failed, r.skipped, r.cancelled, r.expired, r.held] AS says,
           ARRAY(SELECT count(w.job_id) FROM unnest('{sent,failed,skipped,cancelled,expired,held}'::text[])
                   WITH ORDINALITY AS c (class, place) LEFT JOIN rows w ON w.class = c.class AND w.run_id = r.id
                  GROUP BY c.place ORDER BY c.place) AS has
      FROM dispatcher.campaign_runs r
)
SELECT 'job ' || id AS what, says, has FROM jobs WHERE says <> has
UNION ALL
SELECT 'run ' || id, says, has FROM runs WHERE says <> has
UNION ALL
SELECT 'jobs of run ' || r.id, ARRAY[r.jobs_completed, r.jobs_partial, r.jobs_failed, r.jobs_dead], c.has
  FROM dispatcher.campaign_runs r,
       LATERAL (SELECT ARRAY[count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'partial'),
                             count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'dead')] AS has
                  FROM dispatcher.job_queue q WHERE q.run_id = r.id) AS c
 WHERE ARRAY[r.jobs_completed, r.jobs_partial, r.jobs_failed, r.jobs_dead]::bigint[] <> c.has
UNION ALL
SELECT 'reasons of run ' || r.id, ARRAY[r.failed + r.skipped + r.cancelled + r.expired], ARRAY[c.has]
  FROM dispatcher.campaign_runs r,
       LATERAL (SELECT coalesce(sum(n.count), 0)::bigint AS has
                  FROM dispatcher.campaign_run_reasons n WHERE n.run_id = r.id) AS c
 WHERE r.failed + r.skipped + r.cancelled + r.expired <> c.has
"""


# The sweep is to look at it again.
_FORGET = """
UPDATE dispatcher.campaign_runs SET finished_at = finished_at - interval '1 minute', checked_at = NULL
 WHERE finished_at IS NOT NULL
"""


async def wrong_books(database: Database) -> list[str]:
    """Return where counters of jobs and runs differ from the rows, once all results are counted."""
    rows = await database.fetch(_BOOKS)
    return [f"{row['what']}: {row['says']} in the counters, {row['has']} in the rows" for row in rows]


@asynccontextmanager
async def open_transaction(connection: Connection, query: str, *arguments: object) -> AsyncIterator[None]:
    """A statement in a transaction that is committed at the end of the block."""
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(query, *arguments)
    yield
    await transaction.commit()


class Stage:
    """One database with an expander's epoch; the verbs of campaigns in short."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.database = scene.database

    @classmethod
    async def open(cls, database: Database, body: str = "Hello {{ contact.name }}") -> "Stage":
        """A stage with a template."""
        stage = cls(await Scene.open(database))
        await save(database, draft(TEMPLATE, body=body))
        return stage

    # What there is to send

    async def people(self, number: int, status: str = "", place: Workspace = HERE) -> tuple[str, list[int]]:
        """So many contacts with a phone, who share a status of their own; answers it and their ids."""
        status = status or f"people-{next(_numbers)}"
        rows = await self.database.fetch(_PEOPLE, status, number, place.tenant_id, place.workspace_id)
        return status, [row["id"] for row in rows]

    async def campaign(
        self,
        status: str,
        *,
        channel: str = "sms",
        template: str = TEMPLATE,
        rate: float | None = None,
        topic: str | None = None,
    ) -> str:
        """A campaign to whoever has a status; answers its name."""
        name = f"campaign-{next(_numbers)}"
        await self.database.fetch(_CAMPAIGN, name, channel, template, status, rate, topic)
        return name

    async def deploy(self, status: str, job_size: int = 0, **campaign: Any) -> int:
        """Deploy a campaign to whoever has a status, in jobs of a size; answers the run."""
        name = await self.campaign(status, **campaign)
        async with self.database.transaction() as connection:
            run_id = await connection.fetchval("SELECT run_id FROM dispatcher.deploy_campaign($1)", name)
            if job_size:
                await connection.execute(_SPLIT, run_id, job_size)
        return int(run_id)

    async def deployed(self, number: int, job_size: int = 0, **campaign: Any) -> int:
        """Deploy a campaign to so many contacts; answers the run."""
        return await self.deploy((await self.people(number))[0], job_size, **campaign)

    async def expanded(self, number: int, job_size: int = 0, **campaign: Any) -> int:
        """A run whose deliveries are written."""
        run_id = await self.deployed(number, job_size, **campaign)
        await self.expand_all()
        return run_id

    # The worker's verbs

    async def lock(self, ahead: int = AHEAD) -> int | None:
        """Lock a job; answers it."""
        found = await self.value("SELECT dispatcher.lock_job($1, $2)", self.scene.epoch, ahead)
        return None if found is None else int(found)

    async def expand(self, job_id: int) -> int | None:
        """Write the deliveries of a job that is locked."""
        found = await self.value("SELECT dispatcher.expand_job($1, $2)", job_id, self.scene.epoch)
        return None if found is None else int(found)

    async def expand_all(self, ahead: int = AHEAD) -> int:
        """Expand until there is nothing left, or no room; answers how many jobs it were."""
        jobs = 0
        while (job_id := await self.lock(ahead)) is not None:
            assert await self.expand(job_id) is not None
            jobs += 1
        return jobs

    async def close(self) -> None:
        """Count all results that there are."""
        while await self.value("SELECT dispatcher.close_jobs(200)"):
            pass

    async def skip_cancelled(self) -> int:
        """Skip what is left of cancelled runs."""
        total = 0
        while skipped := int(await self.value("SELECT dispatcher.skip_cancelled(1000)")):
            total += skipped
        return total

    async def space(self) -> None:
        """Let the moment pass after which a rate that was changed holds for what is written."""
        await self.database.fetch("UPDATE dispatcher.campaign_runs SET respace_at = now() WHERE respace_at IS NOT NULL")
        assert await self.value("SELECT dispatcher.space_campaigns()") == 1

    async def take_back(self) -> tuple[int, int]:
        """Take back the jobs of the dead; answers how many are queued again, and how many are dead."""
        (row,) = await self.database.fetch("SELECT * FROM dispatcher.take_back_jobs($1, 0, 100)", self.scene.epoch)
        return row["queued"], row["dead"]

    # The engine's verbs

    async def claim(self, wanted: int = 10_000, resend: Resend = HOLD) -> list[Claimed]:
        """Claim what is due of campaigns."""
        return await self.scene.claim(wanted, lane=Lane.BULK, resend=resend)

    async def marked(self, wanted: int = 10_000, resend: Resend = HOLD) -> list[Claimed]:
        """Claim and mark what is due."""
        items = await self.claim(wanted, resend)
        marked = await self.scene.mark(items)
        return [item for item in items if item.id in marked]

    async def end(self, items: Sequence[Claimed], outcome: Outcome = ACCEPTED) -> None:
        """Write the same result for each."""
        await self.scene.flush(*((item, outcome) for item in items))

    async def send(self, outcome: Outcome = ACCEPTED, wanted: int = 10_000) -> int:
        """Let what is due end in the same way; answers how many it were."""
        items = await self.marked(wanted)
        await self.end(items, outcome)
        return len(items)

    async def die(self) -> None:
        """Fence the epoch and recover what it had, as others do with one that fell silent; then another begins."""
        await self.scene.die()
        self.scene = await Scene.open(self.database)

    # What there is to see

    async def value(self, query: str, *arguments: object) -> Any:
        """The first column of the first row."""
        return await self.database.value(query, *arguments)

    async def run(self, run_id: int) -> Any:
        """The run's row."""
        (row,) = await self.database.fetch("SELECT * FROM dispatcher.campaign_runs WHERE id = $1", run_id)
        return row

    async def jobs(self, run_id: int) -> list[Any]:
        """The rows of its jobs."""
        return list(
            await self.database.fetch("SELECT * FROM dispatcher.job_queue WHERE run_id = $1 ORDER BY id", run_id)
        )

    async def statuses(self, run_id: int) -> tuple[str, list[str]]:
        """The status of a run, and those of its jobs."""
        return (await self.run(run_id))["status"], [job["status"] for job in await self.jobs(run_id)]

    async def items(self, run_id: int) -> Counter[str]:
        """How many deliveries of a run have which status and reason."""
        rows = await self.database.fetch(
            """SELECT status || coalesce(': ' || error, '') AS what FROM dispatcher.delivery_state
                WHERE job_id IN (SELECT id FROM dispatcher.job_queue WHERE run_id = $1)""",
            run_id,
        )
        return Counter(row["what"] for row in rows)

    async def ids(self, run_id: int) -> list[int]:
        """Its deliveries."""
        query = "SELECT id FROM dispatcher.deliveries WHERE run_id = $1 AND job_id IS NOT NULL ORDER BY id"
        rows = await self.database.fetch(query, run_id)
        return [row["id"] for row in rows]

    async def transitions(self, run_id: int, *, of_jobs: bool = False) -> list[tuple[str | None, str | None]]:
        """The transitions of a run, or of its jobs, in order."""
        rows = await self.database.fetch(
            """SELECT status_before, status FROM dispatcher.campaign_events
                WHERE run_id = $1 AND event = 'status' AND (job_id IS NOT NULL) = $2 ORDER BY id""",
            run_id,
            of_jobs,
        )
        return [(row["status_before"], row["status"]) for row in rows]

    async def sound(self) -> None:
        """See that the counters are what the rows are, and that the sweep has nothing to repair."""
        await self.close()
        assert await wrong_books(self.database) == []
        assert await self.sweep() == 0

    async def sweep(self) -> int:
        """Let the sweep look at all runs that have ended; answers how many jobs it found wrong."""
        await self.database.fetch(_FORGET)
        wrong = 0
        while (found := await self.value("SELECT dispatcher.check_campaign_counters()")) is not None:
            wrong += found
        return wrong
