"""Workflows in the console: planned and triggered by a form that is made of what they read."""

import json

import asyncpg
import pytest
from msgspec.structs import replace
from playwright.async_api import Page

from dispatcher.base.errors import Fault
from dispatcher.console.forms import Field
from dispatcher.console.pages.sources import trigger_form
from dispatcher.features.workflows.models import WHOLE_WORKFLOW, WholeWorkflow
from dispatcher.http.problems import faulty
from tests.console.furniture import Furnished
from tests.console.looking import serious
from tests.console.workflow_furniture import NAME
from tests.support.program import Program

GIVEN = {"customer.name": "Ann", "customer.email": "ann@example.org", "customer.phone": "+4917012345"}


def _workflow(*reads: str, required: tuple[str, ...] = ()) -> WholeWorkflow:
    return replace(WHOLE_WORKFLOW, reads=list(reads), required_fields=required)


async def _fill(visitor: Page, **more: str) -> None:
    for path, text in {**GIVEN, "customer.device": "d-1", "order.id": "17", "order.note": "", **more}.items():
        await visitor.fill(f"[name='input.{path}']", text)
    await visitor.fill("[name='input.order.total']", "84.5")


async def _input(program: Program, key: str) -> dict[str, dict[str, object]] | None:
    connection = await asyncpg.connect(program.url)
    try:
        found = await connection.fetchval("SELECT input FROM dispatcher.runs WHERE idempotency_key = $1", key)
        return None if found is None else dict(json.loads(found))
    finally:
        await connection.close()


@pytest.mark.usefixtures("furnished")
async def test_a_run_is_planned_and_then_started_with_what_was_typed(visitor: Page, serving: Program) -> None:
    await visitor.goto(f"/console/workflows/{NAME}")
    await visitor.click(".head >> text=Plan…")
    await _fill(visitor)
    await visitor.fill("[name='input.order.note']", "a gift")
    await visitor.fill("[name=idempotency_key]", "typed")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector("text=It would come to its end")
    assert await serious(visitor) == []
    assert await visitor.locator(".trace >> text=sms to +4917012345").count() == 1
    assert await _input(serving, "typed") is None
    await visitor.click("text=Start this run")
    await visitor.wait_for_selector(".toast >> text=has begun")
    typed = await _input(serving, "typed")
    assert typed is not None
    # Types are those of the run before.
    assert typed["order"] == {"id": 17, "total": 84.5, "note": "a gift"}


@pytest.mark.usefixtures("furnished")
async def test_what_a_trigger_lacks_is_said_at_its_field(visitor: Page) -> None:
    await visitor.goto(f"/console/workflows/{NAME}/trigger")
    await _fill(visitor)
    await visitor.fill("[name='input.customer.email']", "")
    await visitor.click("form.action button[type=submit]")
    await visitor.wait_for_selector("[name='input.customer.email'][aria-invalid=true]")
    assert await visitor.input_value("[name='input.customer.name']") == "Ann"


async def test_a_run_again_has_the_input_of_that_run(visitor: Page, furnished: Furnished) -> None:
    await visitor.goto(f"/console/workflows/{NAME}/trigger?run={furnished.names['runs.run_id']}")
    assert await visitor.input_value("[name='input.order.id']") == "10482"
    await visitor.goto(f"/console/workflows/{NAME}/trigger")
    assert await visitor.input_value("[name='input.order.id']") == ""


@pytest.mark.usefixtures("furnished")
async def test_a_workflow_is_deactivated_and_activated(visitor: Page) -> None:
    await visitor.goto("/console/workflows/welcome")
    for verb in ("Deactivate", "Activate"):
        await visitor.click(f".head >> text={verb}…")
        await visitor.click("dialog button[type=submit]")
        await visitor.wait_for_selector(f".toast >> text=welcome takes {'no ' if verb == 'Deactivate' else ''}triggers")
    await visitor.wait_for_selector(".head >> text=Deactivate…")


@pytest.mark.usefixtures("furnished")
async def test_the_lines_that_changed_are_marked(visitor: Page) -> None:
    await visitor.goto(f"/console/workflows/{NAME}/changes?from=1&to=2")
    assert [line.strip() for line in await visitor.locator(".removed").all_inner_texts()] == ['-      "duration": "5d"']
    assert [line.strip() for line in await visitor.locator(".added").all_inner_texts()] == ['+      "duration": "7d"']


def test_there_is_a_field_for_each_leaf_and_for_the_whole_of_what_is_no_plain_path() -> None:
    workflow = _workflow("order.id", "customer.email", "rows[0].name", "items.size", required=("order", "rows", "zip"))
    assert trigger_form.paths(workflow) == ["zip", "order.id", "customer.email", "items", "rows"]


def test_types_and_values_come_from_an_earlier_run() -> None:
    workflow = _workflow("total", "is_gift", "rows[0]", "name")
    sample = {"total": 1.5, "is_gift": True, "rows": [1], "name": "Ann", "other": 1}
    made = {one.name: one for one in trigger_form.fields(workflow, sample, is_filled=False)}
    kinds = {name: one.kind for name, one in made.items()}
    assert kinds == {
        "input.total": "number",
        "input.is_gift": "check",
        "input.rows": "json",
        "input.name": "text",
        "more": "json",
        "idempotency_key": "text",
    }
    assert made["input.name"].value == ""
    filled = {one.name: one.value for one in trigger_form.fields(workflow, sample, is_filled=True)}
    assert (filled["input.name"], filled["more"]) == ("Ann", {"other": 1})


def test_faults_of_variables_are_told_at_their_fields() -> None:
    shown = [Field("input.order.id", "order.id"), Field("input.name", "name")]
    problem = faulty([Fault("$.order", "is missing"), Fault("$.name", "is missing"), Fault("$.x", "is missing")])
    found = trigger_form.at_fields(problem, shown)
    assert [one.path for one in found.faults] == ["$.input.order.id", "$.input.name", "$.x"]
