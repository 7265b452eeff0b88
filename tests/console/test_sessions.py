"""Sessions, rights and tokens: who is let in, what a role may see, and which forms are refused."""

import http.client
import re
from urllib.parse import urlencode, urlsplit

import pytest

from dispatcher.console import sessions
from tests.console.browsing import Browsing
from tests.console.furniture import Furnished
from tests.support.caller import WHY, make_key
from tests.support.program import Program

OWN = {"sec-fetch-site": "same-origin"}


@pytest.fixture
def browsing(serving: Program) -> Browsing:
    """One that is signed in as an administrator."""
    found = Browsing(serving)
    assert found.sign_in(make_key(serving)) == 303
    return found


async def test_without_a_session_every_page_leads_to_sign_in(serving: Program) -> None:
    stranger = Browsing(serving)
    assert stranger.ask("GET", "/console/deliveries?life=failed")[0] == 303
    assert stranger.headers["location"] == "/console/signin?next=%2Fconsole%2Fdeliveries%3Flife%3Dfailed"


@pytest.mark.parametrize(
    "next_", ["https://evil.example", "//evil.example", "/consoleevil", "/console\\@evil", "/runs"]
)
async def test_signing_in_leads_nowhere_else(serving: Program, next_: str) -> None:
    visitor = Browsing(serving)
    body = {"key": make_key(serving)}
    visitor.ask("POST", "/console/signin?" + urlencode({"next": next_}), body, sec_fetch_site="same-origin")
    assert visitor.headers["location"] == "/console"


async def test_the_cookie_is_kept_from_scripts_and_from_other_sites(serving: Program) -> None:
    visitor, key = Browsing(serving), make_key(serving)
    visitor.sign_in(key)
    assert visitor.headers["set-cookie"].endswith("; Path=/console; Max-Age=43200; HttpOnly; SameSite=Strict")
    visitor.sign_in(key, origin="https://console.example")
    assert visitor.headers["set-cookie"].endswith("; Secure")


async def test_a_session_ends_with_its_key(serving: Program) -> None:
    visitor = Browsing(serving)
    made = serving.run("keys", "create", "gone", "--role", "systemAdmin", *WHY)
    visitor.sign_in(made.stdout.decode().strip())
    assert visitor.ask("GET", "/console")[0] == 200
    assert serving.run("keys", "revoke", "gone", *WHY).returncode == 0
    await serving.until(lambda: visitor.ask("GET", "/console")[0] == 303, "the session is over")


async def test_a_cookie_that_was_changed_opens_nothing(browsing: Browsing) -> None:
    sealed = browsing.cookie
    for changed in (sealed[:-2] + ("AA" if sealed[-2:] != "AA" else "BB"), "A" + sealed, sealed[:40], "x"):
        browsing.cookie = changed
        assert browsing.ask("GET", "/console")[0] == 303


async def test_signing_out_takes_a_token(browsing: Browsing) -> None:
    browsing.ask("POST", "/console/signout", {"token": "x"}, **OWN)
    assert "set-cookie" not in browsing.headers
    browsing.ask("POST", "/console/signout", {"token": browsing.token("/console")}, **OWN)
    assert "Max-Age=0" in browsing.headers["set-cookie"]


@pytest.mark.parametrize(
    "headers", [{"sec_fetch_site": "cross-site"}, {"sec_fetch_site": "same-site"}, {}, {"origin": "null"}]
)
async def test_a_form_of_another_site_is_refused(
    browsing: Browsing, furnished: Furnished, headers: dict[str, str]
) -> None:
    path = f"/console/deliveries/{furnished.deliveries['pending']}/cancel"
    form = {"token": browsing.token(path), "reason": "x"}
    assert browsing.ask("POST", path, form, **headers)[0] == 403


async def test_a_form_takes_the_token_of_its_session(
    browsing: Browsing, furnished: Furnished, serving: Program
) -> None:
    path = f"/console/deliveries/{furnished.deliveries['pending']}/cancel"
    other = Browsing(serving)
    other.sign_in(make_key(serving))
    for token in ("", "x", other.token(path)):
        assert browsing.ask("POST", path, {"token": token, "reason": "x"}, **OWN)[0] == 403


async def test_a_role_sees_and_does_what_it_may(serving: Program, furnished: Furnished) -> None:
    manager = Browsing(serving)
    manager.sign_in(make_key(serving, "workflowManager"))
    status, page = manager.ask("GET", "/console")
    assert status == 200
    assert "/console/deliveries" not in page
    path = f"/console/deliveries/{furnished.deliveries['pending']}/cancel"
    assert manager.ask("GET", path)[0] == 403
    form = {"token": manager.token("/console"), "reason": "x"}
    assert manager.ask("POST", path, form, **OWN)[0] == 403


async def test_a_worker_has_no_pages(serving: Program) -> None:
    assert Browsing(serving).sign_in(make_key(serving, "workerService")) == 403


async def test_another_workspace_is_not_seen(serving: Program, furnished: Furnished) -> None:
    stranger = Browsing(serving)
    stranger.sign_in(make_key(serving, tenant="acme"))
    assert stranger.ask("GET", f"/console/deliveries/{furnished.deliveries['sent']}")[0] == 404
    assert "No deliveries yet" in stranger.ask("GET", "/console/deliveries")[1]


async def test_pages_say_what_browsers_must_not_do(browsing: Browsing, furnished: Furnished) -> None:
    browsing.ask("GET", "/console")
    assert "'unsafe" not in browsing.headers["content-security-policy"]
    assert browsing.headers["content-security-policy"].startswith("default-src 'none'")
    assert browsing.headers["cache-control"] == "no-store"
    assert browsing.headers["x-content-type-options"] == "nosniff"
    browsing.ask("GET", f"/console/deliveries/{furnished.deliveries['sent']}/html")
    assert browsing.headers["content-security-policy"].startswith("sandbox; default-src 'none'")


async def test_an_action_is_done_in_the_name_of_the_key(browsing: Browsing, furnished: Furnished) -> None:
    number = furnished.deliveries["skipped"]
    path = f"/console/deliveries/{number}/retry"
    status, page = browsing.ask("POST", path, {"token": browsing.token(path), "reason": " "}, **OWN)
    assert (status, "is required" in page) == (400, True)
    assert browsing.ask("POST", path, {"token": browsing.token(path), "reason": "why not"}, **OWN)[0] == 303
    assert browsing.headers["location"] == f"/console/deliveries/{number}"
    page = browsing.ask("GET", f"/console/deliveries/{number}")[1]
    assert "Reopen by key systemAdmin." in page
    assert "why not" in page


async def test_the_first_page_is_small(browsing: Browsing) -> None:
    total = 0
    page = browsing.ask("GET", "/console", accept_encoding="identity")[1]
    assets = re.findall(r"/console/assets/[\w.]+", page)
    assert len(assets) <= 3
    for path in ["/console", *assets]:
        place = urlsplit(browsing.program.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        connection.request(
            "GET", path, headers={"accept-encoding": "gzip", "cookie": f"{sessions.COOKIE}={browsing.cookie}"}
        )
        total += len(connection.getresponse().read())
        connection.close()
        if path.endswith(".js"):
            assert len(browsing.ask("GET", path)[1]) <= 20_000
    assert total <= 60_000
