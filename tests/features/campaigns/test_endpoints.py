"""Campaigns over HTTP: saved, changed, planned, tested, deployed and deleted, with every fault."""

import asyncio
import json
from typing import Any

import pytest

from tests.features.campaigns.surface import deploy, ended, prepare, put, write_contacts, write_template
from tests.support.caller import Caller
from tests.support.scene import Connection
from tests.support.walking import walk

LATER = "2040-01-01T00:00:00Z"


async def test_a_campaign_is_saved_seen_changed_and_deleted(admin: Caller) -> None:
    write_template(admin, "saved", "Hi")
    window = {"from": "09:00", "to": "24:00", "days": ["mon"], "time_zone": "Europe/Berlin"}
    rest: dict[str, Any] = {"variables": {"n": 1}, "topic": "news", "rate": 2.5, "send_window": window}
    made = put(admin, "saved", **rest)
    assert (made.status, made.headers["etag"], made.json["answer"]) == (201, '"1"', "created")
    assert (made.json["lane"], made.json["send_window"], made.json["open_run"]) == ("bulk", window, None)
    assert (put(admin, "saved", **rest).status, put(admin, "saved", **rest).json["answer"]) == (200, "same")
    assert put(admin, "saved", lane="normal").headers["etag"] == '"2"'
    shown = admin.get("/campaigns/saved")
    assert (shown.headers["etag"], shown.json["lane"], shown.json["rate"]) == ('"2"', "normal", None)
    assert (shown.json["audience"], shown.json["send_window"]) == ({"tags": ["saved"]}, None)
    assert shown.json["updated_by"].startswith("key systemAdmin.")
    assert admin.call("DELETE", "/campaigns/saved").json == {"name": "saved", "answer": "deleted"}
    done = [row for row in admin.get("/audit?limit=50").json["entries"] if row["subject"] == "saved"]
    assert [(row["action"], row["actor"]) for row in done][:1] == [("delete", shown.json["updated_by"])]
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/plan")):
        assert admin.call(method, f"/campaigns/saved{path}").status == 404
    assert admin.post("/campaigns/saved/deploy", {}).status == 404
    assert admin.post("/campaigns/saved/test", {"recipients": ["+49170"]}).status == 404


async def test_numbers_stay_as_they_were_written(admin: Caller) -> None:
    write_template(admin, "exact", "Hi")
    said = (
        b'{"channel":"sms","template":"exact","audience":{"attributes":{"n":1.10},"tags":null},"variables":{"n":1.50}}'
    )
    assert admin.call("PUT", "/campaigns/exact", said).status == 201
    shown = admin.get("/campaigns/exact").body
    assert b'"n": 1.50' in shown
    assert b'{"attributes": {"n": 1.10}}' in shown


async def test_a_version_that_somebody_has_not_seen_is_not_overwritten(admin: Caller) -> None:
    write_template(admin, "tag", "Hi")
    assert put(admin, "tag", '"1"').status == 404
    assert put(admin, "tag").status == 201
    assert put(admin, "tag", '"1"', rate=1).headers["etag"] == '"2"'
    assert put(admin, "tag", '"1"', rate=2).status == 412
    at_once = await asyncio.gather(
        *(asyncio.to_thread(put, admin, "tag", '"2"', rate=10 + number) for number in range(5))
    )
    assert sorted(one.status for one in at_once) == [200, *[412] * 4]
    deleted = [admin.call("DELETE", "/campaigns/tag", headers=[("if-match", tag)]).status for tag in ('"2"', '"3"')]
    assert deleted == [412, 200]


async def test_nothing_changes_while_a_run_is_open(admin: Caller) -> None:
    prepare(admin, "open")
    run = deploy(admin, "open", scheduled_for=LATER)
    assert admin.get("/campaigns/open").json["open_run"] == run
    for answer in (put(admin, "open", rate=5), admin.call("DELETE", "/campaigns/open")):
        assert (answer.status, answer.json["answer"]) == (409, "open")
        assert f"its run {run} is open" in answer.json["detail"]
    assert put(admin, "open").json["answer"] == "same"
    assert admin.post(f"/campaign-runs/{run}/cancel", {"reason": "test"}).status == 200
    assert (await ended(admin, run))["status"] == "failed"
    assert put(admin, "open", rate=5).json["answer"] == "changed"
    assert admin.call("DELETE", "/campaigns/open").status == 200
    assert admin.get(f"/campaign-runs/{run}").json["campaign"] == "open"


