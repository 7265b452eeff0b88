"""Contacts in the console: found, their topics and suppressions changed, exported and erased."""

import json
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest
from playwright.async_api import Page

from tests.console.people_furniture import ANN
from tests.support.program import Program

PAGE = f"/console/contacts/{quote(ANN, safe='')}"


async def _fetch(program: Program, query: str, *arguments: object) -> list[tuple[object, ...]]:
    connection = await asyncpg.connect(program.url)
    try:
        return [tuple(row) for row in await connection.fetch(query, *arguments)]
    finally:
        await connection.close()


async def _submit(visitor: Page, said: str) -> None:
    await visitor.fill("dialog [name=reason]", "asked by mail")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(f".toast >> text={said}")


@pytest.mark.usefixtures("furnished")
@pytest.mark.parametrize("text", [ANN, "Ann@Example.org", "+47 412 00118"])
async def test_a_contact_is_found_by_key_and_address(visitor: Page, text: str) -> None:
    await visitor.goto("/console/contacts")
    await visitor.fill("[name=q]", text)
    await visitor.press("[name=q]", "Enter")
    await visitor.wait_for_url("**/contacts?q=*")
    assert await visitor.locator("tbody tr").count() == 1
    await visitor.locator("tbody tr a").click()
    await visitor.wait_for_url(f"**{PAGE}")


@pytest.mark.usefixtures("furnished")
async def test_a_suppressed_address_is_written_to_again(visitor: Page, serving: Program) -> None:
    await visitor.goto(PAGE)
    await visitor.locator(".verdict.s-failed", has_text="+4741200118 is suppressed").wait_for()
    await visitor.locator("li", has_text="+4741200118").get_by_role("link", name="Lift…").click()
    await _submit(visitor, "is written to again")
    assert await _fetch(serving, "SELECT 1 FROM dispatcher.suppressions WHERE address = '+4741200118'") == []


@pytest.mark.usefixtures("furnished")
async def test_a_topic_is_unsubscribed_from(visitor: Page, serving: Program) -> None:
    await visitor.goto(f"{PAGE}/addresses/0/topics")
    await visitor.fill("[name=topic]", "tips")
    await visitor.fill("[name=reason]", "asked by mail")
    await visitor.click("button.main[type=submit]")
    await visitor.wait_for_selector(".toast")
    query = "SELECT address, subscribed FROM dispatcher.topic_preferences WHERE topic = 'tips'"
    assert await _fetch(serving, query) == [("ann@example.org", False)]


@pytest.mark.usefixtures("furnished")
async def test_the_export_has_every_record(visitor: Page) -> None:
    await visitor.goto(PAGE)
    async with visitor.expect_download() as waiting:
        await visitor.get_by_role("link", name="Export").click()
    records = [json.loads(line) for line in Path(await (await waiting.value).path()).read_text().splitlines()]
    assert {"contact", "delivery", "preference"} <= {one["record"] for one in records}


async def test_an_erasure_asks_for_the_key_and_a_confirmation(visitor: Page, serving: Program) -> None:
    contact = "SELECT dispatcher.put_contact('default', 'default', 'gone', '{}', 'put', NULL, 'key shop')"
    await _fetch(serving, contact)
    await visitor.goto("/console/contacts/gone/erase")
    await visitor.fill("[name=typed]", "gon")
    await visitor.fill("[name=reason]", "a letter")
    await visitor.check("[name=confirmed]")
    await visitor.click("button.main[type=submit]")
    await visitor.locator("text=is not gone").first.wait_for()
    query = "SELECT 1 FROM dispatcher.contacts WHERE key = 'gone'"
    assert len(await _fetch(serving, query)) == 1
    await visitor.fill("[name=typed]", "gone")
    await visitor.check("[name=confirmed]")
    await visitor.click("button.main[type=submit]")
    await visitor.wait_for_url("**/console/erasures")
    assert await _fetch(serving, query) == []
