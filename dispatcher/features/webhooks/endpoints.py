"""Webhook endpoints over HTTP: created, changed, rotated and deleted."""

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.features.webhooks import models, store
from dispatcher.features.webhooks.rules import CHANNEL, ENDPOINTS_MAX, events_faults, is_name, url_fault
from dispatcher.features.webhooks.store import Refused
from dispatcher.http.cursors import read_id, read_name
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.listing import by_id, by_name, page
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "webhooks"
LOG_NOUN = "webhook_actions"
_ONE = "/webhooks/{name}"
_URL, _EVENTS = "https://crm.example.org/hooks", ["delivery.*", "run.failed"]


@endpoint("GET", "/webhooks", Right.WEBHOOKS, query=models.WebhookQuery, answered=models.WEBHOOKS)
async def list_webhooks(call: Call) -> Done:
    """List the endpoints that receive events, by name."""
    asked: models.WebhookQuery = call.query
    start = read_name(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1)
    return Done(models.Webhooks(*page(rows, asked.limit, models.Webhook, by_name(NOUN))))


@endpoint("GET", _ONE, Right.WEBHOOKS, answered=models.WEBHOOK, problems=(NOT_FOUND,))
async def get_webhook(call: Call) -> Done:
    """Show an endpoint, without its secret."""
    name = _name(call)
    found = await store.listed(call.database, call.workspace, "", 1, name)
    if not found:
        raise _missing(name)
    return Done(msgspec.convert(found[0], models.Webhook))


@endpoint(
    "POST",
    "/webhooks",
    Right.WEBHOOKS,
    given=models.NewWebhook,
    example={"name": "crm", "url": _URL, "events": _EVENTS, "reason": "the CRM shows what was sent"},
    answered=models.WEBHOOK_SECRET,
    status=201,
    problems=(CONFLICT,),
    shown_once=True,
)
async def create_webhook(call: Call) -> Done:
    """Create an endpoint for events.

    Its messages are signed according to Standard Webhooks. The secret is in this answer and in no other.
    """
    given: models.NewWebhook = call.given
    new = _endpoint(call, given.name, given)
    made = await store.create(call.database, call.workspace, new, call.actor, given.reason)
    if isinstance(made, Refused):
        words = {
            "taken": f"there is an endpoint {given.name}: change it, or take another name",
            "full": f"there are {ENDPOINTS_MAX} endpoints, and a workspace has no more",
        }
        raise Problem(CONFLICT, words[made.why], answer=made.why)
    return Done(models.WebhookSecret(given.name, made), 201)


@endpoint(
    "PUT",
    _ONE,
    Right.WEBHOOKS,
    given=models.ChangedWebhook,
    example={"url": _URL, "events": _EVENTS, "enabled": False, "reason": "the CRM is being moved"},
    answered=models.WEBHOOK_CHANGED,
    problems=(NOT_FOUND,),
)
async def change_webhook(call: Call) -> Done:
    """Change the URL or the events of an endpoint, or disable it.

    A disabled endpoint gets no events; deliveries that wait for it are skipped when they are due.
    """
    name = _name(call)
    given: models.ChangedWebhook = call.given
    new = _endpoint(call, name, given)
    answer = await store.change(call.database, call.workspace, new, call.actor, given.reason)
    if answer == "unknown":
        raise _missing(name)
    return Done(msgspec.convert({"name": name, "answer": answer}, models.WebhookChanged))


@endpoint(
    "POST",
    f"{_ONE}/rotate",
    Right.WEBHOOKS,
    given=models.RotateWebhook,
    example={"overlap_seconds": 86_400, "reason": "every spring"},
    answered=models.WEBHOOK_SECRET,
    problems=(NOT_FOUND,),
    shown_once=True,
)
async def rotate_webhook(call: Call) -> Done:
    """Give an endpoint another secret; both sign until the old one ends."""
    name = _name(call)
    given: models.RotateWebhook = call.given
    made = await store.rotate(call.database, call.workspace, name, given.overlap_seconds, call.actor, given.reason)
    if isinstance(made, Refused):
        raise _missing(name)
    return Done(models.WebhookSecret(name, made))


@endpoint(
    "DELETE", _ONE, Right.WEBHOOKS, query=models.DeleteWebhook, answered=models.WEBHOOK_CHANGED, problems=(NOT_FOUND,)
)
async def delete_webhook(call: Call) -> Done:
    """Delete an endpoint; deliveries that wait for it are skipped when they are due."""
    name, why = _name(call), call.query.reason
    if not await store.delete(call.database, call.workspace, name, call.actor, why):
        raise _missing(name)
    return Done(models.WebhookChanged(name, "deleted"))


@endpoint(
    "GET",
    f"{_ONE}/log",
    Right.WEBHOOKS,
    query=models.WebhookLogQuery,
    answered=models.WEBHOOK_ACTIONS,
    problems=(NOT_FOUND,),
)
async def get_webhook_log(call: Call) -> Done:
    """Show the actions on the endpoints of a name, with actor and reason."""
    asked: models.WebhookLogQuery = call.query
    name, at = _name(call), read_id(LOG_NOUN, asked.cursor)
    rows = await store.actions(call.database, call.workspace, name, asked.limit + 1, at)
    if not rows and asked.cursor is None:
        raise _missing(name, ", and never was")
    return Done(models.WebhookActions(*page(rows, asked.limit, models.WebhookAction, by_id(LOG_NOUN))))


def _name(call: Call) -> str:
    name = call.path["name"]
    if "\0" in name:
        raise _missing(name)
    return name


def _missing(name: str, more: str = "") -> Problem:
    return not_found(f"endpoint {name if is_name(name) else repr(name[:101])}{more}")


def _endpoint(call: Call, name: str, given: models.NewWebhook | models.ChangedWebhook) -> store.Endpoint:
    """Return a valid endpoint. Raises Problem."""
    http = bool(call.served.config().channels[CHANNEL].options.get("allow_addresses"))
    wrong = url_fault(given.url, http=http)
    faults = [*([] if wrong is None else [Fault("$.url", wrong)]), *events_faults(given.events)]
    if faults:
        raise faulty(faults)
    return store.Endpoint(name, given.url, tuple(dict.fromkeys(given.events)), given.enabled)
