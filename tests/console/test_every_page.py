"""Every page, with script in each of its texts: it opens without a fault, fits a phone, and keeps nobody out."""

import pytest
from playwright.async_api import Page

from dispatcher.console.page import discovered
from tests.console.furniture import Furnished
from tests.console.looking import faults
from tests.support.examples import is_chosen

PAGES = sorted({page.path for page in discovered() if not page.raw and page.act is None})
FORMS = sorted({page.path for page in discovered() if page.act is not None})


@pytest.mark.parametrize("path", PAGES)
async def test_a_page_has_no_fault(onlooker: Page, furnished: Furnished, path: str) -> None:
    # Pages have one frame and its parts in common: axe looks at a third of them in each run.
    axe = is_chosen(path, 3)
    assert await faults(onlooker, "/console" + furnished.path(path).rstrip("/"), axe=axe) == []


async def test_no_form_has_a_fault(onlooker: Page, furnished: Furnished) -> None:
    """All are drawn from one template: a few are enough for axe, and one browser for all."""
    found = {}
    for number, path in enumerate(FORMS):
        if wrong := await faults(onlooker, "/console" + furnished.path(path), axe=number % 10 == 0):
            found[path] = wrong
    assert found == {}
