"""The overview: its figures, its stream, and what it says when the stream is stale or cut off."""

import asyncio
import http.client
import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Browser, Page, expect

from dispatcher.console.overview.figures import figures
from dispatcher.console.overview.rates import RateMeter
from dispatcher.features.overview import models
from dispatcher.features.overview.models import Minute
from dispatcher.http.roles import Role
from tests.console.browsing import Browsing
from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program

NOW = datetime(2030, 1, 31, 8, 0, 30, tzinfo=UTC)
MINUTE = int(NOW.timestamp()) // 60 * 60


def test_a_rate_is_what_minutes_have_grown_by() -> None:
    meter = RateMeter()
    assert meter.look(0.0, [Minute(0, "sms", "bulk", "succeeded", 100)]) is None
    grown = [Minute(0, "sms", "bulk", "succeeded", 150), Minute(60, "sms", "bulk", "succeeded", 50)]
    assert meter.look(2.0, grown) == {("sms", "bulk"): 50.0}
    # The window has passed: what was sent before counts no more.
    assert meter.look(7.5, grown) == {("sms", "bulk"): 0.0} or meter.look(8.0, grown) == {}


def test_a_minute_under_way_is_divided_by_what_has_passed_of_it() -> None:
    found = models.Overview(
        at=NOW,
        throughput=[
            Minute(MINUTE, "sms", "bulk", "succeeded", 300),
            Minute(MINUTE - 60, "sms", "bulk", "succeeded", 600),
        ],
        held=[],
        dead=models.DeadCounts(0, 0, 0),
        pauses=[],
        system=None,
    )
    made = figures(found, None, Role.SYSTEM_ADMIN)
    assert dict(made.layers)["l3"][-2:] == [10.0, 10.0]
    assert made.top == 10.0
    assert made.channels[0].rate == 10.0


@pytest.mark.parametrize(("role", "links"), [(Role.SYSTEM_ADMIN, True), (Role.WORKFLOW_MANAGER, False)])
def test_what_needs_somebody_leads_only_where_the_role_may_go(role: Role, links: bool) -> None:
    needs = figures(models.OVERVIEW, None, role).needs
    assert {one.state for one in needs} >= {"held", "parked", "failed"}
    assert any(one.links for one in needs) is links


async def _events(program: Program, cookie: str, count: int) -> list[tuple[str, object]]:
    """The first events of a stream."""

    def read() -> list[tuple[str, object]]:
        place = urlsplit(program.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        connection.request(
            "GET", "/console/live", headers={"cookie": f"dispatcher_console={cookie}", "accept-encoding": "gzip"}
        )
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        found, name = list[tuple[str, object]](), ""
        while len(found) < count:
            line = answer.readline().decode().strip()
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                found.append((name, json.loads(line.removeprefix("data: "))))
        connection.close()
        return found

    return await asyncio.to_thread(read)


async def test_what_is_sent_is_counted_for_its_workspace_and_for_all(serving: Program, admin: Caller) -> None:
    other = Caller(serving, make_key(serving, tenant="acme"))

    def ended(caller: Caller) -> int:
        return sum(one["deliveries"] for one in caller.get("/overview").json["throughput"])

    before = ended(admin)
    for caller, key in ((admin, "counted-1"), (admin, "counted-2"), (other, "counted-3")):
        assert caller.post("/deliveries", delivery(key)).status == 201

    await serving.until(lambda: (ended(admin), ended(other)) == (before + 2, 1), "all are counted")

    def of_all() -> int:
        return sum(one["deliveries"] for one in admin.get("/overview").json["system"]["throughput"])

    await serving.until(lambda: of_all() >= ended(admin) + ended(other), "the sum has them")
    assert [one["version"] for one in admin.get("/overview").json["system"]["replicas"]]
    assert other.get("/overview").json["system"] is None


async def test_a_stream_sends_what_has_changed(serving: Program) -> None:
    visitor = Browsing(serving)
    visitor.sign_in(make_key(serving))
    (first, whole), (second, changed) = await _events(serving, visitor.cookie, 2)
    assert (first, second) == ("live", "live")
    assert isinstance(whole, dict)
    assert isinstance(changed, dict)
    assert {"needs", "vitals", "chart", "channels"} <= set(whole["parts"])
    assert "chart" not in changed["parts"] or changed["parts"]["chart"] != whole["parts"]["chart"]


async def test_a_page_follows_the_stream_and_says_when_it_is_cut_off(
    visitor: Page, serving: Program, admin: Caller
) -> None:
    assert admin.post("/deliveries", delivery("seen-first")).status == 201
    await visitor.goto("/console")
    await expect(visitor.locator("[data-live-state]")).to_have_text("Live")
    assert admin.post("/deliveries", delivery("seen-live", channel="push", recipient="device")).status == 201
    await expect(visitor.locator("#channels")).to_contain_text("push")
    # The stream is away: what is shown gets old, and says so.
    await visitor.route("**/console/live", lambda route: route.abort())
    await visitor.reload()
    await expect(visitor.locator("[data-live-state]")).to_contain_text("Cut off", timeout=15_000)
    assert await visitor.locator("main.stale").count() == 1


async def test_an_empty_outbox_shows_the_first_steps_and_moves_on(serving: Program, browser: Browser) -> None:
    key = make_key(serving, tenant="newcomer")
    page = await browser.new_page(base_url=serving.address)
    await page.goto("/console/signin")
    await page.fill("#key", key)
    await page.click("button[type=submit]")
    await expect(page.locator("h1")).to_have_text("It runs. Send the first message.")
    assert Caller(serving, key).post("/deliveries", delivery("first")).status == 201
    await expect(page.locator("h1")).to_have_text("Nothing needs you")
    await page.close()
