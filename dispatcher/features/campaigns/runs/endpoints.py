"""The endpoints of campaign runs: list, show, pause, resume, cancel, replay, trace and check them."""

from typing import Any

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.workspace import Workspace
from dispatcher.features.campaigns.runs import models, store
from dispatcher.features.campaigns.runs.rules import sentence
from dispatcher.http.bulk import GOES_ON, PAGE
from dispatcher.http.cursors import cursor, invalid_cursor, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, Endpoint, endpoint
from dispatcher.http.listing import by_id, cut, page
from dispatcher.http.models import ACTED, Acted, Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, not_found, refusal
from dispatcher.http.roles import Right

NOUN = "campaign_runs"
JOBS_NOUN = "campaign_jobs"
TRACE_NOUN = "campaign_trace"
AUDIT_NOUN = "campaign_audit"
REPLAY_NOUN = "campaign_replay"
CHECK_NOUN = "campaign_check"
# The parts of an audit log, in their order.
_EVENTS, _HISTORIES = 1, 2
_FIRST = store.Place(1, 1, 0)

_RIGHT = Right.CAMPAIGNS
_PATH = "/campaign-runs/{campaign_run_id}"
_WHY = {"reason": "the price is wrong"}
_ACTING = (NOT_FOUND, CONFLICT)
_UNKNOWN = "campaign run"


@endpoint("GET", "/campaign-runs", _RIGHT, query=models.CampaignRunQuery, answered=models.CAMPAIGN_RUNS)
async def list_campaign_runs(call: Call) -> Done:
    """List campaign runs, the newest first."""
    asked: models.CampaignRunQuery = call.query
    start = min(read_id(NOUN, asked.cursor), asked.before)
    part = call.part.tenant_id, call.part.workspace_id
    found = await store.listed(call.database, *part, asked, start, asked.limit + 1)
    some, more = cut(found, asked.limit, lambda last: cursor(NOUN, last.id))
    return Done(models.CampaignRuns(list(some), more))


@endpoint("GET", _PATH, _RIGHT, answered=models.WHOLE_CAMPAIGN_RUN, problems=(NOT_FOUND,))
async def get_campaign_run(call: Call) -> Done:
    """Show a campaign run with its progress, at once, however large it is."""
    run_id = call.number("campaign_run_id", _UNKNOWN)
    found = await store.show(call.database, run_id)
    place = None if found is None else {"tenant_id": found.tenant_id, "workspace_id": found.workspace_id}
    if not call.owns(place):
        raise not_found(f"{_UNKNOWN} {run_id}")
    return Done(found)


async def _visible(call: Call) -> tuple[int, dict[str, Any]]:
    """Return the id in the path, of a run in the part of the database that the call is about, and its owner."""
    run_id = call.number("campaign_run_id", _UNKNOWN)
    found = await store.owner(call.database, run_id)
    if found is None or not call.owns(found):
        raise not_found(f"{_UNKNOWN} {run_id}")
    return run_id, found


def _workspace(owner: dict[str, Any]) -> Workspace:
    return Workspace(owner["tenant_id"], owner["workspace_id"])


def _action(verb: store.Verb, description: str) -> Endpoint:
    async def handle(call: Call) -> Done:
        run_id, owner = await _visible(call)
        answer = await store.act(call.database, verb, run_id, call.given.reason, _workspace(owner), call.actor)
        return _done(verb, run_id, answer)

    handle.__name__, handle.__doc__ = f"{verb}_campaign_run", description
    path = f"{_PATH}/{verb}"
    return endpoint("POST", path, _RIGHT, given=Why, example=_WHY, answered=ACTED, problems=_ACTING)(handle)


def _done(verb: str, run_id: int, answer: str) -> Done:
    done, words = sentence(verb, run_id, answer)
    if not done:
        raise Problem(CONFLICT, words, answer=answer)
    return Done(Acted(run_id, answer, words))


