"""Pictures of every page of the console: `python -m tests.console.screenshots DIR [PART OF A PATH]`.

It starts Postgres and the program, furnishes a workspace, and takes each page light, dark and on a phone.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

import asyncpg
from playwright.async_api import Browser, async_playwright

from dispatcher.console.page import discovered
from dispatcher.db import embedded
from dispatcher.db.schema import migrator
from tests.console import conftest, furniture, looking
from tests.console.browsing import signed_in
from tests.support.caller import make_key
from tests.support.program import Program

WIDE, NARROW = looking.DESKTOP, looking.PHONE


async def main(folder: Path, part: str) -> None:
    """Take them all, or those whose path has this part."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data:
        server = embedded.server_in(Path(data))
        server.ensure_pgdata_inited()
        server.start()
        try:
            await _pictures(server.get_uri(), folder, part)
        finally:
            server.cleanup()


async def _pictures(url: str, folder: Path, part: str) -> None:
    await migrator.migrate(url)
    program = Program(url)
    connection = await asyncpg.connect(url)
    try:
        await program.start()
        found = await furniture.furnish(connection, furniture.PLAIN)
        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=conftest.CHROMIUM, args=conftest.OPTIONS)
            cookie = signed_in(program, make_key(program))
            for page in discovered():
                if part in page.path and not page.raw:
                    path = found.path(page.path).rstrip("/")
                    await _picture(
                        program, browser, cookie, path, folder / (page.path.strip("/").replace("/", "_") or "overview")
                    )
            await browser.close()
    finally:
        await connection.close()
        program.end()


async def _picture(program: Program, browser: Browser, cookie: str, path: str, file: Path) -> None:
    for name, viewport, scheme in (("light", WIDE, "light"), ("dark", WIDE, "dark"), ("phone", NARROW, "light")):
        context = await browser.new_context(viewport=viewport, base_url=program.address, color_scheme=scheme)  # type: ignore[arg-type]  # one of its words
        await context.add_cookies([conftest.session_cookie(program, cookie)])
        page = await context.new_page()
        await page.goto(f"/console{path}")
        await page.screenshot(path=f"{file}-{name}.png", full_page=name == "phone")
        await context.close()
    sys.stdout.write(f"{file}\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""))
