"""Rules, triggers and events over HTTP: saved, told, explained, and refused with every fault."""

import json
from typing import Any

import pytest

from tests.support.caller import Caller
from tests.support.rules import LEAD, QUOTE, by_pair, put_template
from tests.support.scene import Connection

COUNT = "SELECT count(*) FROM dispatcher.deliveries"
EVENT: dict[str, Any] = {"trigger": "quote_sent", "variables": {"quote": QUOTE}, "lead": LEAD}
STEPS = {"steps": [{"template": "quote/sent"}]}
RULE = "/rules/quote_sent%2Femail%2Flead"


@pytest.fixture(autouse=True)
async def written(inside: Connection) -> None:
    """What rules name, and no rule yet."""
    for table in ("rules", "event_triggers", "events"):
        await inside.execute(f"DELETE FROM dispatcher.{table}")
    await put_template(inside, reads=["lead.name", "quote.number"])


async def test_a_rule_is_saved_seen_switched_and_deleted(admin: Caller) -> None:
    made = admin.call("PUT", RULE, STEPS)
    assert (made.status, made.json["name"], made.json["enabled"]) == (201, "quote_sent/email/lead", True)
    (step,) = made.json["steps"]
    assert step == {
        "template": "quote/sent",
        "offset": "0s",
        "recipients": {"includeLeadContact": True},
        "enabled": True,
        "order": 1,
    }
    assert (admin.call("PUT", RULE, STEPS).status, admin.get(RULE).json["version"]) == (200, 1)
    assert admin.call("POST", f"{RULE}/disable").json["answer"] == "done"
    assert admin.call("POST", f"{RULE}/disable").json["answer"] == "same"
    assert [one["enabled"] for one in admin.get("/rules?trigger=quote_sent").json["rules"]] == [False]
    assert admin.call("POST", f"{RULE}/enable").json["answer"] == "done"
    assert admin.call("DELETE", RULE).status == 200
    audited = [one["action"] for one in admin.get("/audit?kind=rule&limit=4").json["entries"]]
    assert audited == ["delete", "enable", "disable", "put"]
    assert (admin.get(RULE).status, admin.call("DELETE", RULE).status) == (404, 404)


async def test_every_fault_of_rules_is_named_at_once(admin: Caller, inside: Connection) -> None:
    await put_template(inside, "quote/odd", reads=["quote.colour"])
    steps = [
        {"template": "quote/gone", "offset": "soon"},
        {"template": "quote/odd", "recipients": {"customEmails": ["no address"], "customPhones": [], "all": True}},
    ]
    rules = [
        {"trigger": "quote_snet", "channel": "email", "audience": "lead", "steps": []},
        {"trigger": "quote_sent", "channel": "email", "audience": "lead", "steps": steps},
        {"trigger": "quote_sent", "channel": "whatsapp", "audience": "lead", **STEPS},
        {"trigger": "quote_sent", "channel": "fax", "audience": "Lead"},
    ]
    faults = {one["path"]: one["message"] for one in admin.post("/rules", {"rules": rules}).json["faults"]}
    assert faults["$.rules[0].trigger"] == "there is no trigger 'quote_snet'; did you mean \"quote_sent\"?"
    assert faults["$.rules[1].steps[0].template"] == "there is no template 'quote/gone'"
    assert "is not an offset" in faults["$.rules[1].steps[0].offset"]
    assert "does not promise: quote.colour" in faults["$.rules[1].steps[1].template"]
    assert "is not an e-mail address" in faults["$.rules[1].steps[1].recipients.customEmails[0]"]
    assert "use customEmails" in faults["$.rules[1].steps[1].recipients.customPhones"]
    assert "unknown field" in faults["$.rules[1].steps[1].recipients.all"]
    assert "is for email, not for whatsapp" in faults["$.rules[2].steps[0].template"]
    assert "'fax' is not a channel" in faults["$.rules[3].channel"]
    assert "expected a name" in faults["$.rules[3].audience"]
    assert admin.get("/rules").json["rules"] == []


async def test_an_event_is_told_once_and_its_outcome_noted(admin: Caller, inside: Connection) -> None:
    event = {"trigger": "lead_welcome", "lead": LEAD, "message_id": "lead-1"}
    told = admin.post("/events", event)
    assert (told.status, by_pair(told.json["decisions"])) == (
        201,
        {"email/lead": "fallback", "whatsapp/lead": "fallback"},
    )
    again = admin.post("/events", event)
    assert (again.status, set(by_pair(again.json["decisions"]).values())) == (200, {"duplicate"})
    number = told.json["decisions"][0]["event_id"]
    outcome = {"channel": "email", "audience": "lead", "outcome": "failed", "error": "no server"}
    assert admin.post(f"/events/{number}/outcomes", outcome).json["answer"] == "noted"
    assert admin.post(f"/events/{number}/outcomes", outcome).json["answer"] == "before"
    assert admin.post(f"/events/{number + 1}/outcomes", outcome).status == 404
    refused = admin.post("/events", event | {"trigger": "lead_welcom", "message_id": "x" * 300})
    assert refused.status == 400
    refused = admin.post("/events", event | {"trigger": "lead_welcom"})
    assert refused.json["faults"][0]["message"].endswith('did you mean "lead_welcome"?')


