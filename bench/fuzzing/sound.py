"""Sound requests that no schema could say: they make what others ask for, under the name that is in all their paths."""

import json
from typing import Any

from bench import runs
from bench.fuzzing.corpus import JSON, Asked

_TYPE = (("Content-Type", JSON),)
_INPUT = {"name": "Ann", "email": "ann@example.org", "phone": "+4915112345678"}
_NAME = runs.WORKFLOW
_WHY = {"reason": "a test"}
_TEMPLATE = {
    "channel": "email",
    "default_locale": "en",
    "locales": {"en": {"parts": {"subject": "Hello", "text": "Hello {{ name }}"}}},
}
_SCHEDULE = {"workflow": _NAME, "cron": "0 8 * * *", "time_zone": "Europe/Berlin", "input": _INPUT}
_PLACES = {"addresses": [{"kind": "email", "address": "ann@example.org"}, {"address": "+4915112345678"}]}
_HOOK: dict[str, Any] = {"url": "https://crm.example.org/hooks", "events": ["delivery.*"], **_WHY}
_WHOM = "address=ann%40example.org"


def _asked(operation: str, method: str, path: str, body: Any = None, query: str = "") -> Asked:  # noqa: ANN401 - JSON
    if body is None:
        return Asked(operation, method, path, query, (), None)
    return Asked(operation, method, path, query, _TYPE, json.dumps(body).encode())


_RUNS = (
    *(
        _asked("triggerWorkflow", "POST", f"/workflows/{_NAME}/triggers", body)
        for body in ({"input": _INPUT}, {"input": _INPUT, "idempotency_key": "order-17"})
    ),
    *(
        _asked("workflowEnqueue", "POST", "/workflow-enqueue", body)
        for body in (
            {"action": "enqueue", "payload": {"workflow": _NAME, "data": _INPUT}},
            {"action": "status", "payload": {"execution_id": 1}},
        )
    ),
)
_DELIVERIES = (
    *(
        _asked(
            "createDelivery",
            "POST",
            "/deliveries",
            {"idempotency_key": f"{channel}-{number}", "channel": channel, "recipient": "+4915112345678", "body": "x"},
        )
        for channel in ("sms", "push", "voice")
        for number in range(3)
    ),
)
_THINGS = (
    _asked("putTemplate", "PUT", f"/templates/{_NAME}", {**_TEMPLATE, "publish": True}),
    _asked("previewTemplate", "POST", f"/templates/{_NAME}/preview", {"variables": {"name": "Ann"}}),
    _asked("listTemplateVersions", "GET", f"/templates/{_NAME}/versions"),
    _asked("putSchedule", "PUT", f"/schedules/{_NAME}", _SCHEDULE),
    _asked("getSchedule", "GET", f"/schedules/{_NAME}"),
    _asked("getScheduleTicks", "GET", f"/schedules/{_NAME}/ticks"),
    _asked("createWebhook", "POST", "/webhooks", {"name": _NAME, **_HOOK}),
    _asked("changeWebhook", "PUT", f"/webhooks/{_NAME}", {**_HOOK, "enabled": False}),
    _asked("createKey", "POST", "/keys", {"name": _NAME, "role": "workerService", **_WHY}),
    _asked("rotateKey", "POST", f"/keys/{_NAME}/rotate", _WHY),
    _asked("getKeyLog", "GET", f"/keys/{_NAME}/log"),
)
_PEOPLE = (
    _asked("putContact", "PUT", f"/contacts/{_NAME}", _PLACES),
    _asked("patchContact", "PATCH", f"/contacts/{_NAME}", {"status": "customer"}),
    _asked("listContacts", "GET", "/contacts", query=_WHOM),
    _asked("searchContacts", "POST", "/contact-search", {"address": "ann@example.org"}),
    _asked("getTimeline", "GET", "/persons/timeline", query=_WHOM),
    _asked("exportPerson", "GET", "/persons/export", query=_WHOM),
    _asked("erasePerson", "POST", "/erasures", {"address": "eve@example.org", **_WHY}),
    _asked(
        "unsubscribeFromTopic", "POST", "/topics/unsubscribe", {"topic": "news", "addresses": ["+4930123456"], **_WHY}
    ),
)
SOUND = (*_RUNS, *_DELIVERIES, *_THINGS, *_PEOPLE)
