"""The renderer: every claimed delivery ends as rendered or has its result, and a template's fault is its own."""

from dispatcher.domain.life import Failed, Skipped
from tests.actors.stage import Stage, claimed


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


async def test_what_cannot_be_rendered_fails_with_its_reason_and_the_others_go_out(stage: Stage) -> None:
    bad = await stage.write(2, body="{{ nobody }}")
    good = await stage.write(250)
    async with stage.playing():
        await stage.until_all(bad, "failed")
        await stage.sent_once(good)
        await stage.until_empty()
    assert "nobody" in (await stage.row(bad[0]))["error"]
