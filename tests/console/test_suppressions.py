"""Suppressions in the console: an address is added, checked, and taken off the list."""

import asyncpg
import pytest
from playwright.async_api import Page

from tests.console.furniture import Furnished
from tests.console.looking import faults
from tests.support.program import Program


async def _sources(program: Program, address: str) -> list[str]:
    connection = await asyncpg.connect(program.url)
    try:
        rows = await connection.fetch("SELECT source FROM dispatcher.suppressions WHERE address = $1", address)
        return [row["source"] for row in rows]
    finally:
        await connection.close()


@pytest.mark.usefixtures("furnished")
async def test_addresses_are_suppressed_and_written_to_again(visitor: Page, serving: Program) -> None:
    await visitor.goto("/console/suppressions")
    await visitor.get_by_role("link", name="Suppress…").first.click()
    await visitor.fill("dialog [name=addresses]", "Cy@example.org\n+47 412 00119")
    await visitor.select_option("dialog [name=source]", "complaint")
    await visitor.fill("dialog [name=reason]", "asked by mail")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=Suppressed")
    assert [await _sources(serving, one) for one in ("cy@example.org", "+4741200119")] == [["complaint"], ["complaint"]]
    await visitor.locator("tr", has_text="cy@example.org").get_by_role("link", name="Lift…").click()
    await visitor.fill("dialog [name=reason]", "a mistake")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=Removed")
    assert [await _sources(serving, one) for one in ("cy@example.org", "+4741200119")] == [[], ["complaint"]]


async def test_a_check_says_why_nothing_is_sent(visitor: Page, furnished: Furnished) -> None:
    assert furnished.names
    assert await faults(visitor, "/console/suppressions/check?address=%2B4741200118") == []
    assert "suppressed" in await visitor.inner_text(".verdict.s-failed")
    await visitor.goto("/console/suppressions/check?address=ann%40example.org&topic=orders")
    assert "It would be sent" in await visitor.inner_text(".verdict.s-sent")
    await visitor.goto("/console/suppressions/check?address=ann%40example.org&topic=news")
    assert "It would not be sent" in await visitor.inner_text(".verdict.s-failed")
