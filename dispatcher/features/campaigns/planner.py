"""The planner: what a deployment of a campaign would come to, without doing any of it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.config.settings import Config
from dispatcher.engine.rules.life import LANES
from dispatcher.engine.rules.unsubscribe_links import Links
from dispatcher.features.campaigns import rules, store
from dispatcher.features.campaigns.models import LackingVariable, PlannedCampaign
from dispatcher.features.contacts import store as contacts
from dispatcher.features.templates import store as templates
from dispatcher.features.templates.store import PUBLISHED, Found
from dispatcher.http.endpoints import Call
from dispatcher.liquid.template import Bounds
from dispatcher.plans.simulation.planned import PlannedMessage

SAMPLE = 10
EXAMPLES = 3


async def plan(call: Call, campaign: dict[str, Any], looked_at_max: int) -> PlannedCampaign:
    """Return the plan of a stored campaign. Raises TriggerRefused where its messages take too long to render."""
    config, here, name = call.served.config(), call.workspace, campaign["name"]
    template = (await templates.find(call.database, here, [campaign["template"]], PUBLISHED)).get(campaign["template"])
    refused = [] if template is not None else [Fault("$.template", "there is no published version of it")]
    refused += await contacts.audience_faults(call.database, here, "$.audience", bytes(campaign["audience"]).decode())
    given = msgspec.json.decode(campaign["variables"])
    reads = rules.reads([] if template is None else template.variables, given)
    found = store.Plan(0, 0, [], [], [])
    if not refused:
        found = await store.plan(call.database, here, name, reads, looked_at_max, SAMPLE) or found
        refused += [] if found.contacts else [Fault("$.audience", "nobody is in it")]
    recipients = found.looked_at - sum(one.count for one in found.skipped)
    limit = _limit(config, campaign)
    messages = await _messages(call, campaign, template, found.sample)
    return PlannedCampaign(
        campaign=name,
        template_version=0 if template is None else template.version,
        contacts=found.contacts,
        looked_at=found.looked_at,
        recipients=recipients,
        skipped=found.skipped,
        lacking=[*_nowhere(reads.nowhere, recipients, found.sample), *found.lacking],
        limit_per_second=limit,
        seconds=None if limit is None else recipients / limit * found.contacts / max(found.looked_at, 1),
        refused="; ".join(map(str, refused)) or None,
        messages=messages,
    )


def _nowhere(names: Sequence[str], recipients: int, sample: Sequence[rules.Recipient]) -> list[LackingVariable]:
    """Return what no message has."""
    if not recipients:
        return []
    return [LackingVariable(name, recipients, [one.key for one in sample[:EXAMPLES]]) for name in names]


def _limit(config: Config, campaign: dict[str, Any]) -> float | None:
    channel = config.channels.get(campaign["channel"])
    of_channel = () if channel is None else (channel.rate_per_second, channel.tenant_rate_per_second)
    return rules.slowest(campaign["rate"], *of_channel)


async def _messages(
    call: Call, campaign: dict[str, Any], template: Found | None, sample: Sequence[rules.Recipient]
) -> list[PlannedMessage]:
    if template is None or not sample:
        return []
    config, tenant_id = call.served.config(), call.workspace.tenant_id
    return await call.served.offload.call_if_heavy(
        tenant_id,
        rules.messages,
        Bounds.of(config.limits),
        Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets),
        tenant_id,
        {template.name: template},
        rules.Content(campaign["channel"], template.name, LANES[campaign["lane"]], campaign["topic"]),
        sample,
    )