FAULTS: list[tuple[dict[str, Any], set[str]]] = [
    (
        {
            "channel": "smss",
            "variables": {"contact": 1},
            "send_window": {"from": "18:00", "to": "09:00", "time_zone": "Nowhere/City"},
            "audience": {"contacts": ["nobody", 99999999]},
        },
        {
            *("$.channel", "$.template", "$.variables.contact", "$.audience.contacts"),
            *("$.send_window.to", "$.send_window.time_zone"),
        },
    ),
    ({"template": "nowhere"}, {"$.template"}),
    ({"template": "of-mail"}, {"$.template"}),
    ({"template": "unpublished"}, {"$.template"}),
    ({"audience": {}}, {"$.audience"}),
    ({"audience": {"all": False}}, {"$.audience.all"}),
    ({"audience": {"all": True, "tags": ["a"]}}, {"$.audience.all"}),
    (
        {"audience": {"tags": "vip", "status": 7, "attributes": [], "contacts": [1.5]}, "topic": "News!", "rate": 0},
        {
            *(
                "$.audience.tags",
                "$.audience.status",
                "$.audience.attributes",
                "$.audience.contacts",
                "$.topic",
                "$.rate",
            ),
        },
    ),
    (
        {"audience": {"tag": ["vip"]}, "lane": "slow", "send_window": {"from": "9", "days": ["monday"]}},
        {
            *("$.audience.tag", "$.lane", "$.send_window.from", "$.send_window.days", "$.send_window.to"),
        },
    ),
    ({"audience": {"attributes": {}}}, {"$.audience.attributes"}),
    ({"send_window": {"from": "09:00", "to": "10:00", "days": []}}, {"$.send_window.days"}),
    ({"send_window": {"from": "09:00", "to": "09:00"}}, {"$.send_window.to"}),
    ({"audience": {"contacts": [*range(1, 100_002)]}}, {"$.audience.contacts"}),
    ({"variables": {"n": 2**70}}, {"$.variables"}),
]


@pytest.mark.parametrize(("fields", "paths"), FAULTS)
async def test_every_fault_of_a_campaign_is_told(admin: Caller, fields: dict[str, Any], paths: set[str]) -> None:
    write_template(admin, "wrong", "Hi")
    write_template(admin, "of-mail", "Hi", "email")
    said = {"channel": "sms", "locales": {"en": {"parts": {"body": "Hi"}}}, "default_locale": "en"}
    admin.call("PUT", "/templates/unpublished", said)
    answer = put(admin, "wrong", **fields)
    assert (answer.status, {path.partition("[")[0] for path in answer.faults}) == (400, paths)
    assert admin.get("/campaigns/wrong").status == 404


async def test_faults_say_what_to_do(admin: Caller) -> None:
    write_template(admin, "words", "Hi")
    many = put(admin, "words", audience={"contacts": [*range(1, 100_002)]}).faults["$.audience.contacts"]
    assert "names 100001 contacts, and 100000 are the most: give them a tag" in many
    unknown = put(admin, "words", audience={"contacts": [f"no-{number}" for number in range(12)]})
    assert unknown.faults["$.audience.contacts"].startswith("unknown contacts: no-0, no-1,")
    assert unknown.faults["$.audience.contacts"].endswith("and 2 more")
    assert 'did you mean "tags"' in put(admin, "words", audience={"tagss": ["a"]}).faults["$.audience.tagss"]
    assert 'did you mean "sms"' in put(admin, "words", channel="smss").faults["$.channel"]


async def test_two_million_ids_are_refused_before_they_are_read(admin: Caller) -> None:
    said = {"channel": "sms", "template": "x", "audience": {"contacts": [*range(1, 2_000_001)]}}
    assert admin.call("PUT", "/campaigns/millions", json.dumps(said).encode()).status == 413


async def test_a_deployment_is_done_once_by_its_key_in_the_body_or_the_head(admin: Caller) -> None:
    prepare(admin, "once")
    first = admin.post("/campaigns/once/deploy", {"idempotency_key": "once-1", "scheduled_for": LATER})
    assert (first.status, first.json["intended"], first.json["jobs"], first.json["duplicate"]) == (201, 3, 1, False)
    again = admin.post("/campaigns/once/deploy", {"idempotency_key": "once-1"})
    assert (again.status, again.json["run_id"], again.json["duplicate"]) == (200, first.json["run_id"], True)
    headed = admin.post("/campaigns/once/deploy", {"scheduled_for": LATER}, idempotency_key="once-2")
    same = admin.post("/campaigns/once/deploy", {"scheduled_for": LATER}, idempotency_key="once-2")
    assert (headed.json["run_id"], same.headers["idempotency-replayed"]) == (same.json["run_id"], "true")
    assert admin.get(f"/campaign-runs/{headed.json['run_id']}").json["idempotency_key"] == "once-2"
    prepare(admin, "other")
    taken = admin.post("/campaigns/other/deploy", {"idempotency_key": "once-1"})
    assert (taken.status, list(taken.faults)) == (409, ["$.idempotency_key"])


async def test_an_audience_of_nobody_is_refused_at_deployment_only(admin: Caller) -> None:
    write_template(admin, "nobody", "Hi")
    assert put(admin, "nobody").status == 201
    planned = admin.get("/campaigns/nobody/plan").json
    assert (planned["contacts"], planned["refused"]) == (0, "$.audience: nobody is in it")
    refused = admin.post("/campaigns/nobody/deploy", {})
    assert (refused.status, refused.faults) == (400, {"$.audience": "nobody is in it"})


