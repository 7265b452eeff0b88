"""Campaigns as an application sees them: deployments, and what the program has made of them."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from tests.conformance.outbox import QUICK
from tests.features.campaigns.stage import Stage, wrong_books
from tests.features.templates.support import draft, save
from tests.support.program import Program
from tests.support.scene import Scene
from tests.support.waits import until

ENDS = ("completed", "partial", "failed")
# What a contact's delivery fails on in rendering: a number of zero.
DIVIDED = "{{ 10 | divided_by: contact.attributes.n }}"
SETTINGS = QUICK | {
    "DISPATCHER_CAMPAIGNS__POLL_SECONDS": "0.2",
    "DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.2",
    "DISPATCHER_CHANNELS__WHATSAPP__FAULTS__REFUSE": "1",
    "DISPATCHER_CHANNELS__PUSH__FAULTS__UNKNOWN": "1",
}


class Live(Stage):
    """Deploys, and looks at what a running program does. It has no epoch of its own."""

    async def template(self, name: str, channel: str | None = "sms", body: str = "Hello {{ contact.name }}") -> str:
        """A published template."""
        parts = {"subject": "News", "text": body} if channel == "email" else {"body": body}
        await save(self.database, draft(name, channel, locales={"default": parts}))
        return name

    async def until_status(self, run_id: int, *statuses: str) -> str:
        """Wait until a run is that."""

        async def there() -> str | None:
            status = str((await self.run(run_id))["status"])
            return status if status in statuses else None

        return str(await until(there, f"run {run_id} is {' or '.join(statuses)}"))

    async def ended(self, run_id: int) -> str:
        """Wait for the end of a run; each item has its row then, and the counters are right. Answers what it is."""
        status = await self.until_status(run_id, *ENDS)
        assert await self.unsound(run_id) == []
        return status

    async def until_counted(self, run_id: int, **counters: int) -> None:
        """Wait until a run says that of itself, or more."""

        async def there() -> bool:
            run = await self.run(run_id)
            return all(run[name] >= count for name, count in counters.items())

        await until(there, f"run {run_id} has {counters} at least")

    async def unsound(self, run_id: int) -> list[str]:
        """What the contract says of a run that has ended, and is not so: each item has one terminal row, by its key."""
        rows = await self.database.fetch(
            """SELECT i.contact_id, count(s.id) AS terminal, count(d.id) AS rows
                 FROM dispatcher.campaign_runs r JOIN dispatcher.job_queue q ON q.run_id = r.id
                CROSS JOIN LATERAL unnest(q.contact_ids) AS i (contact_id)
                 LEFT JOIN dispatcher.deliveries d
                   ON d.run_id = r.id AND d.job_id = q.id AND d.contact_id = i.contact_id
                      AND starts_with(d.idempotency_key, dispatcher.campaign_key(
                          r.id, i.contact_id::text, r.template_version, r.scheduled_for))
                 LEFT JOIN dispatcher.channel_outbox s ON s.id = d.id AND s.status <> 'queued'
                WHERE r.id = $1 AND NOT r.test
                GROUP BY q.id, i.contact_id HAVING (count(s.id), count(d.id)) <> (1, 1)""",
            run_id,
        )
        found = [f"contact {row['contact_id']}: {row['terminal']} of {row['rows']} terminal" for row in rows]
        return found + [one for one in await wrong_books(self.database) if one.endswith(f"run {run_id}")]

    async def written_to(self, run_id: int) -> Counter[int]:
        """How often the capture provider was given each delivery of a run."""
        rows = await self.database.fetch(
            """SELECT m.delivery_id
                 FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
                WHERE d.run_id = $1 AND d.job_id IS NOT NULL""",
            run_id,
        )
        return Counter(row["delivery_id"] for row in rows)

    async def reasons(self, run_id: int) -> dict[str, int]:
        """Why deliveries of a run have failed or were skipped."""
        query = "SELECT class, reason, count FROM dispatcher.campaign_run_reasons WHERE run_id = $1 AND count > 0"
        return {f"{row['class']}: {row['reason']}": row["count"] for row in await self.database.fetch(query, run_id)}

    async def event_rows(self, run_id: int) -> list[Any]:
        """The audit log of a run and its jobs, in order."""
        query = "SELECT * FROM dispatcher.campaign_audit_log WHERE run_id = $1 AND delivery_id IS NULL ORDER BY at"
        return list(await self.database.fetch(query, run_id))

    async def attributes(self, ids: Sequence[int], attributes: str) -> None:
        """Give contacts attributes."""
        change = "UPDATE dispatcher.contacts SET attributes = $2::jsonb WHERE id = ANY ($1)"
        await self.database.fetch(change, ids, attributes)


@asynccontextmanager
async def looking(url: str) -> AsyncIterator[Live]:
    """A look at a database."""
    database = Database(Settings(), url)
    await database.open()
    try:
        live = Live(Scene(database))
        await live.template("news")
        yield live
    finally:
        await database.close()


@asynccontextmanager
async def sending(url: str, **environment: str) -> AsyncIterator[tuple[Program, Live]]:
    """A program that sends, and a look at it."""
    program = Program(url, **SETTINGS | environment)
    try:
        await program.start()
        async with looking(url) as live:
            yield program, live
    finally:
        program.end()
