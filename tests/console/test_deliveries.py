"""Deliveries: found by what is typed, read in a sandbox, and changed with a reason, by mouse and by keyboard."""

from email.message import EmailMessage
from typing import Any

import pytest
from playwright.async_api import Page, expect

from dispatcher.console.pages.messages.delivery import read_mail
from tests.console.furniture import Furnished
from tests.console.looking import PLANT
from tests.support.caller import Caller, delivery


@pytest.fixture
def waiting(admin: Caller) -> Any:
    """A delivery that is due in 2040, with a key of its own."""

    def write(key: str, **fields: object) -> int:
        answer = admin.post("/deliveries", delivery(key, scheduled_for="2040-01-01T00:00:00Z", **fields))
        assert answer.status == 201
        return int(answer.json["id"])

    return write


async def test_the_search_box_takes_an_id_an_address_a_key_and_words_of_the_error(
    visitor: Page, furnished: Furnished, waiting: Any
) -> None:
    number = waiting(
        "sought:one",
        channel="email",
        recipient="Sought <sought@example.org>",
        body=None,
        template={"subject": "x", "text": "y"},
    )
    await visitor.goto("/console")
    await visitor.keyboard.press("/")
    await visitor.keyboard.type(str(number))
    await visitor.keyboard.press("Enter")
    await expect(visitor.locator("h1")).to_have_text("Sought <sought@example.org>")
    for words in ("SOUGHT@example.org", "sought:one"):
        await visitor.goto("/console/deliveries")
        await visitor.fill("[data-find]", words)
        await visitor.keyboard.press("Enter")
        await expect(visitor.locator("tbody tr")).to_have_count(1)
        await expect(visitor.locator("tbody")).to_contain_text("sought:one")
    await visitor.goto("/console/deliveries?q=planted()&life=failed")
    await expect(visitor.locator(f"tbody a[href$='/{furnished.deliveries['failed']}']")).to_have_count(1)
    await expect(visitor.locator("tbody .badge.s-sent")).to_have_count(0)
    await visitor.goto("/console/deliveries?q=nowhere-to-be-found")
    await expect(visitor.locator(".empty")).to_contain_text("Nothing matches")
    await visitor.goto("/console/deliveries?run_id=x")
    await expect(visitor.locator(".verdict")).to_contain_text("query.run_id")


async def test_rows_are_walked_and_opened_by_keys(visitor: Page, furnished: Furnished) -> None:
    await visitor.goto("/console/deliveries")
    second = await visitor.locator("tbody tr a").nth(1).get_attribute("href")
    for key in ("j", "j", "j", "k", "Enter"):
        await visitor.keyboard.press(key)
    await visitor.wait_for_url(f"**{second}")
    await visitor.keyboard.press("g")
    await visitor.keyboard.press("o")
    await visitor.wait_for_url("**/console")
    await visitor.keyboard.press("?")
    await expect(visitor.locator("#help")).to_be_visible()


async def test_an_action_opens_as_a_dialog_and_says_what_it_did(visitor: Page, waiting: Any) -> None:
    number = waiting("unwanted")
    await visitor.goto(f"/console/deliveries/{number}")
    await visitor.focus("text=Cancel…")
    await visitor.keyboard.press("Enter")
    await expect(visitor.locator("dialog[open] h2")).to_have_text(f"Cancel delivery {number}?")
    await expect(visitor.locator("#f-reason")).to_be_focused()
    await visitor.keyboard.press("Escape")
    await expect(visitor.locator("dialog[open]")).to_have_count(0)
    await expect(visitor.locator("text=Cancel…")).to_be_focused()
    await visitor.keyboard.press("Enter")
    await visitor.fill("#f-reason", "not wanted any more")
    await visitor.keyboard.press("Enter")
    await expect(visitor.locator(".toast")).to_have_text(f"delivery {number} is cancelled")
    await expect(visitor.locator(".trace")).to_contain_text("not wanted any more")
    await visitor.reload()
    await expect(visitor.locator(".toast")).to_have_count(0)


async def test_variables_are_changed_in_a_new_delivery(visitor: Page, furnished: Furnished) -> None:
    number = furnished.deliveries["failed"]
    await visitor.goto(f"/console/deliveries/{number}/repair")
    await visitor.fill("#f-variables", '{"name": "Ann')
    await visitor.fill("#f-reason", "it had another name")
    await visitor.click("text=Write it")
    await expect(visitor.locator("[role=alert]")).to_contain_text("is not JSON")
    await visitor.fill("#f-variables", '{"name": "Ann"}')
    await visitor.click("text=Write it")
    await expect(visitor.locator(".kv").first).to_contain_text(f"retry-of-{number}")


async def test_a_message_is_shown_where_it_can_do_nothing(visitor: Page, furnished: Furnished) -> None:
    await visitor.goto(f"/console/deliveries/{furnished.deliveries['sent']}?part=html")
    frame = visitor.frame_locator("iframe")
    await expect(frame.locator("img")).to_have_count(1)
    assert await visitor.evaluate("broken") == []
    assert await visitor.locator("iframe").get_attribute("sandbox") == ""


def test_a_mail_is_read_in_parts() -> None:
    mail = EmailMessage()
    mail["Subject"] = PLANT
    mail.set_content("as text")
    mail.add_alternative("<p>as HTML</p>", subtype="html")
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="bill.pdf")
    found = read_mail(mail.as_bytes())
    assert (found.text.strip(), found.html.strip()) == ("as text", "<p>as HTML</p>")
    assert found.attachments == [("bill.pdf", "application/pdf", 4)]
    assert dict(found.headers)["Subject"] == PLANT
    assert [name for name, _, _ in found.parts] == ["html", "text", "headers", "attachments"]
