"""Sequences in the console: previewed for a contact, and enrolments paused one by one and all together."""

import asyncpg
import pytest
from playwright.async_api import Page

from tests.console.furniture import Furnished
from tests.support.program import Program

STATUSES = "SELECT status FROM dispatcher.sequence_enrollments WHERE sequence = 'onboarding' ORDER BY id"


async def _statuses(program: Program) -> list[str]:
    connection = await asyncpg.connect(program.url)
    try:
        return [row["status"] for row in await connection.fetch(STATUSES)]
    finally:
        await connection.close()


@pytest.mark.usefixtures("furnished")
async def test_a_preview_shows_each_step_to_a_contact(visitor: Page) -> None:
    await visitor.goto("/console/sequences/onboarding")
    await visitor.click("text=Preview")
    await visitor.fill("[name=contact]", "ann")
    await visitor.click("text=Search")
    assert await visitor.locator("li.box").count() == 3
    first, *_, last = await visitor.locator("li.box > header").all_inner_texts()
    assert "would be sent" in first
    assert "ann.larsen@example.org" in first
    assert "would not be sent" in last
    await visitor.fill("[name=contact]", "nobody")
    await visitor.click("text=Search")
    assert "nobody" in await visitor.inner_text(".verdict")


async def test_enrolments_are_paused_one_by_one_and_all(visitor: Page, furnished: Furnished, serving: Program) -> None:
    assert await _statuses(serving) == ["active", "paused", "active"]
    await visitor.goto(f"/console/enrolments/{furnished.names['enrolments.enrolment_id']}")
    await visitor.click("text=Pause…")
    await visitor.fill("dialog [name=reason]", "on holiday")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=is paused")
    assert "on holiday" in await visitor.inner_text(".verdict")
    assert await _statuses(serving) == ["paused", "paused", "active"]
    await visitor.goto("/console/sequences/onboarding/enrolments")
    await visitor.click("text=Change all…")
    await visitor.check("dialog [value=cancel]")
    await visitor.check("dialog [name=confirmed]")
    await visitor.fill("dialog [name=reason]", "wrong prices")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=3 enrolments cancelled")
    assert await _statuses(serving) == ["cancelled"] * 3
