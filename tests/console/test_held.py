"""Held deliveries and dead letters in the console: grouped, and acted on by selection, or all that match."""

import asyncpg
import pytest
from playwright.async_api import Page

from tests.console.furniture import Furnished
from tests.support.program import Program
from tests.support.waits import until, until_heeded

HELD = """
    INSERT INTO dispatcher.deliveries (idempotency_key, channel, recipient, template, scheduled_for)
    SELECT $1 || n, 'sms', '+4917012345', '{"body": "x"}', '2040-01-01' FROM generate_series(1, $2::int) AS n
    RETURNING id
"""
HOLD = """
    UPDATE dispatcher.delivery_state SET ready = false, marked = true, held = true, token = 1, held_at = now(),
                                         error = $2
     WHERE id = ANY ($1)
"""
FAIL = """
    UPDATE dispatcher.delivery_state SET ready = false, status = 'failed', finished_at = now(), error = $2
     WHERE id = ANY ($1)
"""


async def _written(program: Program, key: str, count: int, change: str, error: str) -> list[int]:
    connection = await asyncpg.connect(program.url)
    try:
        await until_heeded(connection)
        ids = [row["id"] for row in await connection.fetch(HELD, key, count)]
        await connection.execute(change, ids, error)
        return ids
    finally:
        await connection.close()


async def _states(program: Program, ids: list[int]) -> list[str]:
    connection = await asyncpg.connect(program.url)
    try:
        query = "SELECT life FROM dispatcher.delivery_life WHERE id = ANY ($1) ORDER BY id"
        return [row["life"] for row in await connection.fetch(query, ids)]
    finally:
        await connection.close()


async def _are(program: Program, ids: list[int], state: str) -> bool:
    return set(await _states(program, ids)) == {state}


@pytest.mark.usefixtures("furnished")
async def test_a_group_is_settled_as_a_whole_and_no_other(visitor: Page, serving: Program) -> None:
    ids = await _written(serving, "group-", 3, HOLD, "no answer within 30 s")
    others = await _written(serving, "other-", 2, HOLD, "connection lost")
    await visitor.goto("/console/held")
    box = visitor.locator("section.box", has_text="no answer within 30 s")
    await box.get_by_role("link", name="Settle as failed…").click()
    await visitor.fill("dialog [name=reason]", "asked the provider")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=3 rows done")
    assert (await _states(serving, ids), await _states(serving, others)) == (["failed"] * 3, ["held"] * 2)


@pytest.mark.usefixtures("furnished")
async def test_those_selected_are_sent_again_once_that_was_confirmed(visitor: Page, serving: Program) -> None:
    first, second = await _written(serving, "pick-", 2, HOLD, "picked")
    await visitor.goto("/console/held?error=picked")
    await visitor.check(f"[data-row][value='{first}']")
    await visitor.click("[data-bulk] >> text=Send again…")
    await visitor.fill("[name=reason]", "nothing of it has arrived")
    await visitor.click("button[type=submit]:has-text('Send again')")
    assert await _states(serving, [first, second]) == ["held", "held"]
    await visitor.check("[name=confirmed]")
    await visitor.click("button[type=submit]:has-text('Send again')")
    await visitor.wait_for_selector(".toast >> text=1 row done")
    assert await _states(serving, [first, second]) == ["pending", "held"]


async def test_dead_deliveries_that_match_are_replayed(visitor: Page, furnished: Furnished, serving: Program) -> None:
    ids = await _written(serving, "dead-", 2, FAIL, "carrier is away")
    await visitor.goto("/console/dead/deliveries?error=carrier")
    await visitor.locator("section.box").get_by_role("link", name="Replay…").click()
    await visitor.fill("dialog [name=reason]", "it is back")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=2 rows done")
    # They are due at once, and their tenant is paused.
    await until(lambda: _are(serving, ids, "parked"), "they are taken up again, and parked")
    assert await _states(serving, [furnished.deliveries["failed"]]) == ["failed"]
