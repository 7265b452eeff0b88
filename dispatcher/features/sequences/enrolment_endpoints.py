"""The endpoints of enrolments: enrol one contact or many; list, show, pause, resume, cancel and move enrolments."""

from dispatcher.base.errors import TriggerRefused
from dispatcher.features.sequences import enrolment_models as models
from dispatcher.features.sequences import enrolment_store, store
from dispatcher.http.cursors import read_id
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, cut
from dispatcher.http.models import ACTED, Acted, Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "enrolments"
_RIGHT = Right.ENROLMENTS
_OF = "/sequences/{name}/enrolments"
_ONE = "/enrolments/{enrolment_id}"
_REFUSED = (NOT_FOUND, CONFLICT)


def _refusal(refused: TriggerRefused) -> Problem:
    match refused.why:
        case "unknown":
            return Problem(NOT_FOUND, refused.message, refused.faults)
        case "not now":
            return Problem(CONFLICT, refused.message, refused.faults)
        case "faulty":
            return faulty(refused.faults, refused.message)


@endpoint(
    "POST",
    _OF,
    _RIGHT,
    given=models.Enrol,
    example={"contactId": "customer-17"},
    answered=models.ENROLLED,
    status=201,
    problems=_REFUSED,
)
async def enrol_contact(call: Call) -> Done:
    """Enrol a contact in an active sequence.

    A contact is in a sequence once at a time: the second call answers the enrolment that it has.
    """
    given: models.Enrol = call.given
    name = call.named("sequence")
    try:
        row = await enrolment_store.enrol(call.database, call.workspace, name, given.contact_id, call.actor)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    answer = models.Enrolled(
        id=row["enrollment_id"],
        status=row["status"],
        version=row["version"],
        next_step_at=row["next_step_at"],
        duplicate=row["duplicate"],
    )
    return Done(answer, 200 if answer.duplicate else 201)


@endpoint(
    "POST",
    "/sequences/{name}/batch-enroll",
    _RIGHT,
    given=models.EnrolledAudience,
    example={"company": "Lee & Sons", "contactIds": ["customer-18"], "exclude": ["customer-19"]},
    answered=models.BATCH,
    problems=_REFUSED,
    large=True,
)
async def enrol_contacts(call: Call) -> Done:
    """Enrol contacts in an active sequence: those of the filters, which all hold, and those that are named.

    Contacts that are in the sequence, or do not exist, are skipped and counted by reason.
    """
    given: models.EnrolledAudience = call.given
    name = call.named("sequence")
    try:
        row = await enrolment_store.enrol_audience(call.database, call.workspace, name, given.as_json(), call.actor)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    return Done(models.BatchEnrolled(True, models.BatchCounts(**row)))


@endpoint("GET", _OF, _RIGHT, query=models.EnrolmentQuery, answered=models.ENROLMENTS, problems=(NOT_FOUND,))
async def list_enrolments(call: Call) -> Done:
    """List the enrolments of a sequence, the newest first."""
    asked: models.EnrolmentQuery = call.query
    found = await store.find(call.database, call.workspace, call.named("sequence"))
    if found is None:
        raise not_found(f"sequence {call.path['name']}")
    start = read_id(NOUN, asked.cursor)
    rows = await enrolment_store.listed(call.database, found.id, start, asked.limit + 1, asked.status, asked.contact)
    some, more = cut(rows, asked.limit, by_id(NOUN))
    return Done(models.EnrolmentPage([models.Enrolment(**row) for row in some], more))


@endpoint("GET", _ONE, _RIGHT, answered=models.WHOLE_ENROLMENT, problems=(NOT_FOUND,))
async def get_enrolment(call: Call) -> Done:
    """Show an enrolment with what its steps have sent."""
    number = call.number("enrolment_id", "enrolment")
    found = await enrolment_store.show(call.database, call.workspace, number)
    if found is None:
        raise not_found(f"enrolment {number}")
    logs = [models.StepLog(**row) for row in found.pop("logs")]
    return Done(models.WholeEnrolment(**found, logs=logs))


async def _act(call: Call, verb: str, done: str) -> Done:
    number = call.number("enrolment_id", "enrolment")
    answer = await enrolment_store.act(call.database, call.workspace, verb, number, call.given.reason, call.actor)
    what = f"enrolment {number}"
    if answer == "unknown":
        raise not_found(what)
    if answer not in (("cancelled",) if verb == "cancel" else ("done", "same")):
        raise Problem(CONFLICT, f"{what} is {answer}", answer=answer)
    return Done(Acted(number, answer, f"{what} {'was so before' if answer == 'same' else done}"))


