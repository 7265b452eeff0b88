"""Editing drafts of sequences: a new one, and the settings and steps of one that is there."""

from typing import Any
from urllib.parse import quote

from dispatcher.console.page import Field, Form, Visit, form
from dispatcher.console.rendering import plain
from dispatcher.features.sequences.endpoints import get_sequence, put_sequence
from dispatcher.features.sequences.models import Sequence

LANES = ("transactional", "normal", "bulk")
_STEP = {"dayOffset": 0, "stepOrder": 1, "channel": "email", "name": "Welcome", "content": "Hello {{ contact.name }}"}


def _fields(one: Sequence | None) -> list[Field]:
    said: dict[str, Any] = {} if one is None else plain(one.settings)
    return [
        Field("description", "Description", value=said.get("description")),
        Field("timeZone", "Time zone", value=said.get("timeZone"), hint="That of the workspace without it."),
        Field(
            "useContactTimeZone", "By the contact's own time zone", "check", value=said.get("useContactTimeZone", False)
        ),
        Field(
            "anchor",
            "Days are counted from",
            "choice",
            value=said.get("anchor", "enrolment"),
            choices=[("enrolment", "the enrolment"), ("previous_step", "the step before")],
            required=True,
        ),
        Field(
            "onFailure",
            "A step that has failed",
            "choice",
            value=said.get("onFailure", "pause"),
            choices=[("pause", "pauses the enrolment"), ("continue", "is left out")],
            required=True,
        ),
        Field("stopOn", "Ends on the event", value=said.get("stopOn")),
        Field("stopIf", "Ends if", value=said.get("stopIf"), hint="A condition on the contact, in Liquid."),
        Field(
            "lane",
            "Lane",
            "choice",
            value=said.get("lane", "bulk"),
            choices=[(name, name) for name in LANES],
            required=True,
        ),
        Field("topic", "Topic", value=said.get("topic"), hint="What one can unsubscribe from."),
        Field(
            "steps",
            "Steps",
            "json",
            value=[_STEP] if one is None else plain(one.steps),
            required=True,
            hint="A list. A step keeps its id, so that enrolments which wait for it find it.",
        ),
    ]


@form("/sequences/new", put_sequence)
async def create(_visit: Visit) -> Form:
    """Make a sequence."""

    async def act(visit: Visit, body: dict[str, Any]) -> object:
        return await visit.ask(put_sequence, body["name"], body=body)

    return Form(
        title="A new sequence",
        text="It is a draft: nobody can be enrolled until it is published.",
        fields=[Field("name", "Name", required=True), *_fields(None)],
        button="Save the draft",
        reason=False,
        act=act,
        back="/sequences",
        done="The draft is saved.",
    )


@form("/sequences/{name}/change", put_sequence)
async def change(visit: Visit) -> Form:
    """Change the draft of a sequence, unless another has changed it meanwhile."""
    one: Sequence = await visit.ask(get_sequence)

    return Form(
        title=f"Change the draft of {one.name}?",
        text="What is published stays as it is until the draft is published.",
        fields=[*_fields(one), Field("version", "", "hidden", value=one.revision)],
        button="Save the draft",
        reason=False,
        back=f"/sequences/{quote(one.name, safe='')}",
        done="The draft is saved.",
    )
