"""Campaigns: the list with their last runs, one campaign with its runs, its plan, and how it is deployed and tested."""

from datetime import UTC, datetime

from dispatcher.console.page import Answer, Field, Form, Visit, form, page
from dispatcher.console.rendering import duration, plain, plural
from dispatcher.console.switching import switch
from dispatcher.features.campaigns.endpoints import (
    delete_campaign,
    deploy_campaign,
    get_campaign,
    list_campaigns,
    plan_campaign,
    test_campaign,
)
from dispatcher.features.campaigns.models import PlannedCampaign
from dispatcher.features.campaigns.runs.endpoints import list_campaign_runs
from dispatcher.http.roles import Right

ROWS = 50
RUNS = 20
# A page looks at some contacts; the command looks at all.
_LOOKS = {"looked_at_max": 2_000}


@page("/campaigns", Right.CAMPAIGNS)
async def campaigns(visit: Visit) -> Answer:
    """List campaigns by name, with how far their last runs have come."""
    meant = {name: visit.query.get(name) for name in ("channel", "cursor")}
    found = await visit.ask(list_campaigns, query={"limit": ROWS, **meant})
    return visit.show("sources/campaigns.html", found=found, channels=sorted(visit.config().channels))


@page("/campaigns/{name}", Right.CAMPAIGNS)
async def campaign(visit: Visit) -> Answer:
    """Show a campaign with its runs."""
    found = await visit.ask(get_campaign)
    query = {"campaign": found.name, "limit": RUNS, "cursor": visit.query.get("cursor")}
    runs = await visit.ask(list_campaign_runs, query=query)
    return visit.show("sources/campaign.html", one=found, runs=runs, audience=plain(found.audience))


@page("/campaigns/{name}/plan", Right.CAMPAIGNS)
async def plan(visit: Visit) -> Answer:
    """Show what a deployment would come to."""
    found: PlannedCampaign = await visit.ask(plan_campaign, query=_LOOKS)
    return visit.show("sources/campaign_plan.html", plan=found)


def _about(visit: Visit) -> str:
    return f"/campaigns/{visit.path['name']}"


@form("/campaigns/{name}/deploy", deploy_campaign)
async def deploy(visit: Visit) -> Form:
    """Deploy a campaign, once its plan was seen."""
    return Form(
        title=f"Deploy {visit.path['name']}?",
        # Its form is drawn again when it is sent: then nobody reads this.
        text="" if visit.form else _size(await visit.ask(plan_campaign, query=_LOOKS)),
        fields=[
            Field("scheduled_for", "When", "time", hint="At once, if it is empty."),
            Field("idempotency_key", "Key", value=f"console {datetime.now(UTC):%Y-%m-%d %H:%M:%S}", hint=_KEY),
        ],
        reason=False,
        button="Deploy it",
        back=lambda answer: f"/campaign-runs/{answer.run_id}",
        cancel=_about(visit),
        done="Deployed. Its contacts are frozen, and it is sent from now on.",
    )


_KEY = "It makes one run, however often it is used."


def _size(found: PlannedCampaign) -> str:
    if found.refused is not None:
        return f"It would be refused: {found.refused}."
    words = f"{plural(found.recipients, 'message')} to {plural(found.contacts, 'contact')} as they are now"
    if found.looked_at < found.contacts:
        words += f" (of the first {found.looked_at:,})"
    skipped = sum(one.count for one in found.skipped)
    words += f"; {skipped:,} would be skipped." if skipped else "."
    return words if found.seconds is None else f"{words} Sending takes about {duration(found.seconds)}."


@form("/campaigns/{name}/test", test_campaign)
async def test(visit: Visit) -> Form:
    """Send a campaign to some addresses."""
    return Form(
        title=f"Send a test of {visit.path['name']}?",
        text="Its variables are those of a contact of the audience. A test is in no total.",
        fields=[Field("recipients", "Addresses", "lines", hint="One on each line, up to 100.", required=True)],
        reason=False,
        button="Send the test",
        back=lambda answer: f"/campaign-runs/{answer.run_id}",
        cancel=_about(visit),
        done="The test is on its way.",
    )


DELETE = switch(
    "/campaigns/{name}/delete",
    delete_campaign,
    title="Delete {name}?",
    text="One campaign. Its runs and what they have sent stay.",
    button="Delete it",
    done="Deleted.",
    gone=True,
)
