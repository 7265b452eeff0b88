"""Enrolments of a sequence: the list, one with what its steps have sent, and what can be done to one or to all."""

import time
from collections.abc import Mapping
from typing import Any, get_args
from urllib.parse import quote

from msgspec import Struct

from dispatcher.console.bulk import SECONDS_MAX
from dispatcher.console.page import Answer, Field, Form, Page, Visit, form, page
from dispatcher.console.rendering import ago, plural
from dispatcher.features.sequences.enrolment_endpoints import (
    cancel_enrolment,
    change_enrolments,
    enrol_contact,
    get_enrolment,
    list_enrolments,
    pause_enrolment,
    resume_enrolment,
)
from dispatcher.features.sequences.enrolment_models import EnrolmentStatus, WholeEnrolment
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.roles import Right

ROWS = 50
_SECTION = "sequences"
_ONE = "/enrolments/{enrolment_id}"
_CHANGES = (
    ("pause", "Pause", "Nothing more is sent to them."),
    ("resume", "Resume", "A step that has failed is sent again."),
    ("cancel", "Cancel", "It cannot be undone; they can be enrolled again."),
)
_DONE: Mapping[str, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled"}


@page("/sequences/{name}/enrolments", Right.ENROLMENTS)
async def enrolments(visit: Visit) -> Answer:
    """List the enrolments of a sequence, the newest first."""
    meant = {name: visit.query.get(name) for name in ("status", "contact", "cursor")}
    found = await visit.ask(list_enrolments, query={"limit": ROWS, **meant})
    return visit.show(
        "sources/enrolments.html", name=visit.path["name"], found=found, statuses=get_args(EnrolmentStatus)
    )


@page(_ONE, Right.ENROLMENTS, section=_SECTION)
async def enrolment(visit: Visit) -> Answer:
    """Show an enrolment with what its steps have sent."""
    found: WholeEnrolment = await visit.ask(get_enrolment)
    state, words = _standing(found)
    return visit.show("sources/enrolment.html", one=found, state=state, words=words)


def _standing(found: WholeEnrolment) -> tuple[str, str]:
    """Return the state of an enrolment, and what is so in one sentence."""
    if found.status == "active":
        due = "it is being sent" if found.next_step_at is None else f"due {ago(found.next_step_at)}"
        return "claimed", f"It waits for step {found.current_step_index + 1}, {due}."
    if found.status == "paused":
        return "parked", "It is paused: nothing more is sent until it is resumed."
    if found.status == "completed":
        return "sent", f"It is completed: {plural(len(found.logs), 'message')}."
    return "skipped", "It was cancelled: nothing more is sent. The contact can be enrolled again."


def _sequence(visit: Visit) -> str:
    return f"/sequences/{quote(visit.path['name'], safe='')}"


@form("/sequences/{name}/enrol", enrol_contact)
async def enrol(visit: Visit) -> Form:
    """Enrol a contact."""
    return Form(
        title=f"Enrol a contact in {visit.path['name']}?",
        text="One contact, in the version that is published. Who is in the sequence already stays as it is.",
        fields=[Field("contactId", "Contact", hint="Its key.", required=True)],
        reason=False,
        button="Enrol it",
        back=lambda answer: f"/enrolments/{answer.id}",
        cancel=_sequence(visit),
        done="Enrolled.",
    )


def _acting(verb: str, asks: Endpoint, text: str, *, risk: bool = False) -> Page:
    @form(f"{_ONE}/{verb}", asks, section=_SECTION)
    async def act(visit: Visit) -> Form:
        number = visit.path["enrolment_id"]
        return Form(
            title=f"{verb.capitalize()} enrolment {number}?",
            text=f"One enrolment. {text}",
            button=f"{verb.capitalize()} it",
            risk=risk,
            back=f"/enrolments/{number}",
        )

    return act


PAUSE = _acting("pause", pause_enrolment, "Nothing more of it is sent until it is resumed.")
RESUME = _acting("resume", resume_enrolment, "A step that has failed is sent again.")
CANCEL = _acting("cancel", cancel_enrolment, "It cannot be resumed; the contact can be enrolled again.", risk=True)


class Changed(Struct, frozen=True):
    """How many were changed."""

    message: str


@form("/sequences/{name}/enrolment-changes", change_enrolments)
async def change(visit: Visit) -> Form:
    """Pause, resume or cancel all enrolments of a sequence."""
    return Form(
        title=f"Change all enrolments of {visit.path['name']}?",
        text="All that can be: those that have ended stay as they are.",
        fields=[Field("action", "", "options", choices=_CHANGES, required=True)],
        confirm="I mean all enrolments of the sequence.",
        button="Change them",
        act=_change_all,
        back=f"{_sequence(visit)}/enrolments",
    )


async def _change_all(visit: Visit, body: dict[str, Any]) -> Changed:
    end, done = time.monotonic() + SECONDS_MAX, 0
    while True:
        found = await visit.ask(change_enrolments, body=body)
        done += found.changed
        if not found.more or time.monotonic() > end:
            more = " There are more: repeat it." if found.more else ""
            return Changed(f"{plural(done, 'enrolment')} {_DONE[body['action']]}.{more}")
