"""The endpoints of sequences: save drafts and steps, publish, pause, resume, show, preview and delete them."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import structs

from dispatcher.base.errors import Fault
from dispatcher.db import timestamps
from dispatcher.features.sequences import enrolment_endpoints, enrolment_store, models, previews, store
from dispatcher.features.sequences.rules import Settings, Step, compile_sequence, faults_of
from dispatcher.features.sequences.store import Found
from dispatcher.features.workspaces import store as workspaces
from dispatcher.http import etags
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.models import Why
from dispatcher.http.problems import CHANGED, CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right
from dispatcher.plans.definition.definition import Known

NOUN = "sequences"
VERSIONS_MAX = 20
_RIGHT = Right.SEQUENCES
_ONE = "/sequences/{name}"
_STEPS = f"{_ONE}/steps"
_STEP = f"{_STEPS}/{{step}}"
_WRITTEN: dict[str, Any] = {
    "answered": models.SAVED,
    "problems": (NOT_FOUND, CHANGED),
    "tagged": True,
}
_PUT: dict[str, Any] = {
    "timeZone": "Europe/Berlin",
    "stopIf": 'contact.attributes.plan == "pro"',
    "steps": [models.STEP, {"dayOffset": 3, "stepOrder": 2, "sendHour": 9, "channel": "sms", "content": "How is it?"}],
}


@endpoint("GET", "/sequences", _RIGHT, query=models.SequenceQuery, answered=models.SEQUENCES)
async def list_sequences(call: Call) -> Done:
    """List sequences by name."""
    asked: models.SequenceQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, asked.status)
    return Done(models.SequencePage(*page(_camel(rows), asked.limit, models.SequenceRow, by_name(NOUN))))


def _camel(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{_name(key): value for key, value in row.items()} for row in rows]


def _name(column: str) -> str:
    first, *others = column.split("_")
    return first + "".join(map(str.title, others))


@endpoint("GET", _ONE, _RIGHT, answered=models.SEQUENCE, problems=(NOT_FOUND,), tagged=True)
async def get_sequence(call: Call) -> Done:
    """Show a sequence: its draft, its versions, and how far its enrolments have come."""
    found = await find(call)
    names = {one.id: one.name for one in found.steps}
    facts = structs.asdict(found) | {
        "settings": msgspec.to_builtins(found.settings),
        "steps": msgspec.to_builtins(found.steps),
        "enrolments": await store.statuses(call.database, call.workspace, found.id),
        "funnel": [
            models.FunnelStep(name=names.get(row["step_id"]), **row)
            for row in await store.funnel(call.database, call.workspace, found.id)
        ],
        "versions": [
            models.SequenceVersion(**row) for row in await store.versions(call.database, found.id, VERSIONS_MAX)
        ],
    }
    return Done(models.Sequence(**facts), headers={"etag": etags.tag(found.revision)})


async def find(call: Call) -> Found:
    """Return the sequence of the path. Raises Problem."""
    name = call.named("sequence")
    found = await store.find(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"sequence {name}")
    return found


@endpoint(
    "PUT", _ONE, _RIGHT, given=models.SequenceDefinition, example=_PUT, makes=("name", "name"), status=201, **_WRITTEN
)
async def put_sequence(call: Call) -> Done:
    """Save the draft of a sequence, whole.

    What is published stays as it is, and so do enrolments, until the draft is published. A step is the stored one of
    its id, else of its name, else, where it has no name, of its stepOrder.
    """
    given: models.SequenceDefinition = call.given
    name = call.named("sequence")
    if given.name not in (None, name):
        raise faulty([Fault("$.name", f"is {given.name}, and the path names {name}: use one name")])
    revision = (await _revision(call)) if call.if_match is not None else None
    return await _save(call, name, await _settings(call, given), given.drafted(), revision)


async def _settings(call: Call, given: models.SequenceDefinition) -> Settings:
    """Return what holds for all steps; a sequence without a time zone has that of its workspace as it is saved."""
    return given.settings((await workspaces.show(call.database, call.workspace)).time_zone)


async def _revision(call: Call) -> int:
    """Return the revision that the sequence has, which is the one that the request means."""
    found = await find(call)
    etags.require(call, f"sequence {found.name}", found.revision)
    return found.revision


async def _save(call: Call, name: str, settings: Settings, steps: Sequence[Step], revision: int | None) -> Done:
    faults = faults_of(settings, steps, _known(call))
    if faults:
        raise faulty(faults)
    answer, _ = await store.put(call.database, call.workspace, name, settings, steps, call.actor, revision)
    if answer == "stale":
        raise Problem(CHANGED, f"the sequence {name} has just been changed")
    found = await find(call)
    saved = models.SavedSequence(
        name=name,
        answer=answer,
        status=found.status,
        version=found.version,
        revision=found.revision,
        steps=msgspec.to_builtins(found.steps),
    )
    return Done(saved, 201 if answer == "created" else 200, {"etag": etags.tag(found.revision)})


def _known(call: Call) -> Known:
    config = call.served.config()
    return Known(config.channels, config.functions)


@endpoint("POST", _STEPS, _RIGHT, given=models.StepFields, example=models.STEP, **_WRITTEN | {"tagged": False})
async def add_sequence_step(call: Call) -> Done:
    """Add a step to the draft of a sequence."""
    given: models.StepFields = call.given
    found = await find(call)
    return await _save(call, found.name, found.settings, [*found.steps, given.step()], found.revision)


@endpoint("PUT", _STEP, _RIGHT, given=models.StepFields, example=models.STEP, **_WRITTEN)
async def put_sequence_step(call: Call) -> Done:
    """Replace a step of the draft."""
    given: models.StepFields = call.given
    found, number = await _step(call)
    steps = [given.step(number) if one.id == number else one for one in found.steps]
    return await _save(call, found.name, found.settings, steps, found.revision)


@endpoint("DELETE", _STEP, _RIGHT, **_WRITTEN)
async def delete_sequence_step(call: Call) -> Done:
    """Take a step out of the draft."""
    found, number = await _step(call)
    steps = [one for one in found.steps if one.id != number]
    return await _save(call, found.name, found.settings, steps, found.revision)


async def _step(call: Call) -> tuple[Found, int]:
    found = await find(call)
    number = call.number("step", "step")
    if all(one.id != number for one in found.steps):
        raise not_found(f"step {number} of the sequence {found.name}")
    etags.require(call, f"sequence {found.name}", found.revision)
    return found, number


@endpoint("POST", f"{_ONE}/publish", _RIGHT, answered=models.PUBLISHED, problems=(NOT_FOUND, CONFLICT, CHANGED))
async def publish_sequence(call: Call) -> Done:
    """Publish the draft as the next version, in which contacts are enrolled from now on.

    Enrolled contacts stay in their version. A draft without steps is refused.
    """
    found = await find(call)
    plan = compile_sequence(found.name, found.settings, found.steps, _known(call))
    if isinstance(plan, list):
        raise faulty(plan)
    if not plan.nodes:
        raise Problem(CONFLICT, f"the sequence {found.name} has no steps: add one first", answer="empty")
    answer, version = await store.publish(call.database, call.workspace, found, plan, call.actor)
    if answer in ("stale", "unknown"):
        raise Problem(CHANGED, f"the sequence {found.name} has just been changed")
    return Done(models.SwitchedSequence(found.name, answer, version))


@endpoint(
    "POST",
    f"{_ONE}/pause",
    _RIGHT,
    given=Why,
    example={"reason": "wrong prices"},
    answered=models.SWITCHED,
    problems=(NOT_FOUND, CONFLICT),
)
async def pause_sequence(call: Call) -> Done:
    """Pause a sequence: nothing more of it is sent, and nobody is enrolled."""
    name = call.named("sequence")
    return _switched(name, await store.pause(call.database, call.workspace, name, call.given.reason, call.actor))


@endpoint(
    "POST",
    f"{_ONE}/resume",
    _RIGHT,
    given=Why,
    example={"reason": "the prices are right"},
    answered=models.SWITCHED,
    problems=(NOT_FOUND, CONFLICT),
)
async def resume_sequence(call: Call) -> Done:
    """Let a paused sequence go on.

    A step that was due meanwhile is sent at once, later ones move by the length of the pause. Enrolments that were
    paused one by one stay so.
    """
    name = call.named("sequence")
    return _switched(name, await store.resume(call.database, call.workspace, name, call.given.reason, call.actor))


def _switched(name: str, answer: str) -> Done:
    if answer == "unknown":
        raise not_found(f"sequence {name}")
    if answer == "draft":
        raise Problem(CONFLICT, f"the sequence {name} is a draft: publish it first", answer=answer)
    return Done(models.SwitchedSequence(name, answer))


@endpoint("DELETE", _ONE, _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND, CONFLICT, CHANGED), tagged=True)
async def delete_sequence(call: Call) -> Done:
    """Delete a sequence that has no open enrolments. What was sent stays."""
    found = await find(call)
    revision = None if call.if_match is None else await _revision(call)
    answer = await store.delete(call.database, call.workspace, found.name, revision, call.actor)
    if answer == "running":
        words = f"the sequence {found.name} has open enrolments: let them end, or cancel them"
        raise Problem(CONFLICT, words, answer=answer)
    if answer == "stale":
        raise Problem(CHANGED, f"the sequence {found.name} has just been changed")
    if answer == "unknown":
        raise not_found(f"sequence {found.name}")
    return Done(models.SwitchedSequence(found.name, answer))


@endpoint(
    "POST",
    "/sequence-comparison",
    _RIGHT,
    given=models.SequenceDefinitions,
    example={"sequences": [{"name": "onboarding", **_PUT}]},
    answered=models.COMPARED,
    looks=True,
    large=True,
)
async def compare_sequences(call: Call) -> Done:
    """Find what is wrong with definitions, and whether what is stored under their names says the same."""
    given: models.SequenceDefinitions = call.given
    return Done(models.ComparedSequences([await _compared(call, one) for one in given.sequences]))


async def _compared(call: Call, given: models.SequenceDefinition) -> models.ComparedSequence:
    if given.name is None:
        return models.ComparedSequence(name=None, faults=[Fault("$.name", "is required")])
    settings = await _settings(call, given)
    faults = faults_of(settings, given.drafted(), _known(call))
    if faults:
        return models.ComparedSequence(name=given.name, faults=faults)
    found = await store.find(call.database, call.workspace, given.name)
    if found is None:
        return models.ComparedSequence(name=given.name)
    same = found.settings == settings and _said(found.steps) == _said(given.drafted())
    published = found.version > 0 and not found.is_changed
    return models.ComparedSequence(name=given.name, stored=True, same=same, published=published, version=found.version)


def _said(steps: Sequence[Step]) -> list[Step]:
    return sorted((structs.replace(one, id=None) for one in steps), key=lambda one: one.step_order)


@endpoint(
    "POST",
    f"{_ONE}/preview",
    _RIGHT,
    given=models.PreviewQuery,
    example={"contactId": "customer-17"},
    answered=models.PREVIEWED,
    problems=(NOT_FOUND,),
    looks=True,
)
async def preview_sequence(call: Call) -> Done:
    """Show each step of the draft for a contact: when it would be sent, and what it would say. Nothing is written."""
    given: models.PreviewQuery = call.given
    found = await find(call)
    contact = await enrolment_store.contact_id(call.database, call.workspace, given.contact_id)
    if contact is None:
        raise not_found(f"contact {given.contact_id!r}")
    at = given.enrolled_at or await timestamps.now(call.database)
    return Done(models.Previewed(await previews.steps(call, found.settings, found.steps, contact, at)))


ENDPOINTS = (
    list_sequences,
    get_sequence,
    put_sequence,
    delete_sequence,
    add_sequence_step,
    put_sequence_step,
    delete_sequence_step,
    publish_sequence,
    pause_sequence,
    resume_sequence,
    compare_sequences,
    preview_sequence,
    *enrolment_endpoints.ENDPOINTS,
)
