"""Rules in the console: switched off and on, and explained."""

import pytest
from playwright.async_api import Page

from tests.console.furniture import Furnished
from tests.console.looking import serious

RULE = "order_paid/email/lead"


async def test_a_rule_is_disabled_and_enabled(visitor: Page, furnished: Furnished) -> None:
    await visitor.goto("/console/rules")
    await visitor.click(f"text={RULE}")
    assert "sends 1 message to each recipient" in await visitor.inner_text(".verdict")
    for verb in ("Disable", "Enable"):
        await visitor.click(f"text={verb}…")
        await visitor.click("dialog button[type=submit]")
        await visitor.wait_for_selector(f".toast >> text={RULE} is {verb.lower()}d.")
        assert ("It is disabled" in await visitor.inner_text(".verdict")) == (verb == "Disable")
    assert furnished.names["rules.name"] in visitor.url


@pytest.mark.usefixtures("furnished")
async def test_an_event_is_explained_and_nothing_of_it_runs(visitor: Page) -> None:
    await visitor.goto("/console/rules/explain?trigger=order_paid")
    await visitor.click("button:text-is('Explain')")
    boxes = visitor.locator("article")
    assert await boxes.count() == 2
    email, sms = await boxes.all_inner_texts()
    assert "ann@example.org" in email
    assert "Order 17 is paid" in email
    assert "The rule is disabled" in sms
    assert await visitor.evaluate("broken") == []
    assert await serious(visitor) == []
    await visitor.fill("#event", '{"order": {"id": 2291}, "lead": {"name": "Kwame"}}')
    await visitor.click("button:text-is('Explain')")
    assert "skipped" in await boxes.first.inner_text()
    assert "No recipient" in await boxes.first.inner_text()
    await visitor.fill("#event", "[1]")
    await visitor.click("button:text-is('Explain')")
    assert "is not an object of JSON" in await visitor.inner_text(".verdict")
    assert await visitor.input_value("#event") == "[1]"
