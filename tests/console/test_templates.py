"""Templates in the console: what changed, previews with a contact's variables, and publishing."""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.async_api import Page

from dispatcher.console.pages.messages.template_diff import Line, changes
from tests.console.people_furniture import ANN
from tests.console.template_furniture import NAME
from tests.support.program import Program

PAGE = f"/console/templates/{quote(NAME, safe='')}"
TEXTS = st.lists(st.sampled_from(["a", "b", "", "c d"]), max_size=12)


@given(TEXTS, TEXTS)
def test_a_diff_has_every_changed_line_with_its_number(old: list[str], new: list[str]) -> None:
    for one in changes({"text": "\n".join(old)}, {"text": "\n".join(new)}):
        before, after = "\n".join(old).splitlines(), "\n".join(new).splitlines()
        assert all(before[at - 1] == text for at, text in _numbered(one.lines, new=False))
        assert all(after[at - 1] == text for at, text in _numbered(one.lines, new=True))
        assert len(after) - len(before) == one.added - one.removed


def _numbered(lines: Sequence[Line], *, new: bool) -> Iterator[tuple[int, str]]:
    for one in lines:
        if (at := one.new if new else one.old) is not None:
            yield at, one.text


@pytest.mark.usefixtures("furnished")
async def test_the_published_version_is_compared_with_the_newest(visitor: Page) -> None:
    await visitor.goto(f"{PAGE}/diff")
    assert "from v2 to v3" in await visitor.inner_text("h1")
    removed, added = (
        visitor.locator(".line-diff .del", has_text="Version"),
        visitor.locator(".line-diff .ins", has_text="Version"),
    )
    assert ("Version 2" in await removed.first.inner_text(), "Version 3" in await added.first.inner_text()) == (
        True,
        True,
    )


@pytest.mark.usefixtures("furnished")
async def test_a_preview_has_the_variables_of_a_contact(visitor: Page, serving: Program) -> None:
    connection = await asyncpg.connect(serving.url)
    await connection.execute(
        "SELECT dispatcher.put_contact('default', 'default', $1, '{\"name\": \"Ann\"}', 'update', NULL, 'shop')", ANN
    )
    await connection.close()
    await visitor.goto(f"{PAGE}/preview")
    await visitor.fill("[name=contact]", ANN)
    await visitor.click("aside button[type=submit]")
    await visitor.locator("pre", has_text="Hello Ann,").wait_for()
    frame = visitor.frame_locator("iframe")
    assert "Hello Ann," in await frame.locator("p").first.inner_text()


@pytest.mark.usefixtures("furnished")
async def test_a_version_is_published(visitor: Page, serving: Program) -> None:
    await visitor.goto(PAGE)
    await visitor.get_by_role("link", name="Publish…").click()
    await visitor.click("dialog button[type=submit]")
    await visitor.locator(".verdict", has_text="This version is published").wait_for()
    connection = await asyncpg.connect(serving.url)
    query = """SELECT v.number FROM dispatcher.templates t JOIN dispatcher.template_versions v ON v.id = t.published
                WHERE t.name = $1"""
    assert await connection.fetchval(query, NAME) == 3
    await connection.close()
