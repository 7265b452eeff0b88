"""Contacts over HTTP: written, changed under If-Match, listed page by page, imported and deleted."""

from typing import Any

import pytest

from tests.support.caller import Caller, delivery

LATER = "2040-01-01T00:00:00Z"


def _mail(text: str) -> list[dict[str, str]]:
    return [{"address": text}]


def _graph(body: str) -> dict[str, Any]:
    node = {"id": "mail", "type": "sms", "to": "+4917012345", "body": body}
    return {"name": "tagged", "entryNodeId": "mail", "nodes": [node], "edges": []}


async def test_a_contact_is_created_changed_and_deleted_under_its_etag(admin: Caller) -> None:
    made = admin.post("/contacts", {"key": "ann", "name": "Ann", "addresses": _mail("Ann@Example.org")})
    assert (made.status, made.headers["etag"], made.json["answer"]) == (201, '"1"', "created")
    assert admin.post("/contacts", {"key": "ann"}).status == 409
    changed = admin.call("PATCH", "/contacts/ann", {"attributes": {"plan": "gold"}}, [("if-match", '"1"')])
    assert (changed.status, changed.headers["etag"]) == (200, '"2"')
    late = admin.call("PUT", "/contacts/ann", {"name": "Bob"}, [("if-match", '"1"')])
    assert (late.status, late.json["type"]) == (412, "urn:dispatcher:problem:changed")
    shown = admin.get("/contacts/ann")
    assert (shown.headers["etag"], shown.json["name"], shown.json["attributes"]) == ('"2"', "Ann", {"plan": "gold"})
    assert shown.json["addresses"] == [{"kind": "email", "address": "Ann@example.org"}]
    assert shown.json["updated_by"].startswith("key systemAdmin.")
    assert admin.call("DELETE", "/contacts/ann", headers=[("if-match", '"1"')]).status == 412
    assert admin.call("DELETE", "/contacts/ann", headers=[("if-match", '"2"')]).status == 200
    assert [admin.get("/contacts/ann").status, admin.get("/contacts/%00").status] == [404, 404]


async def test_a_tag_may_be_weak_one_of_several_or_any(admin: Caller) -> None:
    admin.post("/contacts", {"key": "tagged", "name": "a"})
    admin.call("PUT", "/workflows/tagged", _graph("a"))

    def statuses(tag: str, name: str) -> list[int]:
        contact = admin.call("PUT", "/contacts/tagged", {"name": name}, [("if-match", tag)])
        workflow = admin.call("PUT", "/workflows/tagged", _graph(name), [("if-match", tag)])
        return [contact.status, workflow.status]

    assert statuses('W/"1"', "b") == [200, 201]
    assert statuses('"1", "3"', "c") == [412, 412]
    assert statuses('"1", W/"2"', "c") == [200, 201]
    assert statuses("*", "d") == [200, 201]
    assert statuses('"*"', "e") == [412, 412]
    assert admin.call("PUT", "/contacts/missing", {"name": "a"}, [("if-match", "*")]).status == 404
    assert admin.get("/contacts/missing").status == 404


async def test_a_patch_creates_only_where_it_is_asked_to(admin: Caller) -> None:
    assert admin.call("PATCH", "/contacts/upserted", {"name": "Ann"}).status == 404
    first, second = (admin.call("PATCH", "/contacts/upserted?create=true", {"name": "Ann"}) for _ in range(2))
    assert [(one.status, one.json["answer"]) for one in (first, second)] == [(201, "created"), (200, "same")]


async def test_an_address_of_another_contact_is_refused_and_every_fault_is_named(admin: Caller) -> None:
    admin.call("PUT", "/contacts/holder", {"addresses": _mail("held@example.org")})
    taken = admin.call("PUT", "/contacts/rival", {"addresses": _mail("HELD@example.org")})
    assert (taken.status, "email held@example.org is another contact's" in taken.json["detail"]) == (409, True)
    bad = admin.call("PUT", "/contacts/rival", {"time_zone": "Mars", "tags": ["", "a"], "nam": "x"})
    assert list(bad.faults) == ["$.nam", "$.time_zone", "$.tags[0]"]
    huge = admin.call("PUT", "/contacts/rival", {"attributes": {"x": [1e300] * 200}})
    assert list(huge.faults) == ["$.attributes"]


