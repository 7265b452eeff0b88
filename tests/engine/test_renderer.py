"""The renderer: every claimed delivery ends as rendered or has its result, and a template's fault is its own."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from dispatcher.config.settings import Limits
from dispatcher.engine.renderer import BATCH_MAX
from dispatcher.engine.rules.life import Failed, Lane, Skipped
from dispatcher.engine.rules.unsubscribe_links import Links, Subscription
from dispatcher.engine.streams import Pipe
from dispatcher.liquid.template import Bounds
from dispatcher.liquid.template import Renderer as Templates
from tests.engine.stage import CONFIG, Stage, claimed
from tests.engine.troubled import Troubled
from tests.features.templates.support import draft, save
from tests.support.waits import until


async def test_each_is_rendered_or_has_its_result(stage: Stage) -> None:
    good = claimed(1, template='{"body": "hello {{ name }}"}', variables='{"name": "Ann"}', options='{"a": 1}')
    missing = claimed(2, template='{"body": "{{ name }}"}')
    broken = claimed(3, template='{"body": "{% if %}"}')
    late = claimed(4, expired=True)
    rendered = await stage.pipeline.renderer.run_once([good, missing, broken, late])
    assert [(one.item.id, one.parts, one.options) for one in rendered] == [(1, {"body": "hello Ann"}, {"a": 1})]
    outcomes = {item.id: outcome for item, outcome in stage.pipeline.inbox.waiting}
    assert isinstance(outcomes[2], Failed)
    assert "name" in outcomes[2].reason
    assert isinstance(outcomes[3], Failed)
    assert outcomes[4] == Skipped("expired")


async def test_a_delivery_that_cannot_render_fails_alone_with_its_reason(stage: Stage) -> None:
    bad = await stage.write(2, body="{{ nobody }}")
    good = await stage.write(250)
    async with stage.playing():
        await stage.until_all(bad, "failed")
        await stage.sent_once(good)
        await stage.until_empty()
    assert "nobody" in (await stage.row(bad[0]))["error"]


async def _stored(stage: Stage, number: int = 1, **fields: Any) -> list[int]:
    """Deliveries of stored templates, one each: "stored 1", "stored 2" …"""
    ids: list[int] = []
    for n in range(1, number + 1):
        await save(stage.database, draft(f"t{n}", body=f"stored {n} for {{{{ name }}}}"))
        ids += await stage.write(template=None, template_name=f"t{n}", variables='{"name": "Ann"}', **fields)
    return ids


async def _of(stage: Stage, *numbers: int) -> list[int]:
    """Further deliveries of those, for somebody else."""
    given: dict[str, Any] = {"template": None, "variables": '{"name": "Bob"}'}
    return [one for n in numbers for one in await stage.write(template_name=f"t{n}", **given)]


def _said(stage: Stage) -> dict[int, str]:
    return {envelope.delivery_id: envelope.parts["body"] for envelope in stage.sms.given}


async def test_stored_templates_are_loaded_once_beside_inline_ones(stage: Stage) -> None:
    stored = await _stored(stage, 3)
    again = await _of(stage, 1, 2, 3)
    own = await stage.write(2)
    async with stage.playing():
        await stage.sent_once([*stored, *again, *own])
        await stage.until_all(await _of(stage, 2), "sent")
    said = _said(stage)
    assert [said[one] for one in stored] == [f"stored {n} for Ann" for n in (1, 2, 3)]
    assert [said[one] for one in again] == [f"stored {n} for Bob" for n in (1, 2, 3)]
    assert {said[one] for one in own} == {"hello"}
    assert stage.database.count("templates.load") == 1


async def test_more_versions_than_are_kept_are_all_rendered_in_their_order(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, limits=Limits(templates_cached_max=2)))
    ids = await _stored(stage, 5)
    mixed = [*ids, *await stage.write(3), *await _of(stage, 1, 3, 1)]
    async with stage.playing():
        await stage.sent_once(mixed)
    assert stage.sms.ids() == mixed
    assert [_said(stage)[one] for one in mixed[-3:]] == [f"stored {n} for Bob" for n in (1, 3, 1)]


async def test_templates_evicted_during_a_batch_are_loaded_again(troubled: Troubled) -> None:
    stage = Stage(troubled, replace(CONFIG, limits=Limits(templates_cached_max=1)))
    saved = [await save(stage.database, draft(body=body)) for body in ("one", "two")]
    one, two = (f"v:{version.version_id}:default" for version in saved)
    render = stage.pipeline.renderer.run_once
    assert [said.parts["body"] for said in await render([claimed(1, template=one)])] == ["one"]
    mixed = await render([claimed(number, template=key) for number, key in enumerate((two, one, two, one))])
    assert [said.parts["body"] for said in mixed] == ["two", "one", "two", "one"]
    assert stage.pipeline.inbox.waiting == []


async def test_a_reload_that_forgets_what_was_known_fails_nothing(stage: Stage) -> None:
    """Other limits are another cache: what was loaded for the old one is loaded again."""
    first = await _stored(stage, 1)
    async with stage.playing():
        await stage.sent_once(first)
        stage.templates = Templates(Bounds(1024, 1024, 1024, 10))
        second = await _of(stage, 1)
        await stage.until_all(second, "sent")
    assert _said(stage)[second[0]] == "stored 1 for Bob"


async def test_postgres_that_is_away_while_versions_are_loaded_loses_nothing(stage: Stage) -> None:
    ids = await _stored(stage, 2)
    stage.database.lose_requests("templates.load", 2)
    async with stage.playing():
        await stage.sent_once(ids)
        await stage.until_empty()
    assert stage.database.count("templates.load") >= 3


async def test_a_drain_does_not_wait_for_a_version_that_cannot_be_loaded(stage: Stage) -> None:
    ids = await _stored(stage, 2)
    stage.database.lose_requests("templates.load", 1_000_000)
    async with stage.playing() as task:
        await until(lambda: stage.database.count("templates.load") > 1, "it tries")
        stage.pipeline.draining.set()
        await asyncio.wait_for(task, 15)
    assert await stage.lives(ids) == ["pending", "pending"]
    assert [(await stage.row(one))["recoveries"] for one in ids] == [0, 0]
    await stage.sound()


async def test_an_unpublished_template_fails_at_every_retry(stage: Stage) -> None:
    (one,) = await stage.write(template=None, template_name="nobody")
    assert await stage.lives([one]) == ["failed"]
    await stage.database.fetch("SELECT dispatcher.reopen_delivery($1, 'ann', 'why not')", one)
    async with stage.playing():
        await stage.until_all([one], "failed")
    assert (await stage.row(one))["error"] == "template_name: was not published, or its version does not exist"


async def test_a_mail_about_a_topic_has_its_link_and_what_was_given_stays(stage: Stage) -> None:
    renderer = stage.pipeline.renderer
    renderer.links = Links("https://mail.example.org", "s" * 32)
    mail: dict[str, Any] = {
        "template": '{"body": "{{ unsubscribe_url }}"}',
        "recipient": "Ann@example.org",
        "channel": "email",
    }
    url = renderer.links.url(Subscription("default", "email", "ann@example.org", "news"))
    topic = claimed(1, topic="news", **mail)
    others = claimed(2, topic="news", variables='{"a": 1}', options='{"reply_to": "x"}', **mail)
    mine = claimed(
        3, topic="news", variables='{"unsubscribe_url": "u"}', options='{"list_unsubscribe": "https://u"}', **mail
    )
    asks = claimed(4, options='{"unsubscribe": true}', **mail)
    plain = claimed(5, **(mail | {"template": '{"body": "x"}'}))
    phone = claimed(6, topic="news")
    found = {one.item.id: one for one in await renderer.run_once([topic, others, mine, asks, plain, phone])}
    assert found[1].options == {"list_unsubscribe": url}
    assert found[1].parts == {"body": url}
    assert found[2].options == {"reply_to": "x", "list_unsubscribe": url}
    assert (found[3].options, found[3].parts) == ({"list_unsubscribe": "https://u"}, {"body": "u"})
    everything = renderer.links.url(Subscription("default", "email", "ann@example.org", None))
    assert found[4].options["list_unsubscribe"] == everything
    assert (found[5].options, found[6].options) == ({}, {})


async def test_a_lane_waits_for_a_part_of_another_one_and_not_for_all_of_it(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = await _order_of_lanes(stage, monkeypatch, 3_600.0, Lane.BULK, Lane.TRANSACTIONAL)
    assert order == [Lane.BULK, Lane.TRANSACTIONAL, Lane.BULK]


@pytest.mark.parametrize(("turn_seconds_max", "turns"), [(3_600.0, 1), (0.0, 20)], ids=["quick", "slow"])
async def test_parts_that_are_rendered_within_a_turn_are_handed_on_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, turn_seconds_max: float, turns: int
) -> None:
    assert await _order_of_lanes(stage, monkeypatch, turn_seconds_max, Lane.BULK) == [Lane.BULK] * turns


async def _order_of_lanes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, turn_seconds_max: float, lane: Lane, *others: Lane
) -> list[Lane]:
    """The lanes in whose order twenty parts of one, and a delivery of each other one, are handed on."""
    monkeypatch.setattr("dispatcher.engine.renderer.TURN_SECONDS_MAX", turn_seconds_max)
    renderer, order = stage.pipeline.renderer, list[Lane]()
    monkeypatch.setattr(renderer, "_send", lambda rendered: order.append(rendered[0].item.lane))
    pipe = Pipe.of(10)
    pipe.send.send_nowait([claimed(number, lane=lane) for number in range(20 * BATCH_MAX)])
    for number, other in enumerate(others):
        pipe.send.send_nowait([claimed(-number - 1, lane=other)])
    pipe.send.close()
    await renderer.run(pipe.receive)
    pipe.receive.close()
    return order


async def test_deliveries_of_two_channels_are_never_handed_on_together(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dispatcher.engine.renderer.TURN_SECONDS_MAX", 3_600.0)
    renderer, handed = stage.pipeline.renderer, list[list[str]]()
    monkeypatch.setattr(renderer, "_send", lambda rendered: handed.append([one.item.channel for one in rendered]))
    pipe = Pipe.of(10)
    for number, channel in enumerate(("sms", "email", "email", "sms")):
        pipe.send.send_nowait([replace(claimed(number), channel=channel)])
    pipe.send.close()
    await renderer.run(pipe.receive)
    pipe.receive.close()
    assert handed == [["sms"], ["email", "email"], ["sms"]]
