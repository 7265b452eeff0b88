"""Campaigns in the console: what a run's page says, and what can be done to it."""

import asyncpg
import pytest
from playwright.async_api import Page

from tests.console.furniture import Furnished
from tests.support.program import Program

ROW = "SELECT paused_at IS NOT NULL AS paused, rate FROM dispatcher.campaign_runs WHERE id = $1"


async def _run(program: Program, number: str) -> tuple[bool, float | None]:
    connection = await asyncpg.connect(program.url)
    try:
        row = await connection.fetchrow(ROW, int(number))
        assert row is not None
        return row["paused"], row["rate"]
    finally:
        await connection.close()


async def test_a_run_is_slowed_down_and_says_how_far_it_is(
    visitor: Page, furnished: Furnished, serving: Program
) -> None:
    number = furnished.names["campaign-runs.campaign_run_id"]
    await visitor.goto("/console/campaigns")
    await visitor.get_by_role("row", name="spring-2026").get_by_role("link", name=f"Run {number}").click()
    assert "335,907 messages will not be sent until it is resumed" in await visitor.inner_text(".verdict")
    assert await visitor.inner_text(".big >> text=%") == "72.1 %"
    await visitor.click("text=Rate…")
    await visitor.fill("dialog [name=rate]", "50")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=has its new rate")
    assert await _run(serving, number) == (True, 50.0)


@pytest.mark.usefixtures("furnished")
async def test_a_test_goes_to_the_addresses_and_is_shown(visitor: Page, serving: Program) -> None:
    await visitor.goto("/console/campaigns/spring-2026")
    await visitor.click("text=Test…")
    await visitor.fill("dialog [name=recipients]", "kim@example.org\nlea@example.org")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=The test is on its way")
    number = visitor.url.rsplit("/", 1)[1]
    await visitor.click("text=Pause…")
    await visitor.fill("dialog [name=reason]", "the price is wrong")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=is paused")
    assert (await _run(serving, number))[0]


@pytest.mark.usefixtures("furnished")
async def test_a_plan_shows_messages_and_who_is_skipped(visitor: Page) -> None:
    await visitor.goto("/console/campaigns/spring-2026/plan")
    assert "2 messages would be sent to 3 contacts" in await visitor.inner_text(".verdict")
    assert "20 % for you, ann" in await visitor.inner_text("article:first-of-type summary")
    assert "no address" in await visitor.inner_text("table")
