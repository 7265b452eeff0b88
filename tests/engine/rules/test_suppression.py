"""Suppression: what stops which delivery."""

import pytest
from msgspec.structs import replace

from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.suppression import SOURCES, Known, Source, Suppression, suppression_reason
from tests.engine.stage import claimed

PLAIN = claimed(1)
NEWS = claimed(2, topic="news")
RECEIPT = claimed(3, lane=Lane.TRANSACTIONAL)
ALARM = claimed(4, lane=Lane.TRANSACTIONAL, topic="alarms")


def _known(source: Source, reason: str = "", channel: str = "") -> Known:
    return Known([Suppression(channel, source, reason)])


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "unsubscribe"])
def test_a_suppressed_address_gets_nothing_in_any_lane(source: Source) -> None:
    for item in (PLAIN, NEWS, RECEIPT, ALARM):
        assert suppression_reason(item, _known(source, "why")) == f"suppressed: {source}: why"


def test_unsubscribed_from_everything_is_all_but_transactional_deliveries_without_a_topic() -> None:
    known = _known("unsubscribe")
    assert [suppression_reason(item, known) for item in (PLAIN, NEWS, ALARM)] == ["unsubscribed: from everything"] * 3
    assert suppression_reason(RECEIPT, known) is None


def test_unsubscribed_from_a_topic_is_that_topic_in_every_lane() -> None:
    known = Known(unsubscribed={"news", "alarms"})
    assert suppression_reason(NEWS, known) == "unsubscribed: from news"
    assert suppression_reason(ALARM, known) == "unsubscribed: from alarms"
    assert suppression_reason(PLAIN, known) is None
    assert suppression_reason(replace(NEWS, topic="other"), known) is None


def test_a_suppression_for_one_channel_leaves_the_others_alone() -> None:
    assert suppression_reason(PLAIN, _known("bounce", channel="sms")) == "suppressed: bounce"
    assert suppression_reason(PLAIN, _known("bounce", channel="voice")) is None


def test_a_bounce_is_not_hidden_by_an_unsubscription() -> None:
    known = Known([Suppression("", "unsubscribe", ""), Suppression("", "bounce", "gone")])
    assert suppression_reason(RECEIPT, known) == "suppressed: bounce: gone"
