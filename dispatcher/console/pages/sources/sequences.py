"""Sequences: the list, one with its funnel and versions, its preview for a contact, and what can be done to it."""

from typing import Any, get_args
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from dispatcher.console.page import Answer, Form, Visit, form, page
from dispatcher.console.rendering import plural
from dispatcher.console.switching import switch
from dispatcher.features.sequences.endpoints import (
    delete_sequence,
    get_sequence,
    list_sequences,
    pause_sequence,
    preview_sequence,
    publish_sequence,
    resume_sequence,
)
from dispatcher.features.sequences.enrolment_endpoints import list_enrolments
from dispatcher.features.sequences.models import FunnelStep, Previewed, Sequence, Status
from dispatcher.http.problems import FAULTY, NOT_FOUND, Problem
from dispatcher.http.roles import Right

ROWS = 50
ENROLMENTS_SHOWN = 10
_STATES = {"active": "sent", "paused": "parked", "draft": "pending"}


class Stage(Struct, frozen=True, kw_only=True):
    """A step with what has become of its messages. Without `about` it is of an older version."""

    name: str
    about: str
    waiting: int = 0
    pending: int = 0
    sent: int = 0
    failed: int = 0
    skipped: int = 0


@page("/sequences", Right.SEQUENCES)
async def sequences(visit: Visit) -> Answer:
    """List sequences by name."""
    meant = {name: visit.query.get(name) for name in ("status", "cursor")}
    found = await visit.ask(list_sequences, query={"limit": ROWS, **meant})
    return visit.show("sources/sequences.html", found=found, statuses=get_args(Status))


@page("/sequences/{name}", Right.SEQUENCES)
async def sequence(visit: Visit) -> Answer:
    """Show a sequence with its funnel, versions and newest enrolments."""
    found: Sequence = await visit.ask(get_sequence)
    newest = None
    if visit.may(Right.ENROLMENTS):
        newest = await visit.ask(list_enrolments, query={"limit": ENROLMENTS_SHOWN})
    state, words = _standing(found)
    return visit.show(
        "sources/sequence.html",
        one=found,
        state=state,
        words=words,
        stages=stages(found),
        total=sum(found.enrolments.values()),
        newest=newest,
    )


def _standing(found: Sequence) -> tuple[str, str]:
    """Return the state of a sequence, and what is so in one sentence."""
    state = _STATES.get(found.status, "none")
    if found.status == "draft":
        return state, "It is a draft: nobody can be enrolled until it is published."
    if found.status == "paused":
        open_ones = found.enrolments.get("active", 0) + found.enrolments.get("paused", 0)
        return state, f"It is paused: {plural(open_ones, 'enrolment')} stand still, and nobody is enrolled."
    changed = " Its draft says something else, which holds once it is published." if found.is_changed else ""
    return state, f"Contacts are enrolled in version {found.version}.{changed}"


def stages(found: Sequence) -> list[Stage]:
    """Return the steps of the draft in their order, then those of older versions that have sent something."""
    counted = {one.step_id: one for one in found.funnel}
    steps = sorted(found.steps, key=lambda one: int(one["stepOrder"]))
    made = [_stage(step, counted.pop(step["id"], None)) for step in steps]
    older = [_stage({"stepOrder": number, "name": one.name}, one) for number, one in counted.items()]
    return [*made, *older]


def _stage(step: dict[str, Any], one: FunnelStep | None) -> Stage:
    made = Stage(name=step.get("name") or step.get("template") or f"step {step['stepOrder']}", about=_when(step))
    if one is None:
        return made
    return replace(
        made, waiting=one.waiting, pending=one.pending, sent=one.sent, failed=one.failed, skipped=one.skipped
    )


def _when(step: dict[str, Any]) -> str:
    if "channel" not in step:
        return ""
    hour = step.get("sendHour")
    return f"{step['channel']} · day {step['dayOffset']}" + ("" if hour is None else f", {hour:02}:00")


@page("/sequences/{name}/preview", Right.SEQUENCES)
async def preview(visit: Visit) -> Answer:
    """Show each step of the draft as a contact would get it."""
    contact = visit.query.get("contact", "")
    found: Previewed | None = None
    problem: Problem | None = None
    if contact:
        body = {"contactId": contact, "enrolledAt": _moment(visit.query.get("at", ""))}
        try:
            found = await visit.ask(preview_sequence, body=body)
        except Problem as fault:
            if fault.kind not in (FAULTY, NOT_FOUND):
                raise
            problem = fault
    return visit.show("sources/sequence_preview.html", name=visit.path["name"], found=found, problem=problem)


def _moment(text: str) -> str | None:
    """Return a time of a form, which is in UTC."""
    return f"{text}Z" if text else None


def _about(visit: Visit) -> str:
    return f"/sequences/{quote(visit.path['name'], safe='')}"


@form("/sequences/{name}/publish", publish_sequence)
async def publish(visit: Visit) -> Form:
    """Publish the draft."""
    found: Sequence = await visit.ask(get_sequence)
    return Form(
        title=f"Publish {found.name} as version {found.version + 1}?",
        text=f"{plural(len(found.steps), 'step')}. Contacts are enrolled in it from now on; who is enrolled stays "
        "in its version.",
        reason=False,
        button="Publish it",
        back=_about(visit),
        done="Published.",
    )


async def _open_enrolments(visit: Visit) -> str:
    found: Sequence = await visit.ask(get_sequence)
    return plural(found.enrolments.get("active", 0), "enrolment")


@form("/sequences/{name}/pause", pause_sequence)
async def pause(visit: Visit) -> Form:
    """Pause a sequence."""
    return Form(
        title=f"Pause {visit.path['name']}?",
        text=f"{await _open_enrolments(visit)} stand still, and nobody is enrolled. When it goes on, a step that was "
        "due is sent once, and later ones move by the length of the pause.",
        button="Pause it",
        back=_about(visit),
        done="It is paused.",
    )


@form("/sequences/{name}/resume", resume_sequence)
async def resume(visit: Visit) -> Form:
    """Let a paused sequence go on."""
    return Form(
        title=f"Let {visit.path['name']} go on?",
        text=f"{await _open_enrolments(visit)}. A step that was due meanwhile is sent at once. Enrolments that were "
        "paused one by one stay so.",
        button="Resume it",
        back=_about(visit),
        done="It goes on.",
    )


DELETE = switch(
    "/sequences/{name}/delete",
    delete_sequence,
    title="Delete {name}?",
    text="One sequence, unless it has open enrolments. What was sent stays.",
    button="Delete it",
    done="Deleted.",
    gone=True,
)