pause_campaign_run = _action("pause", "Let nothing more of a campaign run be sent; what is with its provider ends.")
resume_campaign_run = _action("resume", "Let a paused campaign run go on.")
cancel_campaign_run = _action(
    "cancel",
    "Cancel a campaign run: what is not with its provider is skipped.\n\nIt cannot be resumed. It ends when all is "
    "skipped: partial if anything was sent, else failed.",
)


@endpoint(
    "POST",
    f"{_PATH}/rate",
    _RIGHT,
    given=models.CampaignRate,
    example={"rate": 50},
    answered=ACTED,
    problems=_ACTING,
)
async def set_campaign_run_rate(call: Call) -> Done:
    """Change the rate of a campaign run while it runs.

    Without a rate it goes as fast as its channel.
    """
    run_id, owner = await _visible(call)
    try:
        answer = await store.set_rate(call.database, run_id, call.given.rate, _workspace(owner), call.actor)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return _done("rate", run_id, answer)


@endpoint(
    "POST",
    f"{_PATH}/replay",
    _RIGHT,
    given=models.CampaignReplay,
    example={"reason": "the provider was down"},
    answered=models.REPLAYED,
    problems=_ACTING,
    description=GOES_ON,
)
async def replay_campaign_run(call: Call) -> Done:
    """Send the failed deliveries of a campaign run again.

    The run and their jobs are open again until they have ended.
    """
    asked: models.CampaignReplay = call.given
    after = 0 if asked.cursor is None else read_numbers(REPLAY_NOUN, asked.cursor, 1, "$.cursor")[0]
    run_id, owner = await _visible(call)
    if owner["cancelled"]:
        words = f"campaign run {run_id} was cancelled: what it has not sent is not sent; deploy the campaign again"
        raise Problem(CONFLICT, words, answer="cancelled")
    replayed, looked = 0, 0
    while looked < asked.limit:
        size = min(PAGE, asked.limit - looked)
        found = await store.replay(
            call.database, run_id, after, size, reason=asked.reason, here=_workspace(owner), actor=call.actor
        )
        replayed += found.replayed
        if found.last is None:
            return Done(models.ReplayedCampaignRun(replayed, None))
        looked, after = looked + size, found.last
    return Done(models.ReplayedCampaignRun(replayed, cursor(REPLAY_NOUN, after)))


@endpoint(
    "GET",
    f"{_PATH}/jobs",
    _RIGHT,
    query=models.CampaignJobQuery,
    answered=models.JOBS,
    problems=(NOT_FOUND,),
)
async def list_campaign_run_jobs(call: Call) -> Done:
    """List the jobs of a campaign run."""
    run_id, _ = await _visible(call)
    asked: models.CampaignJobQuery = call.query
    after = 0 if asked.cursor is None else read_numbers(JOBS_NOUN, asked.cursor, 1)[0]
    rows = await store.jobs(call.database, run_id, after, asked.limit + 1, asked.status)
    return Done(models.Jobs(*page(rows, asked.limit, models.CampaignJob, by_id(JOBS_NOUN))))


@endpoint(
    "GET",
    f"{_PATH}/trace",
    _RIGHT,
    query=models.CampaignTraceQuery,
    answered=models.TRACE,
    problems=(NOT_FOUND,),
)
async def trace_campaign_run(call: Call) -> Done:
    """List the deliveries of a campaign run beside their jobs."""
    run_id, _ = await _visible(call)
    asked: models.CampaignTraceQuery = call.query
    job_id, first = (1, 1) if asked.cursor is None else read_numbers(TRACE_NOUN, asked.cursor, 2)
    rows = await store.trace(call.database, run_id, job_id, first, asked.limit + 1, asked.status)

    def end(last: Any) -> str:  # noqa: ANN401 - asyncpg's record
        return cursor(TRACE_NOUN, last["job_id"], (last["outbox_id"] or 0) + 1)

    return Done(models.Trace(*page(rows, asked.limit, models.TracedDelivery, end)))


