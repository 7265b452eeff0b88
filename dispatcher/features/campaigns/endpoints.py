"""The endpoints of campaigns: save, list, show, plan, test, deploy and delete them."""

from typing import Any, NoReturn

import msgspec

from dispatcher.base.errors import TriggerRefused
from dispatcher.features.campaigns import models, planner, store
from dispatcher.features.campaigns.rules import Definition, Window, faults
from dispatcher.features.campaigns.runs.endpoints import ENDPOINTS as OF_RUNS
from dispatcher.features.contacts.rules import audience_json
from dispatcher.http import etags
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.problems import (
    CHANGED,
    CONFLICT,
    NOT_FOUND,
    OVERLOADED,
    Problem,
    faulty,
    not_found,
    refusal,
)
from dispatcher.http.roles import Right

NOUN = "campaigns"
_RIGHT = Right.CAMPAIGNS
_PATH = "/campaigns/{name}"
_PUT = {
    "channel": "email",
    "template": "sale",
    "audience": {"tags": ["newsletter"]},
    "variables": {"discount": 20},
    "topic": "news",
    "send_window": {"from": "09:00", "to": "18:00", "days": ["mon", "tue"], "time_zone": "Europe/Berlin"},
}


@endpoint("GET", "/campaigns", _RIGHT, query=models.CampaignQuery, answered=models.CAMPAIGNS)
async def list_campaigns(call: Call) -> Done:
    """List campaigns by name, each with how far its last run has come."""
    asked: models.CampaignQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, channel=asked.channel)
    return Done(models.Campaigns(*page(rows, asked.limit, models.ListedCampaign, by_name(NOUN))))


@endpoint("GET", _PATH, _RIGHT, answered=models.WHOLE, problems=(NOT_FOUND,), tagged=True)
async def get_campaign(call: Call) -> Done:
    """Show a campaign."""
    found = await _find(call)
    return Done(msgspec.convert(found, models.WholeCampaign), headers={"etag": etags.tag(found["version"])})


async def _find(call: Call) -> dict[str, Any]:
    name = call.named("campaign")
    found = await store.show(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"campaign {name}")
    return found


@endpoint(
    "PUT",
    _PATH,
    _RIGHT,
    given=models.NewCampaign,
    example=_PUT,
    answered=models.SAVED,
    status=201,
    problems=(NOT_FOUND, CONFLICT, CHANGED),
    tagged=True,
)
async def put_campaign(call: Call) -> Done:
    """Save a campaign.

    It cannot be changed while one of its runs is open. Each message has its contact's fields under `contact`.
    """
    given: models.NewCampaign = call.given
    name = call.named("campaign")
    if "/" in name:
        raise not_found(f"campaign {name}: a name has no /")
    said = store.fields(given, call.raw("variables"), audience_json(call.raw("audience")))
    window = given.send_window
    definition = Definition(
        channel=given.channel,
        variables=given.variables,
        window=None if window is None else Window(window.opens, window.closes, window.time_zone),
    )
    found = list(faults(definition, call.served.config().channels))
    found += await store.faults(call.database, call.workspace, said)
    if found:
        raise faulty(found)
    await _require_version(call, name)
    put = await store.put(call.database, call.workspace, name, said, call.actor)
    if put.answer == "open":
        _refuse_open(name, put.open_run, "changed")
    saved = msgspec.convert((await _find(call)) | {"answer": put.answer}, models.SavedCampaign)
    return Done(saved, 201 if put.answer == "created" else 200, {"etag": etags.tag(put.version)})


async def _require_version(call: Call, name: str) -> None:
    """Lock a campaign, and raise Problem unless it is at the version that the request names, if it names any."""
    if call.if_match is None:
        return
    newest = await store.lock_version(call.database, call.workspace, name)
    if newest is None:
        raise not_found(f"campaign {name}")
    etags.require(call, f"campaign {name}", newest)


def _refuse_open(name: str, run_id: int | None, verb: str) -> NoReturn:
    words = f"campaign {name} cannot be {verb}: its run {run_id} is open; wait for its end, or cancel it"
    raise Problem(CONFLICT, words, answer="open")


@endpoint("DELETE", _PATH, _RIGHT, answered=models.DELETED, problems=(NOT_FOUND, CONFLICT, CHANGED), tagged=True)
async def delete_campaign(call: Call) -> Done:
    """Delete a campaign that has no open run; its runs stay."""
    name = call.named("campaign")
    await _require_version(call, name)
    deleted = await store.delete(call.database, call.workspace, name, call.actor)
    if deleted.answer == "unknown":
        raise not_found(f"campaign {name}")
    if deleted.answer == "open":
        _refuse_open(name, deleted.open_run, "deleted")
    return Done(models.DeletedCampaign(name, deleted.answer))


@endpoint("GET", f"{_PATH}/plan", _RIGHT, query=models.PlanQuery, answered=models.PLANNED, problems=(NOT_FOUND,))
async def plan_campaign(call: Call) -> Done:
    """Show what a deployment would come to, and write nothing.

    It has the messages to ten contacts as they would be sent, how many would be skipped and why, what contacts lack
    that the template reads, and how long sending takes at the limits that are set.
    """
    try:
        return Done(await planner.plan(call, await _find(call), call.query.looked_at_max))
    except TriggerRefused as refused:
        raise refusal(refused) from refused


@endpoint(
    "POST",
    f"{_PATH}/deploy",
    _RIGHT,
    given=models.NewDeployment,
    example={"scheduled_for": "2030-01-31T08:00:00Z", "idempotency_key": "spring-2030"},
    answered=models.DEPLOYED,
    status=201,
    problems=(NOT_FOUND, CONFLICT, OVERLOADED),
    makes=("campaign_run_id", "run_id"),
)
async def deploy_campaign(call: Call) -> Done:
    """Deploy a campaign: its contacts and its template's version are frozen, and sending begins.

    A key makes one run: a second deployment with it is answered with the first run and `duplicate: true`.
    """
    given: models.NewDeployment = call.given
    name = call.named("campaign")
    await call.served.shed(None)
    # The header gives the same run again, also after the stored answer has expired.
    key = call.idempotency_key if given.idempotency_key is None else given.idempotency_key
    try:
        found = await store.deploy(call.database, call.workspace, name, given.scheduled_for, key, call.actor)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return Done(found, 200 if found.duplicate else 201)


@endpoint(
    "POST",
    f"{_PATH}/test",
    _RIGHT,
    given=models.NewCampaignTest,
    example={"recipients": ["ann@example.org"]},
    answered=models.TESTED,
    status=201,
    problems=(NOT_FOUND,),
    makes=("campaign_run_id", "run_id"),
)
async def test_campaign(call: Call) -> Done:
    """Send a campaign to given addresses.

    Its variables are those of a contact of the audience. The run is in no total, and keeps no campaign from changes.
    """
    name = call.named("campaign")
    try:
        run_id = await store.test(call.database, call.workspace, name, call.given.recipients, call.actor)
    except TriggerRefused as refused:
        raise refusal(refused) from refused
    return Done(models.TestedCampaign(run_id, name), 201)


ENDPOINTS = (
    list_campaigns,
    get_campaign,
    put_campaign,
    delete_campaign,
    plan_campaign,
    deploy_campaign,
    test_campaign,
    *OF_RUNS,
)
