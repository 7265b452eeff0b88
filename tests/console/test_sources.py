"""Campaigns, sequences and rules in the console: where there is nothing yet, and for roles that may not do all."""

import pytest
from playwright.async_api import Browser, Page

from tests.console.conftest import session_cookie, signed_in
from tests.console.furniture import Furnished
from tests.console.looking import DESKTOP, INIT, faults
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


async def _page(browser: Browser, program: Program, key: str) -> Page:
    cookie = await signed_in(program, browser, key)
    context = await browser.new_context(viewport=DESKTOP, base_url=program.address)
    await context.add_cookies([session_cookie(program, cookie)])
    await context.add_init_script(INIT)
    return await context.new_page()


async def test_an_empty_workspace_says_what_to_do(browser: Browser, serving: Program) -> None:
    page = await _page(browser, serving, make_key(serving, tenant="empty"))
    found = {path: await faults(page, f"/console{path}") for path in LISTS}
    await page.context.close()
    assert found == {path: [] for path in LISTS}


@pytest.mark.parametrize(
    ("role", "paths", "hidden"),
    [("triggerOperator", OPERATORS, "a[href*='deliveries/']"), ("workflowManager", MANAGERS, "text=Enrol…")],
)
async def test_a_role_sees_what_it_may(
    browser: Browser, serving: Program, furnished: Furnished, role: str, paths: tuple[str, ...], hidden: str
) -> None:
    page = await _page(browser, serving, make_key(serving, role))
    for path in paths:
        assert await faults(page, f"/console{furnished.path(path)}", axe=False) == []
        assert await page.locator(hidden).count() == 0
    await page.context.close()
