"""Templates over HTTP: versions, tags, publishing, several at once, and previews that write nothing."""

import asyncio
from typing import Any
from urllib.parse import quote

from tests.support.caller import Answer, Caller, exact
from tests.support.scene import Connection
from tests.support.walking import walk

TABLES = ("templates", "template_versions", "template_publications")


def said(body: str = "hello {{ name }}", **fields: object) -> dict[str, Any]:
    """A template as a request says it."""
    return {"channel": "sms", "locales": {"default": {"parts": {"body": body}}}} | fields


def put(admin: Caller, name: str, body: object, tag: str | None = None) -> Answer:
    """Save one."""
    return admin.call("PUT", f"/templates/{quote(name, safe='')}", body, [] if tag is None else [("if-match", tag)])


async def test_a_template_is_saved_shown_published_and_sent(admin: Caller) -> None:
    first = put(admin, "hello", said())
    assert (first.status, first.headers["etag"]) == (201, '"1"')
    assert first.json == {"name": "hello", "version": 1, "created": True, "published": None}
    again = put(admin, "hello", said(publish=True))
    assert (again.status, again.json["created"], again.json["published"]) == (200, False, 1)
    assert put(admin, "hello", said("good day {{ name }}")).json["version"] == 2
    shown = admin.get("/templates/hello")
    assert (shown.json["version"], shown.json["latest"], shown.json["published"]) == (2, 2, 1)
    assert (shown.json["variables"], shown.headers["etag"]) == (["name"], '"2"')
    assert shown.json["locales"] == {"default": {"parts": {"body": "good day {{ name }}"}, "partials": {}}}
    old = admin.get("/templates/hello?version=1")
    assert (old.json["version"], old.headers["etag"]) == (1, '"2"')
    assert old.json["author"].startswith("key systemAdmin.")
    assert admin.post("/templates/hello/publish", {}).json == {"name": "hello", "published": 2, "before": 1}
    assert admin.post("/templates/hello/publish", {"version": 3}).status == 404
    order = {"idempotency_key": "t", "channel": "sms", "recipient": "+4917012345", "template_name": "hello"}
    number = admin.post("/deliveries", order | {"variables": {"name": "Ann"}}).json["id"]
    delivery = admin.get(f"/deliveries/{number}").json
    versions = admin.get("/templates/hello/versions").json["versions"]
    assert [one["number"] for one in versions] == [2, 1]
    assert versions[0]["published_by"] == shown.json["author"]
    assert delivery["template_name"] == "hello"


async def test_an_unread_version_is_not_overwritten(admin: Caller) -> None:
    assert put(admin, "tag", said(), '"1"').status == 404
    assert put(admin, "tag", said()).status == 201
    assert put(admin, "tag", said("two"), '"1"').headers["etag"] == '"2"'
    late = put(admin, "tag", said("three"), '"1"')
    assert (late.status, late.json["type"]) == (412, "urn:dispatcher:problem:changed")
    at_once = await asyncio.gather(
        *(asyncio.to_thread(put, admin, "tag", said(f"at once {number}"), '"2"') for number in range(6))
    )
    assert sorted(one.status for one in at_once) == [201, *[412] * 5]
    assert admin.get("/templates/tag").json["version"] == 3


async def test_every_fault_of_a_template_has_its_place(admin: Caller) -> None:
    wrong = {
        "channel": "email",
        "locales": {
            "en": {"parts": {"subject": "{% if %}", "html": "one\n{{ x | nonsense }}"}},
            "de": {"parts": {"text": "{% render 'nowhere' %}", "smoke": "x"}},
        },
        "default_locale": "fr",
        "rights": ["everything"],
    }
    faults = put(admin, "wrong", wrong).faults
    assert {
        "$.locales.en.parts.subject",
        "$.locales.en.parts.html",
        "$.locales.de.parts.text",
        "$.locales.de.parts.smoke",
        "$",
    } <= set(faults)
    assert faults["$.locales.en.parts.html"].startswith("line 2: ")
    assert list(put(admin, "wrong", said(channel="smoke")).faults) == ["$.channel"]
    two = put(admin, "wrong", {"channel": "sms", "locales": {"en": {"parts": {"body": 1}}, "de": {"part": {}}}})
    assert set(two.faults) == {"$.locales.en.parts.body", "$.locales.de.part", "$.locales.de.parts"}
    assert put(admin, "wrong", said()).status == 201
    assert list(put(admin, "wrong", said(channel="push")).faults) == ["$.channel"]
    assert put(admin, "?", said()).status == 404