async def test_events_are_told_all_or_none(admin: Caller, inside: Connection) -> None:
    assert admin.call("PUT", RULE, STEPS).status == 201
    before = await inside.fetchval(COUNT)
    events = [EVENT | {"message_id": f"quote-{number}"} for number in range(3)]
    refused = admin.post("/events/batch", {"events": [*events, EVENT | {"trigger": "other"}]})
    assert [one["path"] for one in refused.json["faults"]] == ["$.events[3].trigger"]
    assert await inside.fetchval(COUNT) == before
    told = admin.post("/events/batch", {"events": [*events, events[0]]}).json["events"]
    assert [by_pair(one["decisions"])["email/lead"] for one in told] == ["scheduled"] * 3 + ["duplicate"]
    assert await inside.fetchval(COUNT) == before + 3


async def test_an_explanation_shows_everything_and_writes_nothing(
    admin: Caller, inside: Connection, written: None
) -> None:
    to = {"includeLeadContact": True, "customEmails": ["ANN@example.org", "bo@example.org"]}
    steps = [{"template": "quote/sent", "recipients": to}, {"template": "quote/sent", "offset": "-1d"}]
    assert admin.call("PUT", RULE, {"steps": steps}).status == 201
    before = await inside.fetchval(COUNT)
    shown = admin.post("/rules/explain", EVENT)
    assert shown.status == 200
    mail, _ = shown.json["decisions"]
    first, second = mail["steps"]
    assert [one["address"] for one in first["found"]] == ["ann@example.org", "ANN@example.org", "bo@example.org"]
    assert [one["to"] for one in first["to"]] == ["ann@example.org", "bo@example.org"]
    assert (second["decision"], second["reason"]) == ("skipped", "its time has passed")
    assert [one["parts"]["text"] for one in shown.json["messages"]] == ["Hello Ann Q-17"] * 2
    assert await inside.fetchval(COUNT) == before
    assert await inside.fetchval("SELECT count(*) FROM dispatcher.events") == 0
    # Without anything, the sample of the trigger.
    accepted = admin.post("/rules/explain", {"trigger": "quote_accepted"}).json
    assert {one["parts"]["subject"] for one in accepted["messages"]} == {
        "Thank you: quote Q-17",
        "Accepted: quote Q-17",
    }
    assert [one["fault"] for one in accepted["messages"]] == [None, None]


async def test_a_trigger_is_saved_replaces_a_built_in_one_and_is_deleted(admin: Caller) -> None:
    said = {"variables": ["invoice.number"], "pairs": [{"channel": "email", "audience": "lead", "fallback": "message"}]}
    refused = admin.call("PUT", "/triggers/invoice_due", said)
    assert [one["path"] for one in refused.json["faults"]] == ["$.pairs['email/lead']"]
    said["pairs"] = [{"channel": "email", "audience": "lead", "fallback": "caller"}]
    assert admin.call("PUT", "/triggers/invoice_due", {"variables": []}).status == 201
    assert [admin.call("PUT", "/triggers/invoice_due", said).status for _ in range(2)] == [200, 200]
    assert by_pair(admin.post("/events", {"trigger": "invoice_due"}).json["decisions"]) == {"email/lead": "fallback"}
    own = {"variables": ["lead", "quote"], "pairs": []}
    assert admin.call("PUT", "/triggers/quote_sent", own).json["own"]
    assert admin.post("/events", EVENT).json["decisions"] == []
    assert admin.call("DELETE", "/triggers/quote_sent").status == 200
    assert by_pair(admin.post("/events", EVENT).json["decisions"])["email/lead"] == "fallback"
    assert admin.call("DELETE", "/triggers/quote_sent").status == 404
    names = [one["name"] for one in admin.get("/triggers").json["triggers"]]
    assert names == sorted([*names, "invoice_due"] if "invoice_due" not in names else names)
    assert json.dumps(names).count("quote_sent") == 1


async def test_the_region_is_checked_and_makes_numbers_readable(admin: Caller, inside: Connection) -> None:
    refused = admin.call("PUT", "/settings", {"phone_region": "XX", "time_zone": "Mars/Base"})
    assert [one["path"] for one in refused.json["faults"]] == ["$.phone_region", "$.time_zone"]
    assert admin.get("/settings").json["phone_region"] is None
    assert admin.call("PUT", "/settings", {"phone_region": "DE"}).json["phone_region"] == "DE"
    rule = await inside.fetchval("SELECT phone_rule FROM dispatcher.workspace_settings")
    read = "SELECT number FROM dispatcher.phone_number('0171 2345678', $1)"
    assert await inside.fetchval(read, rule) == "+491712345678"
