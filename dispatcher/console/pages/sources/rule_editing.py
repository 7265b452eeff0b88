"""Editing rules: a new one, and the steps of one that is there."""

from typing import Any
from urllib.parse import quote

from dispatcher.console.page import Field, Form, Visit, form
from dispatcher.console.rendering import plain
from dispatcher.features.rules.endpoints import get_rule, list_triggers, put_rule
from dispatcher.features.rules.models import Rule

_STEP = {"template": "welcome", "offset": "0s"}


def _fields(one: Rule | None) -> list[Field]:
    return [
        Field("enabled", "It is enabled", "check", value=one is None or one.enabled),
        Field(
            "steps",
            "Steps",
            "json",
            value=[_STEP] if one is None else plain(one.steps),
            required=True,
            hint='A list; "offset" is after the event, with - before it: "-24h".',
        ),
    ]


@form("/rules/new", put_rule)
async def create(visit: Visit) -> Form:
    """Make a rule."""
    triggers = [one.name for one in (await visit.ask(list_triggers)).triggers]

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        name = "/".join(str(body.pop(part)) for part in ("trigger", "channel", "audience"))
        return await visit.ask(put_rule, name, body=body)

    return Form(
        title="A new rule",
        text="It says what an event sends on a channel to an audience, from when it is saved.",
        fields=[
            Field("trigger", "Trigger", "choice", choices=[(name, name) for name in triggers], required=True),
            Field(
                "channel",
                "Channel",
                "choice",
                choices=[(name, name) for name in sorted(visit.config().channels)],
                required=True,
            ),
            Field("audience", "Audience", required=True, placeholder="lead"),
            *_fields(None),
        ],
        button="Save it",
        reason=False,
        act=act,
        back=lambda saved: f"/rules/{quote(saved.name, safe='')}",
        cancel="/rules",
        done="It is saved.",
    )


@form("/rules/{name}/change", put_rule)
async def change(visit: Visit) -> Form:
    """Change a rule."""
    one: Rule = await visit.ask(get_rule)
    return Form(
        title=f"Change the rule {one.name}?",
        text="Events are sent by it as it is then; what was scheduled stays.",
        fields=_fields(one),
        button="Save it",
        reason=False,
        back=f"/rules/{quote(one.name, safe='')}",
        done="It is saved.",
    )