async def test_a_name_with_a_slash_stands_in_a_path_escaped(admin: Caller) -> None:
    assert put(admin, "mail/welcome", said()).json["name"] == "mail/welcome"
    assert admin.get("/templates/mail%2fwelcome").json["name"] == "mail/welcome"
    assert admin.get("/templates/mail%2Fwelcome/versions").json["versions"][0]["number"] == 1
    assert admin.get("/templates/mail/welcome").status == 404
    assert admin.get("/templates/mail%252Fwelcome").status == 404


async def test_templates_that_belong_together_are_saved_all_or_none(admin: Caller, inside: Connection) -> None:
    greeting = {"name": "set/greeting", "channel": None, "locales": {"default": {"parts": {"body": "Hello"}}}}
    mail = {"name": "set/mail"} | said("{% render 'set/greeting' %} {{ name }}")
    one = put(admin, "alone", said("{% render 'set/greeting' %}"))
    assert list(one.faults) == ["$.locales.default.parts.body"]
    before = await _all(inside)
    broken = admin.post("/templates", {"templates": [greeting, mail | said("{{")]})
    assert list(broken.faults) == ["$.templates[1].locales.default.parts.body"]
    assert list(admin.post("/templates", {"templates": [mail, mail]}).faults) == ["$.templates"]
    looked = admin.post("/templates", {"templates": [mail, greeting], "check": True}).json["templates"]
    assert [(row["created"], row["version"]) for row in looked] == [(True, None)] * 2
    assert await _all(inside) == before
    done = admin.post("/templates", {"templates": [mail, greeting], "publish": True}).json
    assert [(row["name"], row["version"], row["published"]) for row in done["templates"]] == [
        ("set/mail", 1, 1),
        ("set/greeting", 1, 1),
    ]
    assert "set/mail" not in done["others"]
    same = admin.post("/templates", {"templates": [mail, greeting], "check": True}).json["templates"]
    assert [row["created"] for row in same] == [False, False]


async def test_a_preview_renders_and_writes_nothing(admin: Caller, inside: Connection) -> None:
    several = {locale: {"parts": {"body": f"{locale} {{{{ order.amount }}}}"}} for locale in ("en", "de")}
    assert put(admin, "look", {"channel": "sms", "locales": several, "default_locale": "en"}).status == 201
    before = await _all(inside)

    def preview(**fields: object) -> Answer:
        return admin.call("POST", "/templates/look/preview", exact(fields))

    made_up = preview().json
    assert (made_up["locale"], made_up["made_up"], made_up["parts"]) == ("en", True, {"body": "en 12"})
    assert made_up["sms"] == {"encoding": "GSM-7", "segments": 1, "characters": 5}
    given = preview(locale="de-AT", variables={"order": {"amount": 1.125}})
    assert (given.json["locale"], given.json["parts"], given.json["made_up"]) == ("de", {"body": "de 1.125"}, False)
    assert b'"amount": 1.1250' in given.body
    assert "order.amount" in preview(variables={"order": {}}).faults["$.variables"]
    draft = preview(draft=said("draft {{ name }}"), variables={"name": "Ann"}).json
    assert (draft["version"], draft["parts"]) == (None, {"body": "draft Ann"})
    assert list(preview(draft=said("{{")).faults) == ["$.draft.locales.default.parts.body"]
    assert list(preview(draft=said(), version=1).faults) == ["$.version"]
    assert preview(version=7).status == 404
    assert await _all(inside) == before


async def test_templates_and_versions_are_listed_page_by_page(admin: Caller) -> None:
    for number in range(5):
        put(admin, "listed/same", said(f"version {number}"))
        assert put(admin, f"listed/{number}", said()).status == 201
    names = [one["name"] for one in walk(admin, "/templates")]
    assert [name for name in names if name.startswith("listed/")] == [
        *(f"listed/{number}" for number in range(5)),
        "listed/same",
    ]
    versions = walk(admin, "/templates/listed%2Fsame/versions")
    assert [one["number"] for one in versions] == [5, 4, 3, 2, 1]
    assert list(admin.get("/templates?cursor=nonsense").faults) == ["query.cursor"]


async def _all(inside: Connection) -> list[object]:
    return [await inside.fetch(f"SELECT * FROM dispatcher.{table} ORDER BY id") for table in TABLES]


async def test_templates_are_listed_by_their_channel(admin: Caller) -> None:
    assert put(admin, "by/sms", said()).status == 201
    assert put(admin, "by/push", said(channel="push")).status == 201
    names = [one["name"] for one in walk(admin, "/templates?channel=push")]
    assert ("by/push" in names, "by/sms" in names) == (True, False)