_ACTION = {"given": Why, "example": {"reason": "he has called"}, "answered": ACTED, "problems": _REFUSED}


@endpoint("POST", f"{_ONE}/pause", _RIGHT, **_ACTION)  # type: ignore[arg-type]  # the fields of an endpoint
async def pause_enrolment(call: Call) -> Done:
    """Pause an enrolment: nothing more of it is sent."""
    return await _act(call, "pause", "is paused")


@endpoint("POST", f"{_ONE}/resume", _RIGHT, **_ACTION)  # type: ignore[arg-type]  # as above
async def resume_enrolment(call: Call) -> Done:
    """Let a paused enrolment go on. A step that has failed is sent again."""
    return await _act(call, "resume", "goes on")


@endpoint("POST", f"{_ONE}/cancel", _RIGHT, **_ACTION)  # type: ignore[arg-type]  # as above
async def cancel_enrolment(call: Call) -> Done:
    """Cancel an enrolment. The contact can be enrolled again."""
    return await _act(call, "cancel", "is cancelled")


@endpoint(
    "POST",
    "/sequences/{name}/enrolment-changes",
    _RIGHT,
    given=models.ChangeEnrolments,
    example={"action": "pause", "audience": {"tag": "vip"}, "reason": "wrong prices"},
    answered=models.CHANGED,
    problems=_REFUSED,
)
async def change_enrolments(call: Call) -> Done:
    """Pause, resume or cancel the enrolments of an audience, or all; some at a time."""
    given: models.ChangeEnrolments = call.given
    audience = None if given.audience is None else given.audience.as_json()
    asked = call.database, call.workspace, call.named("sequence"), given.action, audience
    try:
        changed = await enrolment_store.change(*asked, given.reason, call.actor, most=models.CHANGED_MAX)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    return Done(models.ChangedEnrolments(changed, more=changed == models.CHANGED_MAX))


@endpoint(
    "POST",
    "/sequences/{name}/move-preview",
    _RIGHT,
    given=models.EnrolmentMove,
    example={"from_version": 1, "to_version": 2},
    answered=models.MOVE_PREVIEW,
    problems=_REFUSED,
    looks=True,
)
async def preview_move(call: Call) -> Done:
    """Show what a move of enrolments to another version would do."""
    given: models.EnrolmentMove = call.given
    asked = call.database, call.workspace, call.named("sequence"), given.from_version, given.to_version
    try:
        rows = await enrolment_store.preview_move(*asked)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    seen = sum(row["enrollments"] for row in rows)
    groups = [models.MoveGroup(**row) for row in rows]
    return Done(models.MovePreview(groups, more=seen >= enrolment_store.PREVIEWED_MAX))


@endpoint(
    "POST",
    "/sequences/{name}/move",
    _RIGHT,
    given=models.EnrolmentMove,
    example={"from_version": 1, "to_version": 2},
    answered=models.MOVED,
    problems=_REFUSED,
)
async def move_enrolments(call: Call) -> Done:
    """Move enrolments of a version to another, some at a time.

    A step that an enrolment has got is not sent again, and one whose time has passed is not sent. One with a message on
    its way is left alone.
    """
    given: models.EnrolmentMove = call.given
    asked = call.database, call.workspace, call.named("sequence"), given.from_version, given.to_version
    try:
        row = await enrolment_store.move(*asked, call.actor, after=given.after, most=models.CHANGED_MAX)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    return Done(models.Moved(**row, more=row["seen"] == models.CHANGED_MAX))


@endpoint(
    "POST",
    "/contact-events",
    _RIGHT,
    given=models.ContactEvent,
    example={"event": "bought", "contactId": "customer-17"},
    answered=models.EVENT_DONE,
    problems=(NOT_FOUND,),
)
async def tell_contact_event(call: Call) -> Done:
    """Tell of an event of a contact: its enrolments in sequences that stop on it are cancelled."""
    given: models.ContactEvent = call.given
    try:
        ended = await enrolment_store.event(call.database, call.workspace, given.event, given.contact_id, call.actor)
    except TriggerRefused as refused:
        raise _refusal(refused) from refused
    return Done(models.ContactEventDone(ended))


ENDPOINTS = (
    enrol_contact,
    enrol_contacts,
    list_enrolments,
    get_enrolment,
    pause_enrolment,
    resume_enrolment,
    cancel_enrolment,
    change_enrolments,
    preview_move,
    move_enrolments,
    tell_contact_event,
)
