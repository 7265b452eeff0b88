"""Webhook endpoints over HTTP: making, changing, rotating and deleting them."""

import msgspec

from dispatcher.api import webhook_models
from dispatcher.api.cursors import after, below
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import by_id, by_name, page
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.domain.roles import Right
from dispatcher.domain.webhooks import CHANNEL, ENDPOINTS_MAX, events_faults, url_fault
from dispatcher.errors import Fault
from dispatcher.store import webhooks as store
from dispatcher.store.webhooks import Refused

NOUN = "webhooks"
LOG_NOUN = "webhook_actions"
_ONE = "/webhooks/{name}"


async def list_(call: Call) -> Done:
    """By name."""
    asked: webhook_models.WebhookQuery = call.query
    start = after(NOUN, asked.cursor) or asked.after or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1)
    return Done(webhook_models.Webhooks(*page(rows, asked.limit, webhook_models.Webhook, by_name(NOUN))))


async def show(call: Call) -> Done:
    """One, without its secret."""
    name = _name(call)
    found = await store.show(call.database, call.workspace, name)
    if found is None:
        raise _missing(name)
    return Done(msgspec.convert(found, webhook_models.Webhook))


async def create(call: Call) -> Done:
    """Make one; its secret is in this answer alone."""
    given: webhook_models.NewWebhook = call.given
    made = await store.create(
        call.database, call.workspace, _endpoint(call, given.name, given), call.actor, given.reason
    )
    if isinstance(made, Refused):
        words = {
            "taken": f"there is an endpoint {given.name}: change it, or take another name",
            "full": f"there are {ENDPOINTS_MAX} endpoints, and a workspace has no more",
        }
        raise Problem(CONFLICT, words[made.why], answer=made.why)
    return Done(webhook_models.WebhookSecret(given.name, made), 201)


async def change(call: Call) -> Done:
    """Let one be as it is told now."""
    name = _name(call)
    given: webhook_models.ChangedWebhook = call.given
    new = _endpoint(call, name, given)
    answer = await store.change(call.database, call.workspace, new, call.actor, given.reason)
    if answer == "unknown":
        raise _missing(name)
    return Done(msgspec.convert({"name": name, "answer": answer}, webhook_models.WebhookChanged))


async def rotate(call: Call) -> Done:
    """Give one another secret."""
    name = _name(call)
    given: webhook_models.RotateWebhook = call.given
    made = await store.rotate(call.database, call.workspace, name, given.overlap_seconds, call.actor, given.reason)
    if isinstance(made, Refused):
        raise _missing(name)
    return Done(webhook_models.WebhookSecret(name, made))


async def delete(call: Call) -> Done:
    """Delete one, and its secrets."""
    name, why = _name(call), call.query.reason
    if not await store.delete(call.database, call.workspace, name, call.actor, why):
        raise _missing(name)
    return Done(webhook_models.WebhookChanged(name, "deleted"))


async def log(call: Call) -> Done:
    """What was done to those of a name."""
    asked: webhook_models.WebhookLogQuery = call.query
    name, at = _name(call), below(LOG_NOUN, asked.cursor)
    rows = await store.actions(call.database, call.workspace, name, asked.limit + 1, at)
    if not rows and asked.cursor is None:
        raise not_found(f"endpoint {name[:101]!r}, and never was")
    return Done(webhook_models.WebhookActions(*page(rows, asked.limit, webhook_models.WebhookAction, by_id(LOG_NOUN))))


def _name(call: Call) -> str:
    name = call.path["name"]
    if "\0" in name:
        raise _missing(name)
    return name


def _missing(name: str) -> Problem:
    return not_found(f"endpoint {name[:101]!r}")


def _endpoint(
    call: Call, name: str, given: webhook_models.NewWebhook | webhook_models.ChangedWebhook
) -> store.Endpoint:
    """An endpoint that is sound. Raises Problem."""
    plain = bool(call.served.config().channels[CHANNEL].options.get("allow_addresses"))
    wrong = url_fault(given.url, plain=plain)
    faults = [*([] if wrong is None else [Fault("$.url", wrong)]), *events_faults(given.events)]
    if faults:
        raise faulty(faults)
    return store.Endpoint(name, given.url, tuple(dict.fromkeys(given.events)), given.enabled)


_URL, _EVENTS = "https://crm.example.org/hooks", ["delivery.*", "run.failed"]

ENDPOINTS = (
    Endpoint(
        operation="listWebhooks",
        method="GET",
        path="/webhooks",
        right=Right.WEBHOOKS,
        summary="List the endpoints that are told what happens, by name",
        query=webhook_models.WebhookQuery,
        answer=webhook_models.Webhooks,
        handle=list_,
    ),
    Endpoint(
        operation="createWebhook",
        method="POST",
        path="/webhooks",
        right=Right.WEBHOOKS,
        summary="Let an endpoint be told what happens",
        description="Its messages are signed as Standard Webhooks ask. The secret is in this answer and in no other.",
        given=webhook_models.NewWebhook,
        example={"name": "crm", "url": _URL, "events": _EVENTS, "reason": "the CRM shows what was sent"},
        answer=webhook_models.WebhookSecret,
        status=201,
        problems=(CONFLICT,),
        handle=create,
        shown_once=True,
    ),
    Endpoint(
        operation="getWebhook",
        method="GET",
        path=_ONE,
        right=Right.WEBHOOKS,
        summary="Show an endpoint, without its secret",
        answer=webhook_models.Webhook,
        problems=(NOT_FOUND,),
        handle=show,
    ),
    Endpoint(
        operation="changeWebhook",
        method="PUT",
        path=_ONE,
        right=Right.WEBHOOKS,
        summary="Let an endpoint be elsewhere, want to know something else, or nothing for a while",
        description="A disabled one is told nothing; what waits for it is skipped when its time comes.",
        given=webhook_models.ChangedWebhook,
        example={"url": _URL, "events": _EVENTS, "enabled": False, "reason": "the CRM is being moved"},
        answer=webhook_models.WebhookChanged,
        problems=(NOT_FOUND,),
        handle=change,
    ),
    Endpoint(
        operation="rotateWebhook",
        method="POST",
        path=f"{_ONE}/rotate",
        right=Right.WEBHOOKS,
        summary="Give an endpoint another secret; until the old one ends both sign",
        given=webhook_models.RotateWebhook,
        example={"overlap_seconds": 86_400, "reason": "every spring"},
        answer=webhook_models.WebhookSecret,
        problems=(NOT_FOUND,),
        handle=rotate,
        shown_once=True,
    ),
    Endpoint(
        operation="deleteWebhook",
        method="DELETE",
        path=_ONE,
        right=Right.WEBHOOKS,
        summary="Delete an endpoint; what waits for it is skipped when its time comes",
        query=webhook_models.DeleteWebhook,
        answer=webhook_models.WebhookChanged,
        problems=(NOT_FOUND,),
        handle=delete,
    ),
    Endpoint(
        operation="getWebhookLog",
        method="GET",
        path=f"{_ONE}/log",
        right=Right.WEBHOOKS,
        summary="Show who made, changed, rotated, disabled and deleted the endpoints of a name, and why",
        query=webhook_models.WebhookLogQuery,
        answer=webhook_models.WebhookActions,
        problems=(NOT_FOUND,),
        handle=log,
    ),
)
