"""Fixtures of the console's tests: one browser, a program on a furnished workspace, and a page that is signed in."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest
from playwright._impl._api_structures import SetCookieParam
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.console import furniture
from tests.console.browsing import signed_in
from tests.console.furniture import Furnished
from tests.console.looking import DESKTOP, INIT, PLANT
from tests.support.caller import make_key
from tests.support.program import Program

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    """A Chromium that all tests of a worker share."""
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=OPTIONS)
        yield browser
        await browser.close()


@pytest.fixture(scope="module")
async def furnished(serving: Program) -> Furnished:
    """A workspace that has something of everything, with script in every text that is shown."""
    connection = await asyncpg.connect(serving.url)
    try:
        return await furniture.furnish(connection, PLANT)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def cookie(serving: Program) -> str:
    """The session of an administrator, who signed in with a key."""
    return signed_in(serving, make_key(serving))


@pytest.fixture(scope="module")
async def context(serving: Program, browser: Browser, cookie: str) -> AsyncIterator[BrowserContext]:
    """What the administrator's pages share: one for each would load everything again."""
    async with visiting(serving, browser, cookie) as context:
        yield context


@pytest.fixture
async def visitor(context: BrowserContext) -> AsyncIterator[Page]:
    """A page of the administrator's, which remembers errors and violations of the policy."""
    page = await context.new_page()
    yield page
    await page.close()


@pytest.fixture(scope="module")
async def onlooker(context: BrowserContext) -> AsyncIterator[Page]:
    """The same for tests that look at one page after another: a page of its own costs as much as looking at one."""
    page = await context.new_page()
    yield page
    await page.close()


@asynccontextmanager
async def visiting(program: Program, browser: Browser, cookie: str) -> AsyncIterator[BrowserContext]:
    """A browser that has a session."""
    context = await browser.new_context(viewport=DESKTOP, base_url=program.address)
    await context.add_cookies([session_cookie(program, cookie)])
    await context.add_init_script(INIT)
    yield context
    await context.close()


def session_cookie(program: Program, value: str) -> SetCookieParam:
    """A session as a browser is given it."""
    return {"name": "dispatcher_console", "value": value, "url": program.address + "/console", "sameSite": "Strict"}
