"""Suppressions and topics over HTTP: putting addresses on the list, looking them up, and taking them off again."""

from typing import Any

from tests.support.caller import Answer, Caller, delivery, make_key
from tests.support.walking import walk

WHY = {"reason": "asked by mail"}
LATER = "2040-01-01T00:00:00Z"


def add(admin: Caller, *addresses: str, **fields: object) -> Answer:
    """Put addresses on the list."""
    return admin.post("/suppressions", {"suppressions": [{"address": one} for one in addresses]} | WHY | fields)


def check(admin: Caller, address: str, **fields: object) -> Any:
    """The entries about an address."""
    return admin.post("/suppressions/check", {"address": address} | fields).json


async def test_a_suppressed_address_gets_nothing_until_it_is_lifted(admin: Caller) -> None:
    waiting = admin.post("/deliveries", delivery("barred", recipient="+49 170 1111111", scheduled_for=LATER)).json["id"]
    done = add(admin, "+49 170 1111111", "Bob <Bob@Example.org>", "bob@example.org", source="complaint")
    assert done.json["suppressions"] == [
        {"address": "+491701111111", "kind": "phone", "suppressed": True},
        {"address": "bob@example.org", "kind": "email", "suppressed": True},
    ]

    def skipped() -> bool:
        return bool(admin.get(f"/deliveries/{waiting}").json["life"] == "skipped")

    await admin.program.until(skipped, "what was queued is skipped")
    found = check(admin, "+491701111111", channel="sms")
    assert (found["barred"], found["reason"]) == (True, "suppressed: complaint: asked by mail")
    (entry,) = found["entries"]
    assert (entry["source"], entry["channel"]) == ("complaint", "")
    assert entry["actor"].startswith("key systemAdmin.")
    back = {"addresses": ["+491701111111", "nobody@example.org"], "reason": "a mistake"}
    assert [one["removed"] for one in admin.post("/suppressions/remove", back).json["suppressions"]] == [
        ["complaint"],
        [],
    ]
    again = check(admin, "+491701111111", channel="sms")
    assert (again["barred"], [one["action"] for one in again["log"]]) == (False, ["release", "suppress"])
    assert again["log"][0]["reason"] == "a mistake"


async def test_suppressions_are_lifted_by_source_and_channel(admin: Caller) -> None:
    one = "several@example.org"
    for source in ("complaint", "bounce"):
        assert add(admin, one, source=source).status == 200
    by_mail = {"suppressions": [{"address": one, "channel": "email", "source": "import", "reason": "known"}]} | WHY
    assert admin.post("/suppressions", by_mail).status == 200

    def remove(**fields: object) -> list[str]:
        (row,) = admin.post("/suppressions/remove", {"addresses": [one]} | WHY | fields).json["suppressions"]
        return list(row["removed"])

    assert remove(channel="email") == ["import"]
    assert remove(source="bounce") == ["bounce"]
    assert remove() == ["complaint"]


async def test_all_of_the_faulty_addresses_are_named_and_none_is_added(admin: Caller) -> None:
    wrong = [
        {"address": "sound@example.org"},
        {"address": "neither"},
        {"address": "x@example.org", "channel": "smoke"},
        {"address": "y@example.org", "expires_at": "2020-01-01T00:00:00Z"},
        {"address": "+49", "kind": "phone"},
    ]
    answer = admin.post("/suppressions", {"suppressions": wrong} | WHY)
    assert set(answer.faults) == {
        "$.suppressions[1].address",
        "$.suppressions[2].channel",
        "$.suppressions[3].expires_at",
        "$.suppressions[4].address",
    }
    assert check(admin, "sound@example.org")["entries"] == []
    assert list(admin.post("/suppressions/remove", {"addresses": ["a@b.example", "no"]} | WHY).faults) == [
        "$.addresses[1]"
    ]
    assert list(admin.post("/suppressions/check", {"address": "a@b.example", "channel": "smoke"}).faults) == [
        "$.channel"
    ]


async def test_a_check_names_faults_and_writes_nothing(admin: Caller) -> None:
    looked = add(admin, "Looked@Example.org", check=True)
    assert looked.json["suppressions"] == [{"address": "looked@example.org", "kind": "email", "suppressed": False}]
    found = check(admin, "looked@example.org")
    assert (found["barred"], found["entries"], found["log"]) == (False, [], [])
    assert list(add(admin, "neither", check=True).faults) == ["$.suppressions[0].address"]


async def test_topics_are_left_and_joined_again(admin: Caller) -> None:
    said = {"topic": "news", "addresses": ["reader@example.org"]} | WHY
    assert admin.post("/topics/unsubscribe", said).json["preferences"] == [
        {"address": "reader@example.org", "kind": "email", "topic": "news", "subscribed": False}
    ]
    about = check(admin, "reader@example.org", topic="news")
    assert (about["barred"], about["reason"]) == (True, "unsubscribed: from news")
    assert check(admin, "reader@example.org", topic="offers")["barred"] is False
    assert admin.post("/topics/subscribe", said).status == 200
    assert check(admin, "reader@example.org", topic="news")["barred"] is False
    assert list(admin.post("/topics/subscribe", said | {"topic": "No such"}).faults) == ["$.topic"]


async def test_both_lists_are_walked_page_by_page(admin: Caller) -> None:
    names = [f"page{number}@example.org" for number in range(5)]
    assert add(admin, *names, "+49 170 2222222", source="import").status == 200
    for topic in ("one", "two"):
        admin.post("/topics/unsubscribe", {"topic": topic, "addresses": names[:2]} | WHY)
    rows = walk(admin, "/suppressions?source=import&kind=email")
    assert [one["address"] for one in rows] == names
    about = [(one["address"], one["topic"]) for one in walk(admin, "/topics", 1) if one["address"] in names]
    assert about == [(name, topic) for name in names[:2] for topic in ("one", "two")]
    assert [one["address"] for one in walk(admin, "/topics?topic=two", 1)] == names[:2]
    for path in ("/suppressions?cursor=nonsense", "/topics?cursor=c3VwcHJlc3Npb25zIGFmdGVyIFtd"):
        assert list(admin.get(path).faults) == ["query.cursor"]


async def test_another_tenants_list_is_another_one(admin: Caller) -> None:
    foreign = Caller(admin.program, make_key(admin.program, tenant="acme"))
    beside = Caller(admin.program, make_key(admin.program, workspace="other"))
    assert add(admin, "whose@example.org").status == 200
    assert foreign.get("/suppressions").json["suppressions"] == []
    assert check(foreign, "whose@example.org")["log"] == []
    lifted = foreign.post("/suppressions/remove", {"addresses": ["whose@example.org"]} | WHY).json["suppressions"]
    assert lifted[0]["removed"] == []
    assert check(admin, "whose@example.org")["barred"] is True
    assert check(beside, "whose@example.org")["barred"] is True
