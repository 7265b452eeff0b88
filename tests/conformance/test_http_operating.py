"""The clauses about what operators look after, kept through the HTTP door, each through a real socket."""

from tests.api.caller import Caller, make_key
from tests.conformance.outbox import Outbox
from tests.conformance.test_templates import sent
from tests.program import Program


async def test_TE_01_templates_are_drafted_published_and_frozen_over_http(program: Program, outbox: Outbox) -> None:
    await program.start()
    manager, admin = (Caller(program, make_key(program, role)) for role in ("workflowManager", "systemAdmin"))
    said = {"en": {"parts": {"body": "Hello {{ name }}"}}, "de": {"parts": {"body": "Hallo {{ name }}"}}}
    first = {"channel": "sms", "default_locale": "en", "locales": said}
    assert manager.call("PUT", "/templates/welcome", first).json["version"] == 1
    order = {"channel": "sms", "recipient": "+4917012345", "template_name": "welcome", "variables": {"name": "Ann"}}
    drafted = admin.post("/deliveries", order | {"idempotency_key": "draft"})
    assert "has no published version" in drafted.json["detail"]
    assert manager.post("/templates/welcome/publish", {}).json["published"] == 1
    later = {"idempotency_key": "later", "scheduled_for": "2040-01-01T00:00:00Z", "locale": "de-AT"}
    frozen = admin.post("/deliveries", order | later).json["id"]
    second = first | {"locales": {"en": {"parts": {"body": "Good day {{ name }}"}}}, "publish": True}
    assert manager.call("PUT", "/templates/welcome", second).json["published"] == 2
    fresh = admin.post("/deliveries", order | {"idempotency_key": "now", "locale": "de-AT"}).json["id"]
    assert await sent(program, outbox, fresh) == {"body": "Good day Ann"}
    now = {"run_at": "2020-01-01T00:00:00Z", "reason": "in time"}
    assert admin.post(f"/deliveries/{frozen}/move", now).status == 200
    assert await sent(program, outbox, frozen) == {"body": "Hallo Ann"}
