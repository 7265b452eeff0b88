"""A delivery's life in names: the same in Python, in the schema and in the requirements."""

from typing import get_args

import pytest

from dispatcher.db.schema import baseline
from dispatcher.engine.rules.life import STATUSES, Lane, Outcome, Status, success_status
from dispatcher.engine.store.flushes import row


def test_the_statuses_are_the_contracts() -> None:
    assert set(STATUSES) == set(get_args(Status)) == {"queued", "sent", "called", "posted", "failed", "skipped"}
    known = ", ".join(f"'{status}'" for status in STATUSES)
    assert f"CHECK (status IN ({known}))" in baseline.text()


@pytest.mark.parametrize("channel", ["email", "sms", "whatsapp", "push", "chat", "http", "pager"])
def test_sent_is_the_success_status_of_messages(channel: str) -> None:
    assert success_status(channel) == "sent"


def test_calls_are_called_and_posts_are_posted() -> None:
    assert (success_status("voice"), success_status("social")) == ("called", "posted")


def test_the_smaller_lane_is_the_more_urgent() -> None:
    assert sorted(Lane) == [Lane.TRANSACTIONAL, Lane.NORMAL, Lane.BULK]
    assert [lane.value for lane in Lane] == [0, 1, 2]


EXAMPLE: dict[str, list[object]] = {"Again": [1.0, "why"], "Back": [1.0, "why"], "Parked": [1]}


def test_every_outcome_is_written_or_said_not_to_be() -> None:
    written = set()
    for outcome in get_args(Outcome):
        example = outcome(*EXAMPLE.get(outcome.__name__, ["why"] if outcome.__struct_fields__ else []))
        try:
            row(example)
        except ValueError:
            continue
        written.add(outcome.__name__)
    assert {one.__name__ for one in get_args(Outcome)} - written == {"Succeeded", "Lost"}
