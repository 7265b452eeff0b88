"""A campaign on a test's database: contacts, a template, a deployment, and its jobs expanded and closed by hand."""

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from dispatcher.engine.rules.life import Claimed, Lane, Result, Succeeded
from tests.support.scene import Connection, Scene

_TEMPLATE = """SELECT dispatcher.put_templates(jsonb_build_array(jsonb_build_object(
    'tenant_id', $1::text, 'workspace_id', $2::text, 'name', 'offer', 'channel', 'sms', 'default_locale', 'en',
    'rights', '[]'::jsonb, 'variables', '["contact.name"]'::jsonb,
    'sources', '{"en": {"parts": {"body": "Hi {{ contact.name }}"}, "partials": {}}}'::jsonb)), true, 'ann')"""
_CONTACT = """SELECT contact_id FROM dispatcher.put_contact($1, $2, $3, $4::jsonb, 'upsert', NULL, 'ann')"""
_CAMPAIGN = """INSERT INTO dispatcher.campaigns
       (tenant_id, workspace_id, name, channel, template_name, audience, rate, updated_by)
VALUES ($1, $2, $3, 'sms', 'offer', $4::jsonb, $5, 'ann')"""
AHEAD_MAX = 20_000
ALL = 1_000_000


class Campaigns(Struct, frozen=True):
    """Campaigns of one workspace; contact N has the number +49170 and N in seven digits."""

    connection: Connection
    tenant_id: str = "default"
    workspace_id: str = "default"

    @property
    def place(self) -> tuple[str, str]:
        """The tenant and the workspace."""
        return self.tenant_id, self.workspace_id

    async def contact(self, number: int, **fields: Any) -> int:
        """Make a contact; return its id."""
        phone = phone_of(number)
        said = {"name": f"Contact {number}", "addresses": [{"kind": "phone", "address": phone, "written": phone}]}
        return int(await self.connection.fetchval(_CONTACT, *self.place, f"c{number}", json.dumps(said | fields)))

    async def make(
        self, contacts: int = 3, name: str = "spring", audience: dict[str, Any] | None = None, rate: float | None = None
    ) -> list[int]:
        """Make a campaign to this many contacts; return their ids."""
        await self.connection.execute(_TEMPLATE, *self.place)
        ids = [await self.contact(number) for number in range(contacts)]
        await self.connection.execute(_CAMPAIGN, *self.place, name, json.dumps(audience or {"all": True}), rate)
        return ids

    async def deploy(self, name: str = "spring", actor: str = "ann", **fields: Any) -> int:
        """Deploy a campaign; return the id of its run."""
        words = {"campaign": name, "actor": actor, "tenant_id": self.tenant_id, "workspace_id": self.workspace_id}
        given = words | fields
        named = ", ".join(f"{key} => ${place}" for place, key in enumerate(given, 1))
        statement = f"SELECT run_id FROM dispatcher.deploy_campaign({named})"
        return int(await self.connection.fetchval(statement, *given.values()))

    async def test(self, *recipients: str, name: str = "spring") -> int:
        """Send a campaign to addresses first; return the id of its run."""
        asked = "SELECT dispatcher.test_campaign($1, $2, $3, $4, 'ann')"
        return int(await self.connection.fetchval(asked, name, list(recipients), *self.place))

    async def deployed(self, contacts: int = 3, **fields: Any) -> int:
        """Make a campaign and deploy it; return the id of its run."""
        await self.make(contacts, **fields)
        return await self.deploy(fields.get("name", "spring"))


def phone_of(number: int) -> str:
    """The number of a contact of a campaign."""
    return f"+49170{number:07}"


async def lock(scene: Scene) -> int | None:
    """Lock a job of any run that has room."""
    found = await scene.value("SELECT dispatcher.lock_job($1, $2)", scene.epoch, AHEAD_MAX)
    return None if found is None else int(found)


async def expand(scene: Scene) -> list[int]:
    """Expand all jobs that can be; return their ids."""
    jobs: list[int] = []
    while (job := await lock(scene)) is not None:
        await scene.value("SELECT dispatcher.expand_job($1, $2)", job, scene.epoch)
        jobs.append(job)
    return jobs


async def close(scene: Scene) -> None:
    """Count and close all that can be."""
    while await scene.value("SELECT dispatcher.close_jobs(200)"):
        pass


async def marked(scene: Scene, wanted: int = 1_000) -> list[Claimed]:
    """Claim and mark deliveries of campaigns."""
    items = await scene.claim(wanted, lane=Lane.BULK)
    assert len(await scene.mark(items)) == len(items)
    return sorted(items, key=lambda item: item.id)


async def sent(scene: Scene, *results: Result) -> None:
    """Expand and send everything: as `results` says where it says something, the others go out; then close."""
    await expand(scene)
    said = {item.id for item, _ in results}
    others = [(item, Succeeded(f"m-{item.id}")) for item in await marked(scene) if item.id not in said]
    await scene.flush(*results, *others)
    await close(scene)


async def items(scene: Scene, run: int) -> list[Any]:
    """The deliveries of a run with their states, in the order of their ids."""
    rows: Sequence[Any] = await scene.database.fetch(
        """SELECT d.*, s.status, s.held, s.error
             FROM dispatcher.deliveries d JOIN dispatcher.delivery_state s USING (id)
            WHERE d.run_id = $1 AND d.job_id IS NOT NULL ORDER BY d.id""",
        run,
    )
    return list(rows)


async def run_row(scene: Scene, run: int) -> Any:
    """The row of a run."""
    return (await scene.database.fetch("SELECT * FROM dispatcher.campaign_runs WHERE id = $1", run))[0]
