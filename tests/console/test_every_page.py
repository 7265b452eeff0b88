"""Every page, with script in each of its texts: it opens without a fault, fits a phone, and keeps nobody out."""

import pytest
from playwright.async_api import Page

from dispatcher.console.page import discovered
from tests.console.furniture import Furnished
from tests.console.looking import faults

PATHS = sorted({page.path for page in discovered() if not page.raw})


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_has_no_fault(visitor: Page, furnished: Furnished, path: str) -> None:
    assert await faults(visitor, "/console" + furnished.path(path).rstrip("/")) == []
