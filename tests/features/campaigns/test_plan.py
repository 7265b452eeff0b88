"""The plan of a campaign: sizes, who is skipped and why, what contacts lack, messages, and the time that it takes."""

import itertools
import json
from typing import Any

import pytest

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.suppression import Candidate
from dispatcher.engine.store import suppression
from dispatcher.features.campaigns import rules, store
from dispatcher.features.campaigns.rules import Reads
from tests.features.campaigns.surface import prepare, put, write_contacts, write_template
from tests.support.caller import Caller
from tests.support.scene import Connection

HERE = Workspace()
EVERYTHING: dict[str, Any] = {"all": True}


def plan(admin: Caller, name: str) -> dict[str, Any]:
    """The plan of a campaign."""
    answer = admin.get(f"/campaigns/{name}/plan")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.json
    return found


async def test_a_plan_has_messages_sizes_reasons_and_the_time(admin: Caller) -> None:
    prepare(admin, "planned", 12, "{{ greeting }} {{ contact.name }}, {{ contact.attributes.plan }}", rate=2, topic="t")
    write_contacts(admin, "planned", 1, key="planned-mail", addresses=[{"address": "planned@example.org"}])
    assert put(admin, "planned", rate=2, topic="t", variables={"greeting": "Hi"}).status == 200
    keys = [one["key"] for one in admin.get("/contacts?tag=planned&limit=20").json["contacts"]]
    assert len(keys) == 13
    numbers = {
        one["key"]: one["addresses"][0]["address"] for one in admin.get("/contacts?tag=planned").json["contacts"]
    }
    reason = {"reason": "a test"}
    suppressed = {"suppressions": [{"address": numbers["planned-0"]}]}
    assert admin.post("/suppressions", suppressed | reason).status in (200, 201)
    unsubscribed = {"addresses": [numbers["planned-1"]], "topic": "t"}
    assert admin.post("/topics/unsubscribe", unsubscribed | reason).status == 200
    for key in ("planned-3", "planned-4"):
        assert admin.call("PATCH", f"/contacts/{key}", {"attributes": {"plan": "gold"}}).status == 200
    found = plan(admin, "planned")
    assert (found["contacts"], found["looked_at"], found["refused"]) == (13, 13, None)
    skipped = {one["reason"]: one["count"] for one in found["skipped"]}
    assert skipped == {"no address": 1, "unsubscribed: from t": 1, "suppressed: operator": 1}
    assert found["recipients"] == 13 - sum(skipped.values())
    (lacking,) = found["lacking"]
    assert (lacking["variable"], lacking["count"]) == ("contact.attributes.plan", found["recipients"] - 2)
    assert len(lacking["examples"]) == 3
    assert (found["limit_per_second"], found["seconds"]) == (2.0, found["recipients"] / 2)
    assert len(found["messages"]) == 10
    texts = {one["recipient"]: one["parts"].get("body", one["error"]) for one in found["messages"]}
    assert texts[numbers["planned-3"]] == "Hi Name 3, gold"
    assert "plan" in texts[numbers["planned-5"]]


async def test_what_nobody_gives_is_lacking_everywhere(admin: Caller) -> None:
    body = "{{ shop.name }} {{ list[1] }} {{ list[5] }} {{ contact.nickname }} {{ contact.company }} {{ contact.tags }}"
    prepare(admin, "lacks", 4, body, variables={"shop": {"name": "Z"}, "list": [1, 2]})
    found = {one["variable"]: (one["count"], len(one["examples"])) for one in plan(admin, "lacks")["lacking"]}
    assert found == {"list[5]": (4, 3), "contact.nickname": (4, 3), "contact.company": (4, 3)}


async def test_a_plan_without_limits_says_no_time(admin: Caller) -> None:
    prepare(admin, "unlimited", 1)
    found = plan(admin, "unlimited")
    assert (found["limit_per_second"], found["seconds"], found["lacking"]) == (None, None, [])


