"""Keys, pauses, webhooks and schedules in the console, and who sees the configuration."""

from playwright.async_api import Page

from tests.console.browsing import Browsing
from tests.support.caller import Caller, make_key
from tests.support.program import Program


async def test_a_secret_is_shown_once_and_good(visitor: Page, serving: Program) -> None:
    await visitor.goto("/console/keys/new")
    await visitor.fill("[name=name]", "from-the-console")
    await visitor.select_option("[name=role]", "systemAdmin")
    await visitor.fill("[name=reason]", "a test")
    await visitor.click("main button[type=submit]")
    secret = await visitor.locator(".copy code").inner_text()
    assert Caller(serving, secret).get("/key").json["name"] == "from-the-console"
    await visitor.goto("/console/keys/from-the-console")
    assert secret not in await visitor.content()


async def test_a_channel_is_paused_and_resumed_with_reasons(visitor: Page, serving: Program) -> None:
    caller = Caller(serving, make_key(serving))
    await visitor.goto("/console/pauses")
    await visitor.click("text=Pause…")
    await visitor.select_option("dialog [name=scope]", "channel")
    await visitor.fill("dialog [name=name]", "voice")
    await visitor.fill("dialog [name=reason]", "the carrier is away")
    await visitor.click("dialog button[type=submit]")
    row = visitor.locator("tr", has_text="the carrier is away")
    await row.get_by_role("link", name="Resume…").click()
    assert [one["name"] for one in caller.get("/pauses?scope=channel").json["pauses"]] == ["voice"]
    await visitor.fill("dialog [name=reason]", "it is back")
    await visitor.click("dialog button[type=submit]")
    await visitor.wait_for_selector(".toast >> text=Channel voice goes on")
    assert caller.get("/pauses?scope=channel").json["pauses"] == []


async def test_what_is_wrong_with_a_form_is_said_beside_its_field(visitor: Page) -> None:
    await visitor.goto("/console/schedules/new")
    await visitor.fill("[name=name]", "never")
    await visitor.fill("[name=workflow]", "no-such-workflow")
    await visitor.fill("[name=cron]", "99 99 * * *")
    await visitor.click("main button[type=submit]")
    assert await visitor.locator("[name=cron][aria-invalid]").count() == 1
    assert await visitor.input_value("[name=workflow]") == "no-such-workflow"


async def test_only_operators_see_the_configuration(serving: Program, visitor: Page) -> None:
    await visitor.goto("/console/configuration")
    assert "database" in await visitor.locator("main").inner_text()
    other = Browsing(serving)
    assert other.sign_in(make_key(serving, "systemAdmin", "acme", "default")) == 303
    assert other.ask("GET", "/console/configuration")[0] == 403
