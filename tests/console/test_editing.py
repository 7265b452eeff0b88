"""Definitions that are made and changed by forms, by plain HTTP: what was typed is stored, nobody is overwritten."""

import re
from html import unescape
from typing import Any

import pytest

from tests.console.browsing import Browsing
from tests.console.furniture import Furnished
from tests.support.caller import Caller, make_key
from tests.support.program import Program

FIELD = re.compile(r'<(?:input|select|textarea)[^>]* name="([^"]+)"')
TEXT = re.compile(r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>', re.DOTALL)
INPUT = re.compile(r'<input[^>]* name="([^"]+)"[^>]*? value="([^"]*)"')
CHOSEN = re.compile(r'<select[^>]* name="([^"]+)"(?:(?!</select>).)*?<option value="([^"]*)" selected', re.DOTALL)


@pytest.fixture(scope="module")
def editor(serving: Program, furnished: Furnished) -> Browsing:
    """An administrator of the furnished workspace."""
    assert furnished.names
    found = Browsing(serving)
    assert found.sign_in(make_key(serving)) == 303
    return found


def drawn(editor: Browsing, path: str) -> dict[str, str]:
    """The fields of a form, with what stands in them."""
    status, page = editor.ask("GET", path)
    assert status == 200, page
    form = page[page.index('<form class="box action"') :]
    found = dict.fromkeys(FIELD.findall(form), "")
    for pattern in (INPUT, TEXT, CHOSEN):
        found |= {name: unescape(text) for name, text in pattern.findall(form)}
    return found


def send(editor: Browsing, path: str, fields: dict[str, str]) -> tuple[int, str]:
    """Press the button of a form."""
    return editor.ask("POST", path, fields, sec_fetch_site="same-origin")


# Of each kind: what a new one is made of, its name in the API, and a field that is then changed.
KINDS: dict[str, tuple[dict[str, str], str, tuple[str, str, str, Any]]] = {
    "contacts": (
        {"key": "edited", "name": "Edda", "tags": "one\ntwo", "addresses": "email edda@example.org"},
        "edited",
        ("name", "Edda Lee", "name", "Edda Lee"),
    ),
    "campaigns": (
        {"name": "edited", "channel": "email", "template": "sale", "variables": '{"discount": 5}'},
        "edited",
        ("rate", "50", "rate", 50.0),
    ),
    "sequences": ({"name": "edited", "description": "of three"}, "edited", ("topic", "news", "settings", "news")),
    "rules": (
        {"trigger": "lead_welcome", "channel": "email", "audience": "edited", "steps": "[]"},
        "lead_welcome%2Femail%2Fedited",
        ("enabled", "", "enabled", False),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_definition_is_made_and_changed_by_its_forms(editor: Browsing, admin: Caller, kind: str) -> None:
    given, name, (field, typed, stored, value) = KINDS[kind]
    fresh = drawn(editor, f"/console/{kind}/new")
    assert given.keys() <= fresh.keys()
    status, page = send(editor, f"/console/{kind}/new", fresh | given)
    assert status == 303, page

    about = f"/console/{kind}/{name}"
    before = drawn(editor, f"{about}/change")
    assert send(editor, f"{about}/change", before | {field: typed})[0] == 303
    found = admin.get(f"/{kind}/{name}").json[stored]
    assert (found["topic"] if isinstance(found, dict) else found) == value


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rules"])
async def test_what_another_has_changed_meanwhile_is_not_overwritten(
    editor: Browsing, admin: Caller, furnished: Furnished, kind: str
) -> None:
    name = {"contacts": "kwame", "campaigns": "spring", "sequences": furnished.names["sequences.name"]}[kind]
    path = f"/console/{kind}/{name}/change"
    old = drawn(editor, path)
    field = {"contacts": "company", "campaigns": "topic", "sequences": "topic"}[kind]
    assert send(editor, path, old | {field: "first"})[0] == 303
    before = admin.get(f"/{kind}/{name}").json
    status, page = send(editor, path, old | {field: "second"})
    assert status == 412, page
    assert admin.get(f"/{kind}/{name}").json == before


async def test_an_address_without_a_kind_is_named_and_nothing_is_lost(editor: Browsing) -> None:
    old = drawn(editor, "/console/contacts/kwame/change")
    status, page = send(editor, "/console/contacts/kwame/change", old | {"addresses": "kwame@example.org"})
    assert status == 400
    assert "has no kind before it" in page
    assert old["addresses"] == "email kwame@example.org"


async def test_a_template_names_what_sends_it(editor: Browsing, admin: Caller) -> None:
    version: dict[str, Any] = {"channel": "email", "locales": {"en": {"parts": {"subject": "x", "text": "y"}}}}
    version |= {"default_locale": "en", "publish": True}
    assert admin.call("PUT", "/templates/plainly", version).status == 201
    campaign = {"channel": "email", "template": "plainly", "audience": {"all": True}}
    assert admin.call("PUT", "/campaigns/plain", campaign).status == 201
    rule = {"steps": [{"template": "plainly"}]}
    assert admin.call("PUT", "/rules/lead_welcome%2Femail%2Fagent", rule).status in (200, 201)
    steps = [{"dayOffset": 0, "stepOrder": 1, "channel": "email", "template": "plainly"}]
    assert admin.call("PUT", "/sequences/selling", {"steps": steps}).status == 201
    page = editor.ask("GET", "/console/templates/plainly")[1]
    used = page[page.index("<h2>Used by</h2>") :]
    for path in ("campaigns/plain", "rules/lead_welcome%2Femail%2Fagent", "sequences/selling"):
        assert f'href="/console/{path}"' in used


async def test_a_contact_is_found_by_the_words_of_its_name(editor: Browsing, admin: Caller) -> None:
    assert admin.call("PUT", "/contacts/found", {"name": "Rosalind Mary Poe"}).status in (200, 201)
    for words in ("Poe", "rosal po", "found"):
        assert "Rosalind Mary Poe" in editor.ask("GET", f"/console/contacts?q={words.replace(' ', '+')}")[1]
    assert "Nothing matches" in editor.ask("GET", "/console/contacts?q=nobody+of+this+name")[1]


async def test_the_books_of_a_run_are_checked_by_an_action(editor: Browsing, furnished: Furnished) -> None:
    path = f"/console/campaign-runs/{furnished.names['campaign-runs.campaign_run_id']}/check"
    status, page = send(editor, path, drawn(editor, path))
    assert status == 200
    assert "The books are not right" in page, "its furniture counts recipients that have no deliveries"
