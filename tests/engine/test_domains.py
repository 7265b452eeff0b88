"""The sender and what a channel says about one domain, or about its having no connection."""

from structlog.testing import capture_logs

from channels.contract import Throttled, Unready
from tests.engine.stage import Stage, accepted
from tests.support.metering import sample_value
from tests.support.waits import until


async def test_a_throttled_domain_waits_alone(stage: Stage) -> None:
    stage.sms.answer = lambda envelope: (
        Throttled(600.0, "slow.example") if envelope.recipient.endswith("@slow.example") else accepted(envelope)
    )
    async with stage.playing():
        first = await stage.write(1, recipient="a@slow.example")
        await until(lambda: stage.sms.given, "the first was tried")
        await stage.until_empty()
        behind = await stage.write(3, recipient="b@slow.example")
        others = await stage.write(3, recipient="c@quick.example")
        await stage.until_all(others, "sent")
        await stage.until_empty()
    assert await stage.lives([*first, *behind]) == ["pending"] * 4
    assert sorted(stage.sms.ids()) == sorted([*first, *others])
    due = await stage.database.fetch(
        "SELECT bool_and(run_at > statement_timestamp() + interval '500 s') AS later FROM dispatcher.delivery_state"
        " WHERE id = ANY ($1)",
        behind,
    )
    assert due[0]["later"]
    await stage.sound()


async def test_why_a_channel_has_no_connection_is_logged_and_shown_as_a_metric(stage: Stage) -> None:
    def ready() -> float | None:
        return sample_value(stage.metrics.registry, "dispatcher_channel_ready", channel="sms")

    stage.sms.unready = Unready("the certificate has expired: renew it")
    with capture_logs() as logs:
        async with stage.playing():
            await stage.write(1)
            await until(lambda: ready() == 0, "the metric says so")
            stage.sms.unready = None
            ids = await stage.write(1)
            await stage.until_all(ids, "sent")
            assert ready() == 1
    reasons = [line["reason"] for line in logs if line["event"] == "channel.unready"]
    assert set(reasons) == {"the certificate has expired: renew it"}