async def test_a_plan_says_why_a_deployment_would_be_refused(admin: Caller, inside: Connection) -> None:
    write_template(admin, "gone", "Hi")
    write_contacts(admin, "gone", 1)
    assert put(admin, "gone", audience={"contacts": ["gone-0"]}).status == 201
    assert admin.call("DELETE", "/contacts/gone-0").status == 200
    assert plan(admin, "gone")["refused"] == "$.audience.contacts: unknown contacts: gone-0"
    assert list(admin.post("/campaigns/gone/deploy", {}).faults) == ["$.audience.contacts"]


SOURCES = (None, "operator", "bounce", "unsubscribe")
CHANNELS = ("", "sms", "email")


async def test_suppressions_count_as_the_engine_decides(database: Database, connection: Connection) -> None:
    """Every source and channel, erased or not, expired or not, with and without a topic, in every lane."""
    await connection.execute(
        """SELECT dispatcher.put_templates('[{"tenant_id": "default", "workspace_id": "default", "name": "t",
               "channel": "sms", "default_locale": "en", "rights": [], "variables": [],
               "sources": {"en": {"parts": {"body": "x"}, "partials": {}}}}]', true, 'test')"""
    )
    numbers: list[str] = []
    for count, (source, channel, erased, expired) in enumerate(
        itertools.product(SOURCES, CHANNELS, (False, True), (False, True))
    ):
        number = f"+49170{count:06d}"
        numbers.append(number)
        said = {"addresses": [{"kind": "phone", "address": number, "written": number}]}
        await connection.execute(
            "SELECT dispatcher.put_contact('default', 'default', $1, $2::jsonb, 'put', NULL, 'test')",
            f"c{count}",
            json.dumps(said),
        )
        if source is not None:
            await connection.execute(
                """INSERT INTO dispatcher.suppressions (kind, address, channel, source, expires_at, reason)
                   VALUES ('phone', $1, $2, $3, CASE WHEN $4 THEN now() - interval '1 hour' END, 'why')""",
                number,
                channel,
                source,
                expired,
            )
        if count % 3 == 0:
            await connection.execute(
                "INSERT INTO dispatcher.topic_preferences (kind, address, topic, subscribed) "
                "VALUES ('phone', $1, $2, $3)",
                number,
                "news",
                count % 2 == 0,
            )
        if erased:
            await connection.execute("SELECT dispatcher.erase_suppressions('default', 'phone', $1)", number)
    for lane, topic in itertools.product(Lane, (None, "news", "other")):
        expected = await _engine(database, numbers, lane, topic)
        fields = {"channel": "sms", "template_name": "t", "variables": {}, "audience": EVERYTHING, "lane": lane}
        await connection.execute(
            "SELECT dispatcher.put_campaign('default', 'default', 'c', $1::jsonb, 'test')",
            json.dumps(fields | {"topic": topic}),
        )
        found = await store.plan(database, HERE, "c", Reads([], [], []), 1_000, 100)
        assert found is not None
        assert {one.reason: one.count for one in found.skipped} == expected, (lane, topic)
        assert (found.contacts, found.looked_at) == (len(numbers), len(numbers))
        assert len(found.sample) == len(numbers) - sum(expected.values())


async def _engine(database: Database, numbers: list[str], lane: Lane, topic: str | None) -> dict[str, int]:
    """How many of them the engine would skip, by source or topic."""
    candidates = [Candidate(place, "default", "sms", lane, number, topic) for place, number in enumerate(numbers)]
    counted: dict[str, int] = {}
    for reason in (await suppression.reasons(database, candidates)).values():
        short = ": ".join(reason.split(": ")[:2])
        counted[short] = counted.get(short, 0) + 1
    return counted


@pytest.mark.parametrize(
    ("name", "given", "has"),
    [
        ("a", {"a": None}, True),
        ("a.b", {"a": {}}, False),
        ("a[-1]", {"a": [1]}, True),
        ("a[1]", {"a": [1]}, False),
        ("a.b", {"a": "text"}, False),
        ("unsubscribe_url", {}, True),
    ],
)
def test_a_variable_is_there_or_not(name: str, given: dict[str, Any], has: bool) -> None:
    assert rules.reads([name], given).nowhere == ([] if has else [name])


def test_the_slowest_limit_counts() -> None:
    assert rules.slowest(None, 0.0, 5.0, 2.0) == 2.0
    assert rules.slowest(None, 0.0) is None
