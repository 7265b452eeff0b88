"""Looking: what is wrong with a page, as a browser and axe see it."""

from functools import cache
from importlib import resources
from typing import Any

from playwright.async_api import ConsoleMessage, Page, ViewportSize

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
PAGE_BYTES_MAX = 150_000
# What stands in every text that is shown; it must stay a text.
PLANT = '"><script>planted()</script><img src=x onerror=planted()>'
INIT = """
    window.broken = [];
    window.planted = () => window.broken.push("planted script ran");
    window.addEventListener("error", (event) =>
        window.broken.push(event.message || `cannot load ${event.target.src}`), true);
    document.addEventListener("securitypolicyviolation", (event) =>
        window.broken.push(`policy: ${event.violatedDirective} ${event.blockedURI}`));
"""
# What a browser says about the script that it blocks in a message's frame, and about a page that answers a problem.
_EXPECTED = ("frame is sandboxed", '"img-src data:"', "the server responded with a status of 4")
_SERIOUS = ("serious", "critical")
_AXE = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"], iframes: false});
    return found.violations.map((one) => [one.impact, one.id, one.nodes.map((node) => node.html.slice(0, 200))]);
}"""
# Two frames later: until the page is laid out anew, a scroll bar may be counted that it no longer has.
_WIDTH = """async () => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    return document.documentElement.scrollWidth - document.documentElement.clientWidth;
}"""
_PLANTED = "[...document.querySelectorAll('[onerror]')].map((one) => one.outerHTML)"
_CUT_OFF = """() => [...document.querySelectorAll("body *")]
    .filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && getComputedStyle(one).position !== "fixed")
    .slice(0, 3).map((one) => one.outerHTML.slice(0, 160))"""


@cache
def _axe() -> str:
    return resources.files("axe_playwright_python").joinpath("axe.min.js").read_text()


async def faults(page: Page, path: str, *, axe: bool = True, status: int = 200) -> list[str]:
    """Open a page at desktop and phone width; answer everything that is wrong with it."""
    said: list[str] = []

    def listen(message: ConsoleMessage) -> None:
        if message.type == "error":
            said.append(f"console: {message.text}")

    page.on("console", listen)
    answer = await page.goto(path)
    assert answer is not None
    body = await answer.body()
    found = [] if answer.status == status else [f"status {answer.status}: {body.decode()[-3000:]}"]
    if len(body) > PAGE_BYTES_MAX:
        found.append(f"{len(body)} bytes")
    found += [f"{page.url}: {one}" for one in await page.evaluate("broken")]
    found += [f"planted: {one}" for one in await page.evaluate(_PLANTED)]
    if axe:
        found += await serious(page)
    await page.set_viewport_size(PHONE)
    if (over := await page.evaluate(_WIDTH)) > 0:
        found.append(f"{over} px too wide for a phone: {await page.evaluate(_CUT_OFF)}")
    await page.set_viewport_size(DESKTOP)
    page.remove_listener("console", listen)
    return found + [one for one in said if not any(words in one for words in _EXPECTED)]


async def serious(page: Page) -> list[str]:
    """Answer what keeps people out of a page."""
    await page.evaluate(_axe())
    found: list[list[Any]] = await page.evaluate(_AXE)
    return [f"axe: {name} {nodes}" for impact, name, nodes in found if impact in _SERIOUS]
