"""The renderer: every claimed delivery ends as rendered or has its result, and a template's fault is its own."""

from typing import Any

from dispatcher.domain.life import Failed, Skipped
from dispatcher.domain.unsubscribe import Links, Subscription
from tests.actors.stage import Stage, claimed


async def test_each_is_rendered_or_has_its_result(stage: Stage) -> None:
    good = claimed(1, template='{"body": "hello {{ name }}"}', variables='{"name": "Ann"}', options='{"a": 1}')
    missing = claimed(2, template='{"body": "{{ name }}"}')
    broken = claimed(3, template='{"body": "{% if %}"}')
    late = claimed(4, expired=True)
    rendered = stage.pipeline.renderer.run_once([good, missing, broken, late])
    assert [(one.item.id, one.parts, one.options) for one in rendered] == [(1, {"body": "hello Ann"}, {"a": 1})]
    outcomes = {item.id: outcome for item, outcome in stage.pipeline.inbox.waiting}
    assert isinstance(outcomes[2], Failed)
    assert "name" in outcomes[2].reason
    assert isinstance(outcomes[3], Failed)
    assert outcomes[4] == Skipped("expired")


async def test_what_cannot_be_rendered_fails_with_its_reason_and_the_others_go_out(stage: Stage) -> None:
    bad = await stage.write(2, body="{{ nobody }}")
    good = await stage.write(250)
    async with stage.playing():
        await stage.until_all(bad, "failed")
        await stage.sent_once(good)
        await stage.until_empty()
    assert "nobody" in (await stage.row(bad[0]))["error"]


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
    found = {one.item.id: one for one in renderer.run_once([topic, others, mine, asks, plain, phone])}
    assert found[1].options == {"list_unsubscribe": url}
    assert found[1].parts == {"body": url}
    assert found[2].options == {"reply_to": "x", "list_unsubscribe": url}
    assert (found[3].options, found[3].parts) == ({"list_unsubscribe": "https://u"}, {"body": "u"})
    everything = renderer.links.url(Subscription("default", "email", "ann@example.org", None))
    assert found[4].options["list_unsubscribe"] == everything
    assert (found[5].options, found[6].options) == ({}, {})
