"""Campaigns, sequences and rules in the console: where there is nothing yet, and for roles that may not do all."""

import pytest
from playwright.async_api import Browser

from tests.console.browsing import signed_in
from tests.console.conftest import visiting
from tests.console.furniture import Furnished
from tests.console.looking import faults
from tests.support.caller import make_key
from tests.support.program import Program

LISTS = ("/campaigns", "/campaign-runs", "/sequences", "/rules", "/rules/explain")
OPERATORS = (
    "/campaigns/{name}",
    "/campaign-runs/{campaign_run_id}",
    "/campaign-runs/{campaign_run_id}/deliveries",
    "/campaign-runs/{campaign_run_id}/log",
    "/sequences/{name}/enrolments",
    "/enrolments/{enrolment_id}",
)
MANAGERS = ("/sequences/{name}", "/sequences/{name}/preview", "/rules/{name}")


async def test_an_empty_workspace_says_what_to_do(browser: Browser, serving: Program) -> None:
    async with visiting(serving, browser, signed_in(serving, make_key(serving, tenant="empty"))) as context:
        page = await context.new_page()
        found = {path: await faults(page, f"/console{path}") for path in LISTS}
    assert found == {path: [] for path in LISTS}


@pytest.mark.parametrize(
    ("role", "paths", "hidden"),
    [("triggerOperator", OPERATORS, "a[href*='deliveries/']"), ("workflowManager", MANAGERS, "text=Enrol…")],
)
async def test_a_role_sees_what_it_may(
    browser: Browser, serving: Program, furnished: Furnished, role: str, paths: tuple[str, ...], hidden: str
) -> None:
    async with visiting(serving, browser, signed_in(serving, make_key(serving, role))) as context:
        page = await context.new_page()
        for path in paths:
            assert await faults(page, f"/console{furnished.path(path)}", axe=False) == []
            assert await page.locator(hidden).count() == 0
