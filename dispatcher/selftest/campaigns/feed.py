"""The feed of a campaign trial: contacts, and a campaign for each class of providers, paced by its rate."""

import json
from functools import partial

from dispatcher.db.database import Database
from dispatcher.selftest.feed import Feed
from dispatcher.selftest.plan import CLASSES, Plan

BATCH_MAX = 10_000
# A run lasts for so long for each disturbance, which finds it under way. Behind the last one it goes at full speed.
PACE_SECONDS = 1.5

_CONTACTS = """
WITH made AS (
    INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, tags, attributes, updated_by)
    SELECT 'default', 'default', 'contact-' || number, 'active', ARRAY[channels[1 + number % 2]],
           jsonb_build_object('number', number), 'selftest'
      FROM generate_series($1::int, $2::int) AS number, (SELECT $3::text[] AS channels) AS named
    ON CONFLICT ON CONSTRAINT contacts_key DO NOTHING RETURNING id, key
)
INSERT INTO dispatcher.contact_addresses (contact_id, position, tenant_id, workspace_id, kind, address, written)
SELECT id, 1, 'default', 'default', 'chat', 'recipient-' || key, 'recipient-' || key FROM made
"""
_CAMPAIGN = """
INSERT INTO dispatcher.campaigns (tenant_id, workspace_id, name, channel, template_name, audience, rate, updated_by)
SELECT 'default', 'default', name, name, name, jsonb_build_object('tags', ARRAY[name]), $2, 'selftest'
  FROM unnest($1::text[]) AS name
ON CONFLICT ON CONSTRAINT campaigns_name DO NOTHING
"""
_DEPLOY = """
SELECT d.run_id, d.intended
  FROM unnest($1::text[]) AS name, dispatcher.deploy_campaign(name, NULL, 'selftest ' || name) AS d
"""
_FULL_SPEED = "SELECT dispatcher.set_campaign_rate(id, NULL) FROM dispatcher.campaign_runs"


class CampaignFeed(Feed):
    """Deploys everything with the first write, and takes the rate away with the last. Each step may be done twice."""

    def __init__(self, database: Database, plan: Plan) -> None:
        super().__init__(database)
        self._plan = plan

    async def write(self, until: int) -> None:
        """Deploy the campaigns, where that is not done; let them go at full speed, where everything may be written."""
        if not self.written:
            await self._furnish()
            rows = await self._database.persist("feed", partial(self._database.fetch, _DEPLOY, list(CLASSES)))
            self.written = sum(row["intended"] for row in rows)
        if until >= self._plan.messages:
            await self._database.persist("feed", partial(self._database.fetch, _FULL_SPEED))

    async def _furnish(self) -> None:
        names, messages = list(CLASSES), self._plan.messages
        for first in range(0, messages, BATCH_MAX):
            last = min(messages, first + BATCH_MAX) - 1
            await self._database.persist("feed", partial(self._database.fetch, _CONTACTS, first, last, names))
        drafts = json.dumps([_template(name) for name in names])
        publish = "SELECT * FROM dispatcher.put_templates($1::jsonb, true, 'selftest')"
        await self._database.persist("feed", partial(self._database.fetch, publish, drafts))
        seconds = max(1, self._plan.kills + self._plan.cuts) * PACE_SECONDS
        rate = max(1.0, messages / len(names) / seconds)
        await self._database.persist("feed", partial(self._database.fetch, _CAMPAIGN, names, rate))


def _template(channel: str) -> dict[str, object]:
    return {
        "tenant_id": "default",
        "workspace_id": "default",
        "name": channel,
        "channel": channel,
        "default_locale": "en",
        "rights": [],
        "variables": ["contact.attributes.number"],
        "sources": {"en": {"parts": {"body": "Message {{ contact.attributes.number }}"}, "partials": {}}},
    }