async def test_a_run_stays_on_the_version_of_its_template(admin: Caller, inside: Connection) -> None:
    prepare(admin, "frozen", 1, "old for {{ contact.name }}")
    run = deploy(admin, "frozen")
    assert admin.post(f"/campaign-runs/{run}/pause", {"reason": "test"}).status in (200, 409)
    write_template(admin, "frozen", "new for {{ contact.name }}")
    admin.post(f"/campaign-runs/{run}/resume", {"reason": "test"})
    assert (await ended(admin, run))["status"] == "completed"
    sent = """SELECT m.parts::text FROM dispatcher.captured_messages m
                JOIN dispatcher.deliveries d ON d.id = m.delivery_id WHERE d.run_id = $1"""
    assert "old for Name 0" in await inside.fetchval(sent, run)


async def test_a_test_goes_to_the_given_addresses_and_is_in_no_total(admin: Caller) -> None:
    prepare(admin, "tested", 2)
    assert list(admin.post("/campaigns/tested/test", {"recipients": []}).faults) == ["$.recipients"]
    answer = admin.post("/campaigns/tested/test", {"recipients": ["+4917099999", "+4917099998"]})
    assert answer.status == 201
    run = await ended(admin, answer.json["run_id"])
    assert (run["test"], run["status"], run["sent"], run["intended"]) == (True, "completed", 2, 2)
    assert admin.get("/campaigns/tested").json["open_run"] is None
    traced = [one["recipient"] for one in walk(admin, f"/campaign-runs/{run['id']}/trace")]
    assert sorted(traced) == ["+4917099998", "+4917099999"]


async def test_campaigns_are_walked_page_by_page(admin: Caller) -> None:
    write_template(admin, "page", "Hi")
    for number in range(5):
        assert put(admin, f"page-{number}", template="page").status == 201
    names = [one["name"] for one in walk(admin, "/campaigns?channel=sms")]
    assert [name for name in names if name.startswith("page-")] == [f"page-{number}" for number in range(5)]
    assert not walk(admin, "/campaigns?channel=email")


async def test_a_campaign_is_listed_with_the_last_run_that_is_no_test(admin: Caller) -> None:
    prepare(admin, "last", 2)

    def last() -> Any:
        return next(one["last_run"] for one in walk(admin, "/campaigns") if one["name"] == "last")

    assert last() is None
    assert admin.post("/campaigns/last/test", {"recipients": ["+4917099999"]}).status == 201
    assert last() is None
    await ended(admin, deploy(admin, "last"))
    run = await ended(admin, deploy(admin, "last"))
    seen = last()
    assert (seen["id"], seen["status"], seen["sent"], seen["waiting"]) == (run["id"], "completed", 2, 0)
    assert seen == {name: run[name] for name in seen}


async def test_an_audience_is_counted_explained_and_shown(admin: Caller) -> None:
    write_contacts(admin, "seen", 12)
    write_contacts(admin, "more", 3, status="lead")
    said = {"tags": ["seen"], "attributes": {"number": 3}, "contacts": ["more-1"], "exclude": ["more-2"]}
    seen = admin.post("/audience", {"audience": said}).json
    assert (seen["count"], seen["at_least"]) == (2, False)
    assert {one["condition"]: one["count"] for one in seen["conditions"]} == {
        "tags: seen": 12,
        "attributes.number: 3": 1,
        "contacts": 1,
        "exclude": 1,
    }
    assert [one["key"] for one in seen["sample"]] == ["seen-3", "more-1"]
    assert len(admin.post("/audience", {"audience": {"tags": ["seen"]}}).json["sample"]) == 10
    assert admin.post("/audience", {"audience": {"status": "lead", "tags": ["more"]}}).json["count"] == 3
    for wrong, path in (
        ({"tag": 1}, "$.audience.tag"),
        ({}, "$.audience"),
        ({"contacts": ["no"]}, "$.audience.contacts"),
    ):
        assert list(admin.post("/audience", {"audience": wrong}).faults) == [path]


async def test_counting_ends_at_ten_thousand(admin: Caller, inside: Connection) -> None:
    await inside.execute(
        """INSERT INTO dispatcher.contacts (tenant_id, workspace_id, key, status, updated_by, tags)
           SELECT 'default', 'default', 'many-' || n, 'active', 'test', '{many}' FROM generate_series(1, 10001) AS n"""
    )
    seen = admin.post("/audience", {"audience": {"tags": ["many"], "exclude": ["many-1"]}}).json
    assert (seen["count"], seen["at_least"]) == (10_000, False)
    assert seen["conditions"][0] == {"condition": "tags: many", "count": 10_000, "at_least": True}
