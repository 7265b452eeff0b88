"""Runs in the console: acted on by forms, and drawn as far as they have come."""

import asyncpg
import pytest
from playwright.async_api import Page

from dispatcher.console.layout import NODES_MAX, laid_out
from tests.console.furniture import Furnished
from tests.support.program import Program


async def _status(program: Program, run: str) -> str:
    connection = await asyncpg.connect(program.url)
    try:
        return str(await connection.fetchval("SELECT status FROM dispatcher.runs WHERE id = $1", int(run)))
    finally:
        await connection.close()


async def _act(visitor: Page, words: str) -> None:
    await visitor.click(f".head >> text={words}…")
    await visitor.fill("dialog [name=reason]", "asked to")
    await visitor.click("dialog button[type=submit]")


async def test_a_run_is_paused_resumed_and_cancelled(visitor: Page, furnished: Furnished, serving: Program) -> None:
    run = furnished.names["runs.run_id"]
    await visitor.goto(f"/console/runs/{run}")
    assert await visitor.locator(".dag .here").count() == 1
    await _act(visitor, "Pause")
    await visitor.wait_for_selector(".toast >> text=is paused")
    assert await _status(serving, run) == "paused"
    await _act(visitor, "Resume")
    await visitor.wait_for_selector(".toast >> text=goes on")
    await _act(visitor, "Cancel")
    await visitor.wait_for_selector(".toast >> text=is cancelled")
    assert await _status(serving, run) == "cancelled"
    assert await visitor.locator(".head a.btn").all_inner_texts() == ["Run again…"]


@pytest.mark.usefixtures("furnished")
async def test_an_event_without_data_is_sent(visitor: Page, furnished: Furnished, serving: Program) -> None:
    run = furnished.names["run_id"]
    await visitor.goto(f"/console/runs/{run}/signal")
    await visitor.fill("[name=event]", "paid")
    await visitor.click("form.action button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=has the event")
    connection = await asyncpg.connect(serving.url)
    try:
        query = "SELECT name FROM dispatcher.signals WHERE run_id = $1"
        assert await connection.fetchval(query, int(run)) == "paid"
    finally:
        await connection.close()


@pytest.mark.usefixtures("furnished")
async def test_an_enrolment_leads_to_its_sequence(visitor: Page) -> None:
    await visitor.goto("/console/runs?workflow=drip")
    await visitor.click("tbody td a")
    await visitor.click("aside >> text=drip, version")
    await visitor.wait_for_url("**/console/sequences/drip")


@pytest.mark.usefixtures("furnished")
async def test_runs_are_filtered_by_a_time_in_utc(visitor: Page) -> None:
    await visitor.goto("/console/runs?since=2000-01-01T00:00:00&workflow=order-placed")
    assert await visitor.locator("tbody tr").count() == 1
    await visitor.goto("/console/runs?since=2040-01-01T00:00:00")
    await visitor.wait_for_selector("text=Nothing matches")


def test_a_large_graph_is_drawn_in_part() -> None:
    ways = {str(n): [str(n + 1)] if n < 200 else [] for n in range(201)}
    around = laid_out(ways, ["100"])
    assert len(around.places) <= NODES_MAX
    assert "100" in around.places
    assert sum(around.hidden.values()) == 2
    assert "0" in laid_out(ways, []).places


def test_nodes_of_a_column_are_a_row_apart_and_edges_pass_columns_beside_them() -> None:
    ways = {"a": ["b", "c", "d", "e"], "b": ["e"], "c": ["e"], "d": [], "e": []}
    found = laid_out(ways, [])
    every = [*found.places.values(), *found.bends.values()]
    assert len(found.bends) == 1
    for one in every:
        beside = [abs(one.row - other.row) for other in every if other is not one and other.col == one.col]
        assert min(beside, default=1) >= 1