async def test_contacts_are_listed_by_filter_and_page(admin: Caller) -> None:
    many = [{"key": f"p{n}", "company": "Paging", "tags": ["even" if n % 2 == 0 else "odd"]} for n in range(5)]
    assert admin.post("/contact-imports", {"contacts": many}).json["created"] == 5
    first = admin.get("/contacts?company=Paging&limit=3").json
    second = admin.get(f"/contacts?company=Paging&limit=3&cursor={first['next_cursor']}").json
    assert [one["key"] for one in first["contacts"] + second["contacts"]] == ["p0", "p1", "p2", "p3", "p4"]
    assert second["next_cursor"] is None
    odd = admin.get("/contacts?company=Paging&tag=odd").json["contacts"]
    assert [one["key"] for one in odd] == ["p1", "p3"]
    admin.call("PATCH", "/contacts/p1", {"addresses": [{"kind": "phone", "address": "+4917012345"}]})
    (found,) = admin.get("/contacts?address=0049%20170%2012345").json["contacts"]
    assert found["key"] == "p1"
    assert list(admin.get("/contacts?address=nobody").faults) == ["query.address"]
    behind = admin.get("/contacts?company=Paging&after=p1&limit=2").json
    assert [one["key"] for one in behind["contacts"]] == ["p2", "p3"]
    rest = admin.get(f"/contacts?company=Paging&after=p1&cursor={behind['next_cursor']}").json
    assert [one["key"] for one in rest["contacts"]] == ["p4"]


async def test_the_contact_behind_an_address_is_found_without_a_url_that_has_it(admin: Caller) -> None:
    made = {"company": "Sought", "tags": ["vip"], "addresses": _mail("Sue@example.org")}
    admin.call("PUT", "/contacts/sought", made)

    def found(**said: str) -> list[str]:
        answer = admin.post("/contact-search", {"address": "SUE@example.org"} | said).json
        assert answer["next_cursor"] is None
        return [one["key"] for one in answer["contacts"]]

    assert found() == found(company="Sought", tag="vip", status="active", kind="email", after="a") == ["sought"]
    assert [found(**other) for other in ({"company": "x"}, {"tag": "x"}, {"status": "x"}, {"after": "sought"})] == [
        []
    ] * 4
    assert found(address="nobody@example.org") == []
    assert list(admin.post("/contact-search", {"address": "nobody"}).faults) == ["$.address"]
    assert list(admin.post("/contact-search", {"company": "Sought"}).faults) == ["$.address"]


async def test_a_timeline_and_an_export_go_on_from_page_to_page(admin: Caller) -> None:
    mails = [delivery(f"t{n}", channel="email", recipient="tim@example.org", scheduled_for=LATER) for n in range(3)]
    written = [one["id"] for one in admin.post("/deliveries/batch", {"deliveries": mails}).json["deliveries"]]
    admin.call("PUT", "/contacts/tim", {"addresses": _mail("tim@example.org")})
    seen: dict[str, list[Any]] = {}
    for path, name in (("/persons/timeline", "entries"), ("/persons/export", "records")):
        cursor, seen[name] = "", []
        while True:
            page = admin.get(f"{path}?address=tim@example.org&limit=2{cursor}").json
            seen[name] += page[name]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
    assert [one["id"] for one in seen["entries"]] == written[::-1]
    assert [one["record"] for one in seen["records"]] == ["contact", *["delivery"] * 3]
    assert list(admin.get("/persons/timeline?address=tim@example.org&cursor=x").faults) == ["query.cursor"]
    assert list(admin.get("/persons/timeline").faults) == ["query.address"]


async def test_a_body_names_a_person_by_addresses_or_contact(admin: Caller) -> None:
    phone, mail = {"kind": "phone", "address": "+4917055555"}, {"kind": "email", "address": "eve@example.org"}
    admin.call("PUT", "/contacts/eve", {"addresses": [mail, phone]})
    keys = [
        admin.post("/deliveries", delivery(f"e{n}", recipient="+49 170 55555", scheduled_for=LATER)) for n in range(3)
    ]
    written = [one.json["id"] for one in keys]
    for whom in ({"contact": "eve"}, {"addresses": [{"address": "EVE@example.org"}]}, {"addresses": [phone]}):
        found = admin.post("/persons/find", whom).json["addresses"]
        assert sorted(found, key=lambda one: str(one["kind"])) == [mail, phone]
        records = paged(admin, "/persons/export", whom | {"limit": 2}, "records")
        assert [one.get("id") for one in records if one["record"] == "delivery"] == written
    entries = paged(admin, "/persons/timeline", {"address": "004917055555", "kind": "phone", "limit": 2}, "entries")
    assert [one["id"] for one in entries] == written[::-1]
    for path in ("/persons/find", "/persons/export", "/erasures"):
        why = {"reason": "x"} if path == "/erasures" else {}
        assert admin.post(path, {"contact": "nobody"} | why).status == 404
        assert list(admin.post(path, why).faults) == ["$"]
        bad = {"addresses": [{"address": "nobody"}, mail, {"address": "x", "kind": "phone"}]}
        assert list(admin.post(path, bad | why).faults) == ["$.addresses[0].address", "$.addresses[2].address"]
    for path in ("/persons/timeline", "/persons/export"):
        named = {"address": "eve@example.org"} if path == "/persons/timeline" else {"contact": "eve"}
        assert list(admin.post(path, named | {"cursor": "x"}).faults) == ["$.cursor"]


