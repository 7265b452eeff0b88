"""Endpoints of webhooks over HTTP: made with a secret that is shown once, changed, rotated, and gone."""

from typing import Any

import pytest

from dispatcher.features.webhooks.rules import ENDPOINTS_MAX, EVENTS
from tests.support.caller import Caller, make_key
from tests.support.walking import walk

URL = "https://crm.example.org/hooks"


def made(admin: Caller, name: str, **fields: Any) -> Any:
    """An endpoint."""
    return admin.post("/webhooks", {"name": name, "url": URL, "events": ["delivery.*"], "reason": "a test"} | fields)


async def test_a_secret_is_in_the_answer_that_made_it_and_in_no_other(admin: Caller) -> None:
    created = made(admin, "crm", events=["delivery.sent", "run.*", "run.*"])
    assert created.status == 201
    secret = created.json["secret"]
    assert secret.startswith("whsec_")
    shown = admin.get("/webhooks/crm")
    assert (shown.json["url"], shown.json["events"]) == (URL, ["delivery.sent", "run.*"])
    assert (shown.json["enabled"], shown.json["old_secret_until"]) == (True, None)
    rotated = admin.post("/webhooks/crm/rotate", {"reason": "spring", "overlap_seconds": 60})
    assert rotated.json["secret"] != secret
    shown, listed = admin.get("/webhooks/crm"), admin.get("/webhooks")
    assert shown.json["old_secret_until"] is not None
    for answer in (shown, listed):
        assert b"whsec_" not in answer.body
    assert made(admin, "crm").status == 409


async def test_one_is_changed_and_deleted(admin: Caller) -> None:
    made(admin, "moving")
    to = {"url": "https://b.example.org/", "events": ["run.failed"], "enabled": False, "reason": "moved"}
    answers = [admin.call("PUT", "/webhooks/moving", to).json["answer"] for _ in range(2)]
    assert answers == ["changed", "same"]
    shown = admin.get("/webhooks/moving").json
    assert (shown["url"], shown["events"], shown["enabled"]) == ("https://b.example.org/", ["run.failed"], False)
    assert admin.call("DELETE", "/webhooks/moving").json == {"name": "moving", "answer": "deleted"}
    for method, path, body in (
        ("GET", "/webhooks/moving", None),
        ("PUT", "/webhooks/moving", to),
        ("POST", "/webhooks/moving/rotate", {"reason": "x"}),
        ("DELETE", "/webhooks/moving", None),
        ("GET", "/webhooks/a%00b", None),
    ):
        assert admin.call(method, path, body).status == 404, method


async def test_a_page_leads_to_the_next(admin: Caller) -> None:
    names = ["page-1", "page-2", "page-3"]
    for name in names:
        made(admin, name)
    assert [one["name"] for one in walk(admin, "/webhooks", 1) if one["name"].startswith("page-")] == names
    behind = admin.get("/webhooks?after=page-1&limit=2").json["webhooks"]
    assert [one["name"] for one in behind] == names[1:]
    assert behind[0]["id"] < behind[1]["id"]


async def test_actions_are_stored_with_actor_and_reason(admin: Caller) -> None:
    made(admin, "logged")
    admin.post("/webhooks/logged/rotate", {"reason": "spring"})
    admin.call("DELETE", "/webhooks/logged?reason=it%20was%20a%20test%20%26%20is%20over")
    made(admin, "logged", reason="once more")
    admin.call("DELETE", "/webhooks/logged")
    found = walk(admin, "/webhooks/logged/log")
    assert [(one["action"], one["reason"]) for one in found] == [
        ("delete", "over HTTP"),
        ("create", "once more"),
        ("delete", "it was a test & is over"),
        ("rotate", "spring"),
        ("create", "a test"),
    ]
    assert {one["name"] for one in found} == {"logged"}
    assert all(one["actor"].startswith("key systemAdmin.") for one in found)
    assert list(admin.call("DELETE", "/webhooks/logged?reason=%20").faults) == ["query.reason"]
    assert admin.get("/webhooks/nobody/log").status == admin.get("/webhooks/a%00b/log").status == 404


async def test_why_there_is_no_endpoint_is_said_in_a_word(admin: Caller) -> None:
    beside = Caller(admin.program, make_key(admin.program, "systemAdmin", "default", "full"))
    for number in range(ENDPOINTS_MAX):
        assert made(beside, f"one-{number}").status == 201
        if not number:
            assert made(beside, "one-0").json["answer"] == "taken"
    assert made(beside, "one-more").json["answer"] == "full"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"url": "http://crm.example.org/"}, "$.url"),
        ({"url": "ftp://crm.example.org/"}, "$.url"),
        ({"url": "https://a:b@crm.example.org/"}, "$.url"),
        ({"url": "https://"}, "$.url"),
        ({"url": ""}, "$.url"),
        ({"url": "https://crm.example.org/" + "x" * 2_000}, "$.url"),
        ({"url": "https://crm.example.org/ x"}, "$.url"),
        ({"url": "https://crm.example.org/\u00e4"}, "$.url"),
        ({"url": "https://crm.example.org:0/"}, "$.url"),
        ({"url": "https://[::1/"}, "$.url"),
        ({"events": []}, "$.events"),
        ({"events": ["delivery.sent", "delivery.born"]}, "$.events[1]"),
        ({"events": ["*"]}, "$.events[0]"),
        ({"name": "a/b"}, "$.name"),
        ({"name": ""}, "$.name"),
        ({"secret": "whsec_x"}, "$.secret"),
    ],
    ids=str,
)
async def test_invalid_endpoints_are_refused_with_their_path(admin: Caller, fields: dict[str, Any], path: str) -> None:
    given = {"name": "faulty", "url": URL, "events": list(EVENTS), "reason": "a test"} | fields
    answer = admin.post("/webhooks", given)
    assert answer.status == 400
    assert path in answer.faults
    assert admin.get("/webhooks/faulty").status == 404