@endpoint(
    "GET",
    f"{_PATH}/audit",
    _RIGHT,
    query=models.CampaignAuditQuery,
    answered=models.AUDIT_LOG,
    problems=(NOT_FOUND,),
)
async def get_campaign_run_audit(call: Call) -> Done:
    """Show everything that happened to a campaign run: by whom, when and why.

    First what happened to the run and its jobs, then to one delivery after the other.
    """
    run_id, _ = await _visible(call)
    asked: models.CampaignAuditQuery = call.query
    of_deliveries = asked.entity == "delivery"
    part, *at = _read_audit(asked.cursor) if asked.cursor else (_HISTORIES if of_deliveries else _EVENTS, 0, 0, 0)
    place = store.Place(at[0], at[1], at[2] - 1) if part == _HISTORIES and asked.cursor else _FIRST
    found: list[models.CampaignEvent] = []
    if part == _EVENTS:
        events = await store.events(call.database, run_id, at[0], asked.limit + 1, asked.entity)
        some, more = cut(events, asked.limit, lambda last: cursor(AUDIT_NOUN, _EVENTS, last[0], 1, 1))
        found = [one for _, one in some]
        if more is not None or asked.entity is not None:
            return Done(models.AuditLog(found, more))
    room = asked.limit - len(found)
    entries = await store.histories(call.database, run_id, place, room + 1)
    if len(entries) <= room:
        return Done(models.AuditLog([*found, *entries], None))
    return Done(models.AuditLog([*found, *entries[:room]], _behind(place, entries[:room])))


def _read_audit(text: str) -> list[int]:
    numbers = read_numbers(AUDIT_NOUN, text, 4)
    if numbers[0] > _HISTORIES:
        raise invalid_cursor()
    return numbers


def _behind(place: store.Place, shown: list[models.CampaignEvent]) -> str:
    """Return the cursor of what follows these entries, which begin at a place."""
    if not shown:
        return cursor(AUDIT_NOUN, _HISTORIES, place.job_id, place.delivery_id, place.seen + 1)
    job_id, delivery_id = shown[-1].job_id or 1, shown[-1].delivery_id or 1
    seen = sum(one.delivery_id == delivery_id for one in shown)
    if place.delivery_id == delivery_id:
        seen += place.seen
    return cursor(AUDIT_NOUN, _HISTORIES, job_id, delivery_id, seen + 1)


@endpoint(
    "GET",
    f"{_PATH}/check",
    _RIGHT,
    query=models.CampaignCheckQuery,
    answered=models.CHECKED,
    problems=(NOT_FOUND,),
)
async def check_campaign_run(call: Call) -> Done:
    """Check the contract's three sentences for a campaign run, and name the items that break them.

    The run is terminal; each intended item has a terminal delivery; there are no duplicates: each item has one
    delivery, no address is written to twice, no message id is there twice. Keys are computed again from the jobs.
    """
    run_id, owner = await _visible(call)
    asked: models.CampaignCheckQuery = call.query
    after = 0 if asked.cursor is None else read_numbers(CHECK_NOUN, asked.cursor, 1)[0]
    found = await store.check(call.database, run_id, _workspace(owner), after, asked.limit)
    if found is None:
        raise not_found(f"{_UNKNOWN} {run_id}")
    return Done(
        models.CampaignCheck(
            breaches=found.breaches,
            next_cursor=None if found.last_job is None else cursor(CHECK_NOUN, found.last_job),
            status=found.status,
            jobs=found.jobs,
            items=found.items,
            broken=found.broken,
        )
    )


ENDPOINTS = (
    list_campaign_runs,
    get_campaign_run,
    pause_campaign_run,
    resume_campaign_run,
    cancel_campaign_run,
    set_campaign_run_rate,
    replay_campaign_run,
    list_campaign_run_jobs,
    trace_campaign_run,
    get_campaign_run_audit,
    check_campaign_run,
)
