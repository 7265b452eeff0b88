"""Editing campaigns: a new one, and one that has no open run."""

from urllib.parse import quote

from dispatcher.console.page import Field, Form, Visit, form
from dispatcher.console.rendering import plain
from dispatcher.features.campaigns.endpoints import get_campaign, put_campaign
from dispatcher.features.campaigns.models import WholeCampaign

LANES = ("transactional", "normal", "bulk")


def _fields(visit: Visit, one: WholeCampaign | None) -> list[Field]:
    channels = sorted({*visit.config().channels, *([one.channel] if one else ())})
    return [
        Field(
            "channel",
            "Channel",
            "choice",
            value=one.channel if one else "",
            choices=[(name, name) for name in channels],
            required=True,
        ),
        Field("template", "Template", value=one and one.template, required=True, hint="A published one."),
        Field(
            "audience",
            "Audience",
            "json",
            value=plain(one.audience) if one else {"all": True},
            required=True,
            hint='Such as {"tags": ["newsletter"]}, or {"all": true}.',
        ),
        Field("variables", "Variables", "json", value=plain(one.variables) if one else {}, hint="Beside contact."),
        Field(
            "lane",
            "Lane",
            "choice",
            value=one.lane if one else "bulk",
            choices=[(name, name) for name in LANES],
            required=True,
        ),
        Field("topic", "Topic", value=one and one.topic, hint="What one can unsubscribe from."),
        Field("rate", "Messages a second", "number", value=one and one.rate, hint="As fast as its channel without it."),
        Field(
            "send_window",
            "Window",
            "json",
            value=plain(one.send_window) if one and one.send_window else "",
            hint='Such as {"from": "09:00", "to": "18:00"}; at any time without it.',
        ),
    ]


@form("/campaigns/new", put_campaign)
async def create(visit: Visit) -> Form:
    """Make a campaign."""

    return Form(
        title="A new campaign",
        text="Nothing is sent until it is deployed.",
        fields=[Field("name", "Name", required=True), *_fields(visit, None)],
        button="Save it",
        reason=False,
        back=lambda saved: f"/campaigns/{quote(saved.name, safe='')}",
        cancel="/campaigns",
        done="It is saved.",
    )


@form("/campaigns/{name}/change", put_campaign)
async def change(visit: Visit) -> Form:
    """Change a campaign, unless another has changed it meanwhile."""
    one: WholeCampaign = await visit.ask(get_campaign)

    return Form(
        title=f"Change {one.name}?",
        text="Runs that were deployed stay as they are.",
        fields=[*_fields(visit, one), Field("version", "", "hidden", value=one.version)],
        button="Save it",
        reason=False,
        back=f"/campaigns/{quote(one.name, safe='')}",
        done="It is saved.",
    )