def paged(admin: Caller, path: str, body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """All pages of what a body asks for, without a key."""
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = admin.call("POST", path, body | {"cursor": cursor}).json
        found += page[name]
        cursor = page["next_cursor"]
        if cursor is None:
            return found


async def test_an_erasure_is_asked_for_once_even_when_it_is_done(admin: Caller) -> None:
    admin.call("PUT", "/contacts/zoe", {"addresses": _mail("zoe@example.org")})
    asked = {"contact": "zoe", "addresses": _mail("zed@example.org"), "reason": "zoe@example.org wants it"}
    first = admin.post("/erasures", asked, idempotency_key="of-zoe")
    place = f"/erasures/{first.json['id']}"
    await admin.program.until(lambda: admin.get(place).json["finished_at"], "it is done")
    assert len(admin.get(place).json["subjects"]) == 2
    again = admin.post("/erasures", asked, idempotency_key="of-zoe")
    assert (again.status, again.json, again.headers["idempotency-replayed"]) == (202, first.json, "true")


async def test_of_many_the_sound_ones_are_written_and_the_others_named(admin: Caller) -> None:
    many = [{"key": "i1", "name": "x"}, {"key": "i 2"}, {"key": "i3", "addresses": _mail("i@example.org")}]
    many.append({"key": "i4", "addresses": _mail("i@example.org")})
    answer = admin.post("/contact-imports", {"contacts": many, "mode": "create"}).json
    assert (answer["created"], [one["number"] for one in answer["refused"]]) == (2, [1, 3])
    assert answer["refused"][0]["faults"][0]["path"] == "$.contacts[1].key"
    again = admin.post("/contact-imports", {"contacts": many[:1]}).json
    assert (again["created"], again["same"]) == (0, 1)
    wrong = {"contacts": [], "mode": "x", "each": 1, "kind": "csv"}
    assert list(admin.post("/contact-imports", wrong).faults) == ["$.contacts", "$.mode", "$.each", "$.kind"]


async def test_of_each_that_is_imported_it_is_said_what_became_of_it(admin: Caller) -> None:
    def imported(mode: str, *contacts: object) -> Any:
        return admin.post("/contact-imports", {"contacts": contacts, "mode": mode, "each": True}).json

    first = imported("upsert", {"key": "e1"}, 7, {"key": "e2", "addresses": _mail("e2@example.org")})
    assert [(one["key"], one["answer"], one["version"]) for one in first["contacts"]] == [
        ("e1", "created", 1),
        ("e2", "created", 1),
    ]
    then = imported("update", {"key": "e2", "name": "Eve"}, {"key": "e1"}, {"key": "e3"})
    assert [(one["key"], one["answer"], one["version"]) for one in then["contacts"]] == [
        ("e2", "changed", 2),
        ("e1", "same", 1),
    ]
    refused = [*first["refused"], *then["refused"]]
    refused += imported("put", {"key": "e4", "addresses": _mail("E2@example.org")})["refused"]
    refused += imported("create", {"key": "e1"}, {"key": "e5", "attributes": {"x": [1e300] * 200}})["refused"]
    assert [(one["number"], one["key"], one["faults"][0]["path"]) for one in refused] == [
        (1, None, "$.contacts[1]"),
        (2, "e3", "$.contacts[2]"),
        (0, "e4", "$.contacts[0].addresses"),
        (0, "e1", "$.contacts[0]"),
        (1, "e5", "$.contacts[1].attributes"),
    ]
    assert admin.post("/contact-imports", {"contacts": [{"key": "e1"}]}).json["contacts"] == []


async def test_an_answer_that_is_given_again_has_its_etag(admin: Caller) -> None:
    first, again = (admin.post("/contacts", {"key": "again"}, idempotency_key="of-a-contact") for _ in range(2))
    assert (again.status, again.body, again.headers["idempotency-replayed"]) == (201, first.body, "true")
    assert again.headers["etag"] == first.headers["etag"]


@pytest.mark.parametrize(
    ("method", "path", "body", "header"),
    [
        ("PUT", "/contacts/there", {"name": "Bob"}, "If-None-Match"),
        ("PATCH", "/contacts/there", {"name": "Bob"}, "If-None-Match"),
        ("DELETE", "/contacts/there", None, "If-None-Match"),
        ("POST", "/contacts", {"key": "not-there"}, "If-Match"),
        ("POST", "/pauses", {"scope": "template", "name": "a", "reason": "x"}, "If-Match"),
    ],
)
async def test_an_ignored_condition_is_refused(
    admin: Caller, method: str, path: str, body: object, header: str
) -> None:
    """Passed over, it would let its sender overwrite what it protects."""
    admin.call("PUT", "/contacts/there", {"name": "Ann"})
    refused = admin.call(method, path, body, [(header, "*")])
    assert (refused.status, list(refused.faults)) == (400, [f"header.{header}"])
    assert admin.get("/contacts/there").json["name"] == "Ann"
    assert admin.get("/contacts/not-there").status == 404
