"""Deliveries acted on by selection or by filter, and one that is under way or was never captured; by plain HTTP."""

import http.client
import re
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from dispatcher.console.sessions import COOKIE
from tests.console.browsing import Browsing
from tests.console.furniture import Furnished
from tests.console.looking import PLANT
from tests.console.test_editing import drawn, send
from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program

PAGE_BYTES_MAX, SCRIPT_BYTES_MAX, REQUESTS_MAX = 60_000, 20_000, 4
LINKED = re.compile(r'<(?:link|script|img|iframe)[^>]* (?:href|src)="([^"]+)"')
CLAIM = """
    WITH claimed AS (
        -- Of a dispatcher that lives, and young for as long as the test takes: nobody frees it.
        INSERT INTO dispatcher.claims (token, epoch, ids, claimed_at)
        SELECT 4711, max(epoch), ARRAY[$1::bigint], now() + interval '1 hour' FROM dispatcher.instances
    )
    UPDATE dispatcher.delivery_state SET ready = false, token = 4711, marked = $2 WHERE id = $1
"""


@pytest.fixture(scope="module")
def operator(serving: Program, furnished: Furnished) -> Browsing:
    """An administrator of the furnished workspace."""
    assert furnished.deliveries
    found = Browsing(serving)
    assert found.sign_in(make_key(serving)) == 303
    return found


def _written(admin: Caller, key: str, **fields: Any) -> int:
    answer = admin.post("/deliveries", delivery(key, scheduled_for="2040-01-01T00:00:00Z", **fields))
    assert answer.status == 201, answer.body
    return int(answer.json["id"])


def _lives(admin: Caller, ids: list[int]) -> list[str]:
    return [admin.get(f"/deliveries/{one}").json["life"] for one in ids]


async def test_those_selected_are_moved_and_no_other(operator: Browsing, admin: Caller) -> None:
    first, second, third = (_written(admin, f"selected-{number}") for number in range(3))
    path = f"/console/deliveries/sweep?action=move&id={first}&id={second}"
    fields = drawn(operator, path) | {"run_at": "2041-01-01T00:00:00", "reason": "the shop is closed"}
    assert send(operator, path, fields)[0] == 303
    years = [admin.get(f"/deliveries/{one}").json["run_at"][:4] for one in (first, second, third)]
    assert years == ["2041", "2041", "2040"]


async def test_all_that_match_are_cancelled_also_on_other_pages(operator: Browsing, admin: Caller) -> None:
    ids = [_written(admin, f"matching-{number}", recipient="+4917099999") for number in range(60)]
    other = _written(admin, "not-matching")
    page = operator.ask("GET", "/console/deliveries?q=%2B4917099999")[1]
    found = re.search(r'href="(/console/deliveries/sweep\?[^"]*action=cancel[^"]*)"', page)
    assert found
    path = found[1].replace("&amp;", "&")
    fields = drawn(operator, path)
    assert send(operator, path, fields)[0] == 400, "without a reason nothing is done"
    assert set(_lives(admin, ids)) == {"pending"}
    assert send(operator, path, fields | {"reason": "not wanted"})[0] == 303
    assert (set(_lives(admin, ids)), _lives(admin, [other])) == ({"skipped"}, ["pending"])


async def test_all_of_a_workspace_have_to_be_confirmed(operator: Browsing, admin: Caller) -> None:
    number = _written(admin, "of-all")
    path = "/console/deliveries/sweep?action=cancel"
    status, page = send(operator, path, drawn(operator, path) | {"reason": "no", "confirmed": ""})
    assert status == 400
    assert "has to be ticked" in page
    assert _lives(admin, [number]) == ["pending"]


@pytest.mark.parametrize(("marked", "says"), [(False, "Claimed"), (True, "Attempt 0: marked")])
async def test_a_trace_says_what_is_under_way(
    operator: Browsing, admin: Caller, serving: Program, marked: bool, says: str
) -> None:
    number = _written(admin, f"under-way-{marked}")
    connection = await asyncpg.connect(serving.url)
    try:
        await connection.execute(CLAIM, number, marked)
        page = operator.ask("GET", f"/console/deliveries/{number}")[1]
        assert admin.get(f"/deliveries/{number}").json["marked"] is marked
    finally:
        await connection.execute("DELETE FROM dispatcher.claims WHERE token = 4711")
        await connection.close()
    assert f"<strong>{says}</strong>" in page


async def test_a_message_that_was_not_captured_is_rendered_now(operator: Browsing, admin: Caller) -> None:
    number = _written(
        admin,
        "rendered",
        channel="email",
        recipient="ann@example.org",
        body=None,
        template={"subject": "Hi {{ name }}", "text": "Dear {{ name }}", "html": "<p>{{ name }}</p>"},
        variables={"name": PLANT},
    )
    page = operator.ask("GET", f"/console/deliveries/{number}?part=text")[1]
    assert "rendered now" in page
    assert "Dear &#34;&gt;&lt;script&gt;" in page
    status, html = operator.ask("GET", f"/console/deliveries/{number}/html")
    assert (status, "<script>" in html) == (200, False)
    assert operator.headers["content-security-policy"].startswith("sandbox;")


async def test_the_first_page_is_small_and_so_is_its_script(operator: Browsing) -> None:
    page = operator.ask("GET", "/console")[1]
    paths = ["/console", *dict.fromkeys(LINKED.findall(page))]
    assert len(paths) <= REQUESTS_MAX, paths
    sizes = {}
    place = urlsplit(operator.program.address)
    for path in paths:
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        connection.request("GET", path, headers={"cookie": f"{COOKIE}={operator.cookie}", "accept-encoding": "gzip"})
        answer = connection.getresponse()
        sizes[path] = len(answer.read()) + len(str(answer.headers))
        connection.close()
    assert sum(sizes.values()) <= PAGE_BYTES_MAX, sizes
    (script,) = (path for path in paths if path.endswith(".js"))
    assert len(operator.ask("GET", script)[1].encode()) <= SCRIPT_BYTES_MAX
